"""Prompts, and their ideal answers."""

from __future__ import annotations

import ast
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ...service.explain.explanation import smallest_and_largest
from ...service.explain.reading import ReadStep, canons
from ...service.records.rows.fields import Message
from ...service.records.rows.forms import reference_text
from ...service.records.rows.rows import Fault
from ...service.rewards.batch import Batch
from ...service.rewards.registry import SCORE, SCORE_REASONS, reward_of
from ...service.rewards.scorer import Scorer
from ...service.scoring.references import ReferenceTexts
from ...service.tasks.bioplanner import MAX_DEPTH, MAX_LENGTH, Program
from ...service.tasks.bioprobench.answers import END, START, parse_python
from ...service.tasks.scirecipe_records import library_of
from ...service.tasks.sgi import END as ANSWER_END
from ...service.tasks.sgi import START as ANSWER_START
from ...service.tasks.task import OK, import_optional
from .examples import Example

REASONED = "bioprobench.rea_err"  # form of the records of ERR that are to be answered with reasons

SKETCH_AND_FILL = """\
You write laboratory protocols as plans that a program can check. Answer with four sections in this order, each once, \
with no text between them:

<think>
Your reasoning: what the question asks for, which steps it takes, and why in this order.
</think>
<key>
The plan: one line for each step and no other text.
</key>
<orc>
The same steps in prose: one line for each line of <key>, with the same number.
</orc>
<note>
What to watch: hazards, controls and common mistakes.
</note>

Lines of <key>:
- Each line has the form Step N: {"action": "…", "objects": ["…"], "parameters": ["…"]}
- N counts from 1 without gaps. After the colon, the line holds one JSON object with exactly these three names, in \
double quotes, and nothing else.
- "action" is one action as a verb or a short phrase with a verb. Two actions are two steps.
- "objects" lists what is acted on or used. "parameters" lists the conditions: amounts, times, temperatures, speeds, \
places, manners. A list may be empty: [].
- All text is lower case and short: a few words a phrase, a number together with its unit.

Lines of <orc>:
- Each line has the form Step N: and then the step as an instruction, on the same line, of at most 30 words.
- It names the action, every object and every parameter of its step with the words of <key>. An answer that leaves \
one out is worth nothing.

An example, for the question "How do I prepare a pH electrode for a measurement?":

<think>
Storage solution on the electrode would change the reading, so it is rinsed off first. Rubbing would charge the glass, \
so the electrode is only blotted.
</think>
<key>
Step 1: {"action": "rinse", "objects": ["ph electrode", "deionized water"], "parameters": ["10 s"]}
Step 2: {"action": "blot", "objects": ["ph electrode", "lint-free tissue"], "parameters": []}
</key>
<orc>
Step 1: Rinse the pH electrode with deionized water for 10 s.
Step 2: Blot the pH electrode with a lint-free tissue.
</orc>
<note>
Do not let the glass dry out between measurements.
</note>"""

GUIDANCE = {
    "overview": "Give the main phases of the whole procedure, without the details of single manipulations.",
    "specific": "Describe only the part of the procedure that is asked about, with its exact amounts and settings.",
    "retrieval": "Give the exact values, with units, of the parameters that are asked for, such as temperature or pH.",
    "planning": "Plan the procedure from its goal: choose the steps, their order and their conditions.",
    "troubleshooting": "Give the steps that find the cause of the problem and those that correct it.",
    "constraint": "Adapt the procedure to the limits in the question, so that every step respects them.",
    "scaling": "Adapt amounts, vessels and times to the scale in the question, convert units, and state new values.",
    "safety": "Include the steps that protect people, samples and the environment, from preparation to disposal.",
}

LIBRARY = "As actions of the steps, only use the following actions: "  # `library_of` reads what follows

