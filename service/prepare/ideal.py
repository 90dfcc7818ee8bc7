"""Ideal answers, made from references, and the check that each gets the full reward of its prompt's task."""

from __future__ import annotations

import ast
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence

from ..evaluate.bioplanner.calls import MAX_DEPTH, MAX_LENGTH
from ..evaluate.bioprobench.answers import END, START
from ..evaluate.optional_dependencies import import_optional
from ..evaluate.python_source import parse_python
from ..evaluate.scirecipe_records import library_of
from ..evaluate.task import OK
from ..explain.explanation import smallest_and_largest
from ..explain.text import canons
from ..records.rows import Fault
from ..records.trainer_rows import reference_text
from ..rewards.registry import SCORE, reward_of
from ..rewards.scorer import Scorer
from .examples import Example, Message, Step
from .prompts import REASONED, reference_fields

__all__ = ["FULL", "ROUNDING", "PromptCheck", "ideal_answer"]

FULL = 1.0  # the largest reward of every task but SCORE, whose own depends on its settings
ROUNDING = 1e-9
OPTIONS = {"lexical": {"reward": "rouge_l"}}  # recognizes equal texts without the weights of BERTScore
LINE_END = re.compile(r"\r\n|\r|\n")  # line ends that Python's parser counts
Checked = tuple[Example, list[Message], tuple[str, ...] | None]


def ideal_answer(example: Example) -> str:
    """Return the answer that an example's reference describes; raises InvalidReference."""
    return ANSWERS[example.task](example)


def key_lines(steps: Iterable[Step]) -> str:
    return "\n".join(f"Step {number}: {step.text}" for number, step in enumerate(steps, 1))


def protocol(example: Example) -> str:
    prose = "\n".join(f"Step {number}: {text}" for number, text in enumerate(prose_of(example.steps), 1))
    count = f"{len(example.steps)} steps" if len(example.steps) > 1 else "one step"
    return (
        f"<think>\nThe question can be answered with {count}.\n</think>\n"
        f"<key>\n{key_lines(example.steps)}\n</key>\n<orc>\n{prose}\n</orc>\n"
        "<note>\nFollow the safety data sheets of the materials.\n</note>"
    )


def prose_of(steps: Sequence[Step]) -> list[str]:
    """Return a sentence for each step that has all of its words: `Centrifuge culture, cells (5 min; 300 xg).`

    Where two phrases have other words together than alone, as `5` before `minutes` has, words separate all phrases.
    """
    words = words_of(phrase for step in steps for phrase in phrases_in(step))
    said = [Step(step.action, *(tuple(filter(words.get, texts)) for texts in step[1:])) for step in steps]
    briefs = list(map(brief, said))
    needed = ({word for phrase in phrases_in(step) for word in words[phrase]} for step in said)
    drafts = zip(briefs, canons(briefs), needed, said, strict=True)
    return [text if all(word in canon for word in of_step) else wordy(step) for text, canon, of_step, step in drafts]


def phrases_in(step: Step) -> tuple[str, ...]:
    return step.action, *step.objects, *step.parameters


def words_of(phrases: Iterable[str]) -> dict[str, list[str]]:
    distinct = list(dict.fromkeys(phrases))
    return {text: canon.split(" ") if canon else [] for text, canon in zip(distinct, canons(distinct), strict=True)}


def brief(step: Step) -> str:
    """Return a sentence with no more words than the phrases have: longer ones than `max_mean_words` cost reward."""
    conditions = f" ({'; '.join(step.parameters)})" if step.parameters else ""
    return sentence(f"{step.action} {', '.join(step.objects)}{conditions}")


def wordy(step: Step) -> str:
    objects = f" the {' and the '.join(step.objects)}" if step.objects else ""
    conditions = f" with {' and '.join(step.parameters)}" if step.parameters else ""
    return sentence(f"{step.action}{objects}{conditions}")


def sentence(text: str) -> str:
    line = " ".join(text.split())
    return f"{line[:1].upper() if line[:1].isascii() else line[:1]}{line[1:]}."


def marked(answer: str) -> str:
    return f"{START}{answer}{END}"


def choice(example: Example) -> str:
    return marked(f"{reference_fields(example)['answer']} & 100")


def order(example: Example) -> str:
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


def verdict(example: Example) -> str:
    is_correct = reference_fields(example)["is_correct"]
    answer = marked(str(is_correct))
    if example.dataset != REASONED:
        return answer
    described = example.record.get("error_description")
    reason = "The step agrees with its context and with usual practice." if is_correct else "The step has an error."
    return f"{described if not is_correct and isinstance(described, str) else reason}\n{answer}"


def steps_as_text(example: Example) -> str:
    return str(reference_fields(example)["reference"])


def program(example: Example) -> str:
    code = str(reference_fields(example)["ground_truth"])
    lines = LINE_END.split(code)
    for node in parse_python(code, MAX_LENGTH, MAX_DEPTH).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(part.lineno for part in (node, *node.decorator_list))
            lines[first - 1 : node.end_lineno] = [""] * ((node.end_lineno or first) - first + 1)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


ANSWERS: dict[str, Callable[[Example], str]] = {
    SCORE: protocol,
    "bioprobench.pqa": choice,
    "bioprobench.ord": order,
    "bioprobench.err": verdict,
    "lexical": steps_as_text,
    "bioplanner": program,
}


class PromptCheck:
    """Checks that the ideal answer to each prompt is allowed by it and gets the full reward; `lexical` by ROUGE-L."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        _, self._full = smallest_and_largest(scorer.settings)

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
            full = self._full if task == SCORE else FULL
            why = self._reason_of(reason, words[k]) if task == SCORE else reason_of(task, reason)
            equal = abs(reward - full) <= ROUNDING
            details.append(None if equal else f"the ideal answer gets {reward:.3g} of {full:g}: {why}")
        return details

    def _reason_of(self, reason: str, mean_words: float) -> str:
        if reason in ("missing_sections", "think_not_opened"):
            return f"a phrase of the reference holds a tag of the four sections ({reason})"
        if reason != OK:
            return f"it fails a gate ({reason})"
        limit = self._scorer.settings.max_mean_words
        if mean_words > limit:
            return f"a step has {mean_words:.4g} words on average, and prose of more than {limit:g} lowers the reward"
        return "it does not match the reference completely"


def reason_of(task: str, reason: str) -> str:
    if reason != OK:
        return f"{reward_of(task).reasons[reason]} ({reason})"
    return WITHOUT_FULL_REWARD.get(task, "it does not match the reference completely")


WITHOUT_FULL_REWARD = {
    "bioprobench.pqa": "the right answer cannot be read as it is (a text without white space around it is)",
    "lexical": "the reference has no Latin letter or digit, as words of ROUGE-L have",
}


def fault_of_prompt(example: Example, messages: list[Message], actions: tuple[str, ...] | None) -> str | None:
    if example.task != SCORE:
        return None
    named = library_of({"prompt": messages})
    if actions is not None and named != actions:
        return "the library of actions cannot be read from the prompt again"
    if named is None:
        return None
    outside = set(canons([step.action for step in example.steps])).difference(canons(named))
    if outside:
        return f"the prompt's library of actions lacks {len(outside)} of the reference's"
    return None
