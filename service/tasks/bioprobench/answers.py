"""Answers in texts, and the profiles that read them: shared by the tasks of BioProBench.

Lists and programs are read by Python's own parser: quiet, with one error, and within limits that bound its cost. Its
time and memory are linear in the text but for three forms, on Python 3.11 to 3.13:

- a field of an f-string takes time in proportion to what precedes it in the string (3.11 only);
- a dotted name in an import is built again, and kept, for each of its names;
- normalizing an identifier (NFKC) takes quadratic time on a run of combining marks.

Each has a limit, also where its characters are in strings and comments. The limits are the same on every version,
because rewards must not depend on the interpreter.
"""

from __future__ import annotations

import ast
import re
import threading
import unicodedata
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field

from ..task import Metric, Records, Task, TaskOptions, TaskRecord, mean_of

MAX_TOKENS = 131_072  # the parser takes up to 3.5 KB of memory for each
MAX_BRACES = 2_000  # in a text with an f-string, so that it has at most as many fields
MAX_NAMES = 100  # in one dotted name, in a text with an import
MAX_MARKS = 100
BRACKET = re.compile(r"[][(){}]")
TOKEN = re.compile(r"[\w\u0080-\U0010ffff]++|[^\w\s]")
F_STRING = re.compile(r"""[fF][rR]?["']|[rR][fF]["']""")
DOTTED = re.compile(r"\w++(?:[\s\\]*+\.[\s\\]*+\w++)++")

_quiet = threading.Lock()


class UnreadableAnswer(ValueError):
    """A text that a metric cannot read; `reason` is one of the task's failures."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def parse_python(text: str, max_length: int, max_depth: int, mode: str = "exec") -> Any:
    """Return the tree of a text; raises Unreadable with `too_large` beyond the limits, or with `syntax_error`.

    Within them the parser may still reach its limit of recursion, which is a `syntax_error` too.
    """
    if len(text) > max_length or depth(text) > max_depth or is_costly(text):
        raise UnreadableAnswer("too_large")
    try:
        with _quiet, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UnreadableAnswer("syntax_error") from None


def is_costly(text: str) -> bool:
    return (
        (len(text) > MAX_TOKENS and sum(1 for _ in TOKEN.finditer(text)) > MAX_TOKENS)
        or (text.count("{") > MAX_BRACES and F_STRING.search(text) is not None)
        or (text.count(".") >= MAX_NAMES and "import" in text and longest_name(text) > MAX_NAMES)
        or (len(text) > MAX_MARKS and not text.isascii() and longest_run_of_marks(text) > MAX_MARKS)
    )


def longest_name(text: str) -> int:
    return max((match[0].count(".") + 1 for match in DOTTED.finditer(text)), default=0)


def longest_run_of_marks(text: str) -> int:
    marks = "".join(filter(is_mark, set(text)))
    return max(map(len, re.findall(f"[{marks}]++", text)), default=0) if marks else 0


def is_mark(character: str) -> bool:
    return not character.isascii() and unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) > 0


def depth(text: str) -> int:
    """Return the maximum nesting of brackets, including those in strings and comments."""
    deepest = level = 0
    for bracket in BRACKET.finditer(text):
        level = level + 1 if bracket[0] in "([{" else max(0, level - 1)
        deepest = max(deepest, level)
    return deepest


START = "[ANSWER_START]"
END = "[ANSWER_END]"
THOUGHT = "</think>"
INSTRUCTION = "[/INST]"
EMPTY = "empty"
NOT_TEXT = "not_text"
NO_MARKERS = "no_markers"
NO_TRUTH_VALUE = "no_truth_value"
UNCLEAR = "unclear"
TRUE_OR_FALSE = re.compile(r"\b(?:true|false)\b", re.IGNORECASE)


def after_thinking(text: str) -> str:
    return text.rpartition(THOUGHT)[2]


def first_block(text: str) -> str | None:
    _, opened, after = text.partition(START)
    block, closed, _ = after.partition(END)
    return block.strip() if opened and closed else None


def last_block(text: str) -> str | None:
    block = None
    pos = text.find(START)
    while pos >= 0:
        begin = pos + len(START)
        stop = text.find(END, begin)
        if stop < 0:
            break
        block = text[begin:stop]
        pos = text.find(START, stop + len(END))
    return None if block is None else block.strip()


def generated_text(text: str) -> str:
    text = after_thinking(text).strip()
    text = text.rpartition("</Structure>")[2].strip()
    return text.rpartition(START)[2].strip().partition(END)[0].strip()


def truth_of(
    response: object, cut_instruction: bool = True, needs_markers: bool = False, any_case: bool = False
) -> bool | str:
    """Return the verdict of a response to ERR, else the reason why it has none.

    Only the script that reads judgements keeps the text before `[/INST]`; the paper needs markers; thoth ignores case.
    """
    if not isinstance(response, str):
        return NOT_TEXT
    text = after_thinking(response)
    if cut_instruction:
        text = text.rpartition(INSTRUCTION)[2]
    answer = first_block(text)
    if answer is None:
        if needs_markers:
            return NO_MARKERS
        answer = text.strip().rpartition("\n")[2]
    if any_case:
        answer = answer.lower()
    if "True" in answer or "true" in answer:
        return True
    if "False" in answer or "false" in answer:
        return False
    return NO_TRUTH_VALUE


def answer_in(response: str) -> str:
    return after_thinking(response).rpartition(INSTRUCTION)[2].strip()


def marked_answer(response: object, or_last_line: bool = False) -> str:
    """Return the last block of a response, as the benchmark's evaluator reads it; raises UnreadableAnswer."""
    if not isinstance(response, str):
        raise UnreadableAnswer(NOT_TEXT)
    text = answer_in(response)
    block = last_block(text)
    if block is not None:
        return block
    if not (or_last_line and text):
        raise UnreadableAnswer(NO_MARKERS)
    return text.splitlines()[-1].strip()