CHOICE = f"""\
You answer multiple-choice questions about laboratory protocols. A gap in the question, written ____, is what your \
choice fills.

End your answer with one block of this form, where CHOICE is the text of one of the choices, copied exactly, and \
CONFIDENCE a whole number from 0 to 100, the probability in percent that it is right:
{START}CHOICE & CONFIDENCE{END}

Always choose one, also if you are not sure. Use no other & and these markers only once."""

ORDER = f"""\
You bring the steps of laboratory protocols into the right order.

The steps are shown in a wrong order, each after its index; indices count from 0. End your answer with one block that \
lists the indices of all steps, each once, in the order in which the steps are carried out. For three steps of which \
the last one shown comes first:
{START}[2, 0, 1]{END}"""

STEP_VERDICT = """\
You review laboratory protocols. You are shown one step of a protocol, and what is known of its context. Decide \
whether the step is right as it is written: a wrong operation, reagent or parameter makes it wrong.

"""

VERDICT = f"""\
{STEP_VERDICT}\
Answer with one block and nothing else, True for a step that is right and False for one that is wrong:
{START}True{END} or {START}False{END}"""

REASONED_VERDICT = f"""\
{STEP_VERDICT}\
Reason first. Examine the operation, then the reagents, then the parameters, and compare every amount, concentration, \
time, temperature and speed in the step with its context and with usual practice. Judge what the step says, not what \
it leaves out. If something is wrong, name it, and say what would be right.

Then end your answer with one block, the only one, True for a step that is right and False for one that is wrong:
{START}True{END} or {START}False{END}"""

CONTEXT = {"purpose": "Purpose", "prior_step": "Step before", "next_step": "Step after"}
GENERATION = """\
You write laboratory protocols as lists of steps. Write one step a line, numbered as the task asks, in the order \
in which they are carried out.

Answer with the steps only: no title, no remarks, no reasoning and no markup, because your whole answer is compared \
with a published protocol."""

PSEUDOCODE = """\
You write laboratory protocols as pseudocode: a program in Python that calls functions.

You are given a protocol's title and description, and the functions that it may call, sorted by name. Write the calls \
in the order in which the steps are carried out, one a line, with the value of each argument; a step that is repeated \
is called again. Do not define functions, import nothing, and call no other functions.

Answer with the program only: no explanation, and no ``` around it, because your whole answer is read as Python."""

WET_EXPERIMENT = f"""\
You write laboratory protocols as pseudocode. You are given a research question and a pool of actions. Write the \
actions that the experiment needs, in the order in which they are carried out.

Each step has a name for its output, the action exactly as in the pool between < and >, and every parameter of the \
action on a line of its own; a line with the closing bracket alone ends it. A value is a text in double quotes, a \
number, or the name of an earlier output:
{ANSWER_START}
extract = <Boil leaves>(
    leaves="dried leaves, 5 g",
    minutes=10
)
filtrate = <Filter extract>(
    extract=extract
)
{ANSWER_END}

End your answer with one such block. It is compared with a published protocol: the same steps, with the same \
parameters, from the same sources."""

ROWS = "rows"  # form of records that have a prompt, and a reference of any task


def prompt_name(example: Example) -> str:
    """Return the name of the prompt in PROMPTS that asks for an answer to a record."""
    return REASONED if example.dataset == REASONED else example.task


def messages_of(example: Example, actions: Sequence[str] | None) -> list[Message]:
    """Return the messages of the system and the user, or a record's own prompt; raises InvalidReference."""
    return PROMPTS[prompt_name(example)](example, actions)


def chat(system: str, user: str) -> list[Message]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def own_or(system: str, ask: Callable[[Example], str], example: Example, _: Sequence[str] | None) -> list[Message]:
    if example.dataset == ROWS and example.prompt is not None:
        return [dict(message) for message in example.prompt]
    return chat(system, ask(example))


def reference_fields(example: Example) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = reward_of(example.task).read_references(
        Batch(references=ReferenceTexts([example.reference]))
    )[0]
    return fields


