"""The order that a response gives to shuffled steps, by either profile, and its comparison with the right one."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from math import comb
from typing import Any, NamedTuple

from ..python_source import Unreadable, parse_python
from .answers import FAILURES, INSTRUCTION, NO_MARKERS, NOT_TEXT, after_thinking, last_block, share

__all__ = [
    "EXTRA_STEPS",
    "MAX_DEPTH",
    "MAX_LENGTH",
    "MISSING_STEPS",
    "NOT_INDICES",
    "NOT_LITERAL",
    "NO_LIST",
    "ONE_BASED",
    "REPEATS",
    "STEPS_DIFFER",
    "UNREAD",
    "ZERO_BASED",
    "OrderComparison",
    "compared",
    "compared_indices",
    "literal",
    "order_of",
    "order_of_list",
    "steps_in",
]

MAX_LENGTH = 65_536  # characters of an answer; ten thousand indices take less
MAX_DEPTH = 64
PLAIN_LIST = re.compile(r"\[ ?(?:0|[1-9][0-9]{0,8})(?:, ?(?:0|[1-9][0-9]{0,8}))*+\]")
LISTED = re.compile(r"\[\s*+\d++\s*+(?:,\s*+\d++\s*+)*+\]")
STEP = re.compile(r"\s*+Step\s*+\d++\s*+:", re.IGNORECASE)
BEGINNINGS = ("[", "(", "#", "\\")
NOT_LITERAL = "not_literal"
NOT_INDICES = "not_indices"
REPEATS = "repeats"
MISSING_STEPS = "missing_steps"
EXTRA_STEPS = "extra_steps"
ONE_BASED = "one_based"
NO_LIST = "no_list"
ZERO_BASED = "zero_based"
STEPS_DIFFER = "steps_differ"

UNREAD = {
    **FAILURES,
    NOT_LITERAL: "The last block is not a Python literal, or is beyond the limits of length and depth.",
    NOT_INDICES: "The list has an element that is not an integer.",
    REPEATS: "A step is named more than once; if none is missing, this fails only with `repeats = failed` or "
    "`profile = thoth`.",
    MISSING_STEPS: "A step is not named, and none is named twice.",
    EXTRA_STEPS: "An index is not one of the steps.",
    ONE_BASED: "The indices are 1 to n, but BioProBench counts from 0; `profile = thoth` reads indices from 1.",
    NO_LIST: "The response is not a list of integers and holds none (only with `profile = thoth`).",
    ZERO_BASED: "The indices are 0 to n - 1, but `profile = thoth` reads indices from 1.",
    STEPS_DIFFER: "wrong_steps does not begin with the steps of correct_steps, or gold_indices_1based is not 1 to n: "
    "a fault of the record.",
}
"""Their order numbers them, so new reasons of responses come last."""


class OrderComparison(NamedTuple):
    """An answered order beside the right one: unordered pairs of steps, and those in the same order in both."""

    exact: bool
    pairs: int
    concordant: int

    @property
    def tau(self) -> float:
        return share(2 * self.concordant - self.pairs, self.pairs)


def literal(text: str) -> Any:
    """Return the value of a Python literal, as the script's `ast.literal_eval` does; raises Unreadable."""
    if len(text) <= MAX_LENGTH and PLAIN_LIST.fullmatch(text):
        return [int(number) for number in text[1:-1].split(",")]
    tree = parse_python(text.lstrip(" \t"), MAX_LENGTH, MAX_DEPTH, "eval")
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError, OverflowError, RecursionError):  # a name, a list as a key, 10**400 + 1j, a long sum
        raise Unreadable(NOT_LITERAL) from None


def order_of(response: object, steps: int, once: bool = False) -> list[int] | str:
    """Return the indices from 0 that a response gives for n steps, each at least once, or the reason of its failure."""
    if not isinstance(response, str):
        return NOT_TEXT
    block = last_block(after_thinking(response))
    if block is None:
        return NO_MARKERS
    try:
        values = literal(block)
    except Unreadable:
        return NOT_LITERAL
    try:
        named, indices = set(values), list(values)
    except TypeError:  # not iterable, or lists inside
        return NOT_INDICES
    if not all(isinstance(index, int) for index in indices):
        return NOT_INDICES
    if len(named) != steps or named != set(range(steps)):  # the length first, which is cheap
        return ONE_BASED if is_range(named, 1, steps) else fault_of(indices, named, range(steps))
    return REPEATS if once and len(indices) > steps else indices


def order_of_list(response: object, steps: int) -> list[int] | str:
    """Return the indices from 1 that a response gives for n steps, each once, else the reason for its failure."""
    if not isinstance(response, str):
        return NOT_TEXT
    values = listed(after_thinking(response.strip()).rpartition(INSTRUCTION)[2])
    if values is None:
        return NO_LIST
    try:
        indices = [int(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        return NOT_INDICES
    named = set(indices)
    if is_range(named, 1, steps):
        return REPEATS if len(indices) > steps else indices
    return ZERO_BASED if is_range(named, 0, steps) else fault_of(indices, named, range(1, steps + 1))


def listed(text: str) -> list[Any] | None:
    if text.lstrip().startswith(BEGINNINGS):
        try:
            value = literal(text)
        except Unreadable:
            value = None
        if isinstance(value, list):
            return value
    last = deque(LISTED.finditer(text), maxlen=1)
    try:
        return list(literal(last[0][0])) if last else None
    except Unreadable:  # a leading zero, or a digit that is not ASCII
        return None


def is_range(named: AbstractSet[int], first: int, count: int) -> bool:
    return len(named) == count and named == set(range(first, first + count))


def fault_of(indices: Sequence[int], named: AbstractSet[int], right: range) -> str:
    if not all(index in right for index in named):
        return EXTRA_STEPS
    return REPEATS if len(indices) > len(named) else MISSING_STEPS


def compared(answer: Sequence[str], right: Sequence[str]) -> OrderComparison:
    last = {text: pos for pos, text in enumerate(answer)}
    distinct = dict.fromkeys(reversed(right))  # in reverse order of their last occurrence
    positions = [last[text] for text in reversed(distinct)]
    return OrderComparison(list(answer) == list(right), comb(len(positions), 2), increasing_pairs(positions))


def compared_indices(answer: Sequence[int], right: Sequence[int]) -> OrderComparison:
    """Compare an order of indices with the right one; a pair of equal indices is not concordant."""
    position = {index: pos for pos, index in enumerate(answer)}
    counts = Counter(right)
    distinct = dict.fromkeys(reversed(right))
    positions = [position[index] for index in reversed(distinct) for _ in range(counts[index])]
    return OrderComparison(list(answer) == list(right), comb(len(right), 2), increasing_pairs(positions))


def increasing_pairs(values: Sequence[int]) -> int:
    pairs = 0
    before: list[int] = []
    for value in values:
        pairs += bisect_left(before, value)
        insort(before, value)
    return pairs


def steps_in(question: str) -> list[str]:
    lines = ((STEP.match(line), line) for line in question.splitlines())
    return [line[head.end() :].strip() for head, line in lines if head is not None and head.end() < len(line)]