def marked_truth(response: object, needs_markers: bool = False) -> bool | str:
    """Return the verdict of a response as the benchmark's evaluator reads it, else the reason why it has none."""
    if isinstance(response, bool):
        return response
    try:
        answer = marked_answer(response, or_last_line=not needs_markers)
    except UnreadableAnswer as error:
        return error.reason
    verdicts = {word.lower() for word in TRUE_OR_FALSE.findall(answer)}  # "falſe" matches too, and is neither
    return verdicts == {"true"} if verdicts in ({"true"}, {"false"}) else UNCLEAR


def share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


FAILURES = {
    NOT_TEXT: "The response is not text.",
    NO_MARKERS: f"The response has no {START} with an {END} after it.",
}


CONVERSATIONS = "conversations"
SCRIPT: Literal["bioprobench"] = "bioprobench"
THOTH = "thoth"
EVALUATOR = "bioprobench-2"


metric_of_scripts = partial(Metric, percent=True, less_is_better=True, profiles=(SCRIPT, THOTH))
"""Makes a metric of what the scripts alone do: a share of answers, which should be small."""


class EvaluatorOptions(TaskOptions):
    """Options of a task that BioProBench defines twice."""

    profile: Literal["bioprobench", "bioprobench-2"] = Field(
        SCRIPT, description="Follow BioProBench's public script, or its evaluator 2.0.0 of 2026."
    )


class ProfileOptions(TaskOptions):
    """Options of a task with three published definitions."""

    profile: Literal["bioprobench", "thoth", "bioprobench-2"] = Field(
        SCRIPT,
        description="Follow BioProBench's public script, the script of the SCORE paper's authors (their Table 19), or "
        "BioProBench's evaluator 2.0.0 of 2026.",
    )


def mean_read(column: np.ndarray, options: Any) -> float | None:
    """Return the mean over the answers that were read; without any, the script has 0 and the evaluator no value."""
    mean = mean_of(column)
    return mean if options.profile == EVALUATOR else mean or 0.0


def or_conversation(schema: dict[str, Any]) -> None:
    required = schema.pop("required", [])
    if required:
        response = [name for name in required if name == "generated_response"]
        schema["anyOf"] = [{"required": required}, {"required": [CONVERSATIONS, *response]}]


class ConversationRecord(TaskRecord):
    """A record with the benchmark's fields, or a conversation."""

    model_config = ConfigDict(json_schema_extra=or_conversation)

    conversations: Any = Field(
        None,
        description='`[{"from": "human", "value": question}, {"from": "gpt", "value": answer}]`: used if the fields of '
        "the right answer are missing.",
    )


class ConversationTask(Task):
    answered: ClassVar[tuple[str, ...]]

    @abstractmethod
    def from_conversation(self, question: str, answer: str) -> Mapping[str, Any] | str:
        """Return the fields of a record, else what is wrong with the conversation, without quoting it."""

    def complete(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        fields = self._fields(record)
        return {**record, **fields} if isinstance(fields, Mapping) else record

    def completed(self, records: Records) -> Records:
        return [self.complete(record) if CONVERSATIONS in record else record for record in records]

    def validation_errors(self, record: Any) -> list[tuple[str, str, str]]:
        fields = self._fields(record) if isinstance(record, dict) else None
        if isinstance(fields, str):
            return [(CONVERSATIONS, "wrong_type", fields)]
        return super().validation_errors({**record, **fields} if fields else record)

    def reference(self, value: Any) -> tuple[Mapping[str, Any] | None, str]:
        record, wrong = super().reference(value)
        return (None if record is None else self.complete(record)), wrong

    def _fields(self, record: Mapping[str, Any]) -> Mapping[str, Any] | str | None:
        if CONVERSATIONS not in record or all(name in record for name in self.answered):
            return None
        try:
            question, answer = (turn["value"] for turn in record[CONVERSATIONS][:2])
        except (TypeError, KeyError, ValueError):
            question = answer = None
        if not (isinstance(question, str) and isinstance(answer, str)):
            return "must be a list of the question and the right answer, each with its text as `value`"
        return self.from_conversation(question, answer)