def protocol(example: Example, actions: Sequence[str] | None) -> list[Message]:
    library = None if actions is None else f"{LIBRARY}{quoted(actions)}."
    return chat(SKETCH_AND_FILL, paragraphs(example.question, GUIDANCE.get(example.type or ""), library))


def quoted(actions: Iterable[str]) -> str:
    return ", ".join(f'"{action}"' for action in actions)


def choice(example: Example) -> str:
    choices = example.record.get("choices")
    if not isinstance(choices, list):
        return example.question
    return paragraphs(f"Question:\n{example.question}", f"Choices:\n{bulleted(choices)}")


def bulleted(choices: Iterable[str]) -> str:
    return "\n".join(f"- {option}" for option in choices)


def order(example: Example) -> str:
    return paragraphs(example.question, f"Steps:\n{indexed(reference_fields(example)['wrong_steps'])}")


def indexed(steps: Iterable[str]) -> str:
    return "\n".join(f"{index}: {step}" for index, step in enumerate(steps))


def verdict(example: Example) -> str:
    context = context_of(example)
    return paragraphs(f"Step:\n{example.question}", f"Context:\n{context}" if context else None)


def context_of(example: Example) -> str:
    """Return what a record of ERR says of its context, one line for each part that it has."""
    context = example.record.get("context")
    about = context if isinstance(context, Mapping) else {}
    return "\n".join(f"{title}: {about[name]}" for name, title in CONTEXT.items() if about.get(name))


def generation(example: Example) -> str:
    instruction = example.record.get("instruction")
    return paragraphs(instruction if isinstance(instruction, str) else None, example.question)


def pseudocode(example: Example) -> str:
    functions = signatures_in(reference_fields(example)["ground_truth"])
    return paragraphs(f"Title: {example.question}", "\n".join(["Functions:", *functions]))


def wet_experiment(example: Example) -> str:
    """Return the question, and the pool of actions unless the question has it."""
    pool = example.record.get("action_pool")
    is_new = isinstance(pool, str) and pool.strip() not in example.question
    return paragraphs(example.question, pool if is_new else None)


