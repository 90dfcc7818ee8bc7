"""Prompts of each task, as chat messages: what is asked, and the form of an answer that its scorer can read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..evaluate.bioplanner.calls import MAX_DEPTH, MAX_LENGTH, Program
from ..evaluate.bioprobench.answers import END, START
from ..evaluate.python_source import parse_python
from ..rewards.batch import Batch
from ..rewards.registry import SCORE, reward_of
from .examples import Example, Message

__all__ = ["REASONED", "messages_of", "reference_fields"]

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

ROWS = "rows"  # form of records that have a prompt, and a reference of any task


def messages_of(example: Example, actions: Sequence[str] | None) -> list[Message]:
    """Return the messages of the system and the user, or a record's own prompt; raises InvalidReference."""
    if example.dataset == ROWS and example.task != SCORE and example.prompt is not None:
        return [dict(message) for message in example.prompt]
    system, ask = (REASONED_VERDICT, verdict) if example.dataset == REASONED else PROMPTS[example.task]
    user = protocol(example, actions) if example.task == SCORE else ask(example)
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def reference_fields(example: Example) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = reward_of(example.task).read_references(Batch(references=[example.reference]))[0]
    return fields


def protocol(example: Example, actions: Sequence[str] | None = None) -> str:
    quoted = None if actions is None else ", ".join(f'"{action}"' for action in actions)
    library = None if quoted is None else f"{LIBRARY}{quoted}."
    return paragraphs(example.question, GUIDANCE.get(example.type or ""), library)


def choice(example: Example) -> str:
    choices = example.record.get("choices")
    if not isinstance(choices, list):
        return example.question
    return paragraphs(f"Question:\n{example.question}", "\n".join(["Choices:", *(f"- {option}" for option in choices)]))


def order(example: Example) -> str:
    shown = reference_fields(example)["wrong_steps"]
    return paragraphs(example.question, "\n".join(["Steps:", *(f"{k}: {step}" for k, step in enumerate(shown))]))


def verdict(example: Example) -> str:
    context = example.record.get("context")
    about = context if isinstance(context, Mapping) else {}
    lines = [f"{title}: {about[name]}" for name, title in CONTEXT.items() if about.get(name)]
    return paragraphs(f"Step:\n{example.question}", "\n".join(["Context:", *lines] if lines else []))


def generation(example: Example) -> str:
    instruction = example.record.get("instruction")
    return paragraphs(instruction if isinstance(instruction, str) else None, example.question)


def pseudocode(example: Example) -> str:
    functions = signatures_in(reference_fields(example)["ground_truth"])
    return paragraphs(f"Title: {example.question}", "\n".join(["Functions:", *functions]))


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


PROMPTS: dict[str, tuple[str, Callable[[Example], str]]] = {
    SCORE: (SKETCH_AND_FILL, protocol),
    "bioprobench.pqa": (CHOICE, choice),
    "bioprobench.ord": (ORDER, order),
    "bioprobench.err": (VERDICT, verdict),
    "lexical": (GENERATION, generation),
    "bioplanner": (PSEUDOCODE, pseudocode),
}
"""The message of the system and the content of the user's, for each task with rewards."""
