"""Extraction of the answer from a response, as the benchmark's public scripts do it, but in linear time."""

from __future__ import annotations

__all__ = [
    "EMPTY",
    "END",
    "FAILURES",
    "INSTRUCTION",
    "NOT_TEXT",
    "NO_MARKERS",
    "START",
    "after_thinking",
    "first_block",
    "generated_text",
    "last_block",
    "share",
    "truth_of",
]

START = "[ANSWER_START]"
END = "[ANSWER_END]"
THOUGHT = "</think>"
INSTRUCTION = "[/INST]"
EMPTY = "empty"
NOT_TEXT = "not_text"
NO_MARKERS = "no_markers"


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
    return "no_truth_value"


def share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


FAILURES = {
    NOT_TEXT: "The response is not text.",
    NO_MARKERS: f"The response has no {START} with an {END} after it.",
}