def signatures_in(program: str) -> list[str]:
    """Return a program's functions, sorted by name because their order could show the order of the calls."""
    signatures = {name: f"{name}(…)" for name in Program(program).names()}
    for node in ast.walk(parse_python(program, MAX_LENGTH, MAX_DEPTH)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            signatures[node.name] = f"{node.name}({', '.join(names)})"
    return [signatures[name] for name in sorted(signatures)]


def paragraphs(*texts: str | None) -> str:
    return "\n\n".join(text.strip() for text in texts if text and text.strip())


PROMPTS: dict[str, Callable[[Example, Sequence[str] | None], list[Message]]] = {
    SCORE: protocol,
    "bioprobench.pqa": partial(own_or, CHOICE, choice),
    "bioprobench.ord": partial(own_or, ORDER, order),
    "bioprobench.err": partial(own_or, VERDICT, verdict),
    REASONED: partial(own_or, REASONED_VERDICT, verdict),
    "lexical": partial(own_or, GENERATION, generation),
    "bioplanner": partial(own_or, PSEUDOCODE, pseudocode),
    "sgi.wet_experiment": partial(own_or, WET_EXPERIMENT, wet_experiment),
}
"""The prompts for each task with rewards, and for records that are to be answered with reasons."""


def ideal_answer(example: Example) -> str:
    """Return the answer that an example's reference describes; raises InvalidReference."""
    return ANSWERS[example.task](example)


def key_lines(steps: Iterable[ReadStep]) -> str:
    return "\n".join(f"Step {number}: {step.text}" for number, step in enumerate(steps, 1))


def ideal_protocol(example: Example) -> str:
    prose = "\n".join(f"Step {number}: {text}" for number, text in enumerate(prose_of(example.steps), 1))
    count = f"{len(example.steps)} steps" if len(example.steps) > 1 else "one step"
    return (
        f"<think>\nThe question can be answered with {count}.\n</think>\n"
        f"<key>\n{key_lines(example.steps)}\n</key>\n<orc>\n{prose}\n</orc>\n"
        "<note>\nFollow the safety data sheets of the materials.\n</note>"
    )


def prose_of(steps: Sequence[ReadStep]) -> list[str]:
    """Return a sentence for each step that has all of its words: `Centrifuge culture, cells (5 min; 300 xg).`

    Where two phrases have other words together than alone, as `5` before `minutes` has, words separate all phrases.
    """
    words = words_of(phrase for step in steps for phrase in phrases_in(step))
    said = [ReadStep(step.action, *(tuple(filter(words.get, texts)) for texts in step[1:])) for step in steps]
    briefs = list(map(brief, said))
    needed = ({word for phrase in phrases_in(step) for word in words[phrase]} for step in said)
    drafts = zip(briefs, canons(briefs), needed, said, strict=True)
    return [text if all(word in canon for word in of_step) else wordy(step) for text, canon, of_step, step in drafts]


def phrases_in(step: ReadStep) -> tuple[str, ...]:
    return step.action, *step.objects, *step.parameters


def words_of(phrases: Iterable[str]) -> dict[str, list[str]]:
    distinct = list(dict.fromkeys(phrases))
    return {text: canon.split(" ") if canon else [] for text, canon in zip(distinct, canons(distinct), strict=True)}


def brief(step: ReadStep) -> str:
    """Return a sentence with no more words than the phrases have: longer ones than `max_mean_words` cost reward."""
    conditions = f" ({'; '.join(step.parameters)})" if step.parameters else ""
    return sentence(f"{step.action} {', '.join(step.objects)}{conditions}")


def wordy(step: ReadStep) -> str:
    objects = f" the {' and the '.join(step.objects)}" if step.objects else ""
    conditions = f" with {' and '.join(step.parameters)}" if step.parameters else ""
    return sentence(f"{step.action}{objects}{conditions}")


def sentence(text: str) -> str:
    line = " ".join(text.split())
    return f"{line[:1].upper() if line[:1].isascii() else line[:1]}{line[1:]}."


def marked(answer: str) -> str:
    return f"{START}{answer}{END}"


def ideal_choice(example: Example) -> str:
    return marked(f"{reference_fields(example)['answer']} & 100")


def ideal_order(example: Example) -> str:
    """Return the indices of the shown steps in the right order; equal steps in the order in which they are shown."""
    fields = reference_fields(example)
    shown, right = fields["wrong_steps"], fields["correct_steps"]
    places: defaultdict[str, deque[int]] = defaultdict(deque)
    for index, step in enumerate(shown[: len(right)]):
        places[step].append(index)
    indices = []
    for step in right:
        indices.append(places[step][0])
        if len(places[step]) > 1:
            places[step].popleft()
    return marked(str(indices))


def ideal_verdict(example: Example) -> str:
    is_correct = reference_fields(example)["is_correct"]
    answer = marked(str(is_correct))
    if example.dataset != REASONED:
        return answer
    described = example.record.get("error_description")
    reason = "The step agrees with its context and with usual practice." if is_correct else "The step has an error."
    return f"{described if not is_correct and isinstance(described, str) else reason}\n{answer}"


def steps_as_text(example: Example) -> str:
    return str(reference_fields(example)["reference"])


def pseudocode_block(example: Example) -> str:
    return f"{ANSWER_START}\n{reference_fields(example)['answer']}\n{ANSWER_END}"


LINE_END = re.compile(r"\r\n|\r|\n")  # line ends that Python's parser counts


def program(example: Example) -> str:
    code = str(reference_fields(example)["ground_truth"])
    lines = LINE_END.split(code)
    for node in parse_python(code, MAX_LENGTH, MAX_DEPTH).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(part.lineno for part in (node, *node.decorator_list))
            lines[first - 1 : node.end_lineno] = [""] * ((node.end_lineno or first) - first + 1)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


ANSWERS: dict[str, Callable[[Example], str]] = {
    SCORE: ideal_protocol,
    "bioprobench.pqa": ideal_choice,
    "bioprobench.ord": ideal_order,
    "bioprobench.err": ideal_verdict,
    "lexical": steps_as_text,
    "bioplanner": program,
    "sgi.wet_experiment": pseudocode_block,
}


FULL = 1.0  # the largest reward of every task but SCORE, whose own depends on its settings
ROUNDING = 1e-9
OPTIONS = {"lexical": {"reward": "rouge_l"}}  # recognizes equal texts without the weights of BERTScore
Checked = tuple[Example, list[Message], tuple[str, ...] | None]


class PromptCheck:
    """Checks that the ideal answer to each prompt is allowed by it and gets the full reward; `lexical` by ROUGE-L."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._full = {SCORE: smallest_and_largest(scorer.settings)[1]}

    def faults(self, rows: Sequence[Checked]) -> list[Fault | None]:
        """Return why each (example, prompt, library) is unusable, or None; raises InvalidReference and NotInstalled."""
        details = [fault_of_prompt(*row) for row in rows]
        left = [k for k, detail in enumerate(details) if detail is None]
        if left:
            examples = [rows[k][0] for k in left]
            for k, detail in zip(left, self._scored(examples), strict=True):
                details[k] = detail
        return [None if detail is None else Fault("ideal_answer", detail) for detail in details]

    def _scored(self, examples: Sequence[Example]) -> list[str | None]:
        tasks = [example.task for example in examples]
        answers = [ideal_answer(example) for example in examples]
        references = [reference_text(example.reference) for example in examples]  # as the rows have them
        options = {name: values for name, values in OPTIONS.items() if name in tasks}
        if options:
            import_optional("nltk", "lexical", "The check of prompts of the task lexical")
        scores = self._scorer.score(answers, references, range(len(answers)), task=tasks, task_options=options)
        rows = zip(tasks, scores.rewards.tolist(), scores.reasons.tolist(), strict=True)
        words = scores.components["mean_words"].tolist()
        details: list[str | None] = []
        for k, (task, reward, reason) in enumerate(rows):
            full, why = self._full.get(task, FULL), self._reason_of(task, reason, words[k])
            equal = abs(reward - full) <= ROUNDING
            details.append(None if equal else f"the ideal answer gets {reward:.3g} of {full:g}: {why}")
        return details

    def _reason_of(self, task: str, reason: str, mean_words: float) -> str:
        if reason != OK:
            return f"{WRONG.get(task, reward_of(task).reasons)[reason]} ({reason})"
        limit = self._scorer.settings.max_mean_words
        if mean_words > limit:  # 0 for other tasks than SCORE
            return f"a step has {mean_words:.4g} words on average, and prose of more than {limit:g} lowers the reward"
        return WITHOUT_FULL_REWARD.get(task, "it does not match the reference completely")


HAS_TAG = "a phrase of the reference holds a tag of the four sections"
WRONG = {
    SCORE: dict.fromkeys(SCORE_REASONS, "it fails a gate") | {"missing_sections": HAS_TAG, "think_not_opened": HAS_TAG}
}

WITHOUT_FULL_REWARD = {
    "bioprobench.pqa": "the right answer cannot be read as it is (a text without white space around it is)",
    "lexical": "the reference has no Latin letter or digit, as words of ROUGE-L have",
}


def fault_of_prompt(example: Example, messages: list[Message], actions: tuple[str, ...] | None) -> str | None:
    named = library_of({"prompt": messages})
    if actions is not None and named != actions:
        return "the library of actions cannot be read from the prompt again"
    if named is None:
        return None
    outside = set(canons([step.action for step in example.steps])).difference(canons(named))
    if outside:
        return f"the prompt's library of actions lacks {len(outside)} of the reference's"
    return None
