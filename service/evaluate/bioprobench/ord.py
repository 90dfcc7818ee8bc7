"""Step ordering: exact match and Kendall's tau of the order that a response gives to shuffled steps."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from ..python_source import Unreadable, parse_python
from ..task import OK, Advance, Evaluation, Failure, Metric, Options, Record, Records, Rewards, Task, mean_of, reporting
from .answers import FAILURES, NO_MARKERS, NOT_TEXT, after_thinking, last_block, share

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "TASK", "Order", "compared", "literal", "order_of"]

MAX_LENGTH = 65_536
"""Characters of an answer; ten thousand indices take less."""
MAX_DEPTH = 64
"""Levels of brackets in it."""
PLAIN_LIST = re.compile(r"\[ ?(?:0|[1-9][0-9]{0,8})(?:, ?(?:0|[1-9][0-9]{0,8}))*+\]")
"""Nearly every answer: a list of short numbers, which needs no parser."""

NOT_LITERAL = "not_literal"
NOT_INDICES = "not_indices"
REPEATS = "repeats"
STEPS_DIFFER = "steps_differ"

UNREAD = {
    **FAILURES,
    NOT_LITERAL: "The last block is no Python literal, or one beyond the limits of length and depth.",
    NOT_INDICES: "The indices are not those of all the steps.",
    REPEATS: "A step is named more than once (only with `repeats = failed`).",
    STEPS_DIFFER: "wrong_steps does not begin with the steps of correct_steps: a fault of the record.",
}
REASONS = {OK: "An order was read."} | {name: text for name, text in UNREAD.items() if name != STEPS_DIFFER}


class Order(NamedTuple):
    """How a given order compares with the right one."""

    exact: bool
    """Whether the texts of the steps are equal, one by one: equal steps may change places."""
    pairs: int
    """Unordered pairs of distinct texts of the right order."""
    concordant: int
    """Those in the same order in both; of a text that occurs twice, the last occurrence counts."""

    @property
    def tau(self) -> float:
        """Kendall's tau: (concordant - discordant) / pairs, 0 without pairs; all other pairs are discordant."""
        return share(2 * self.concordant - self.pairs, self.pairs)


def literal(text: str) -> Any:
    """Return the value of a Python literal, as the script's `ast.literal_eval` does; raises Unreadable.

    So a tuple, a bare `0, 2, 1`, a set, the keys of a dictionary, bytes, `True` and `0x1` are answers too.
    """
    if len(text) <= MAX_LENGTH and PLAIN_LIST.fullmatch(text):
        return [int(number) for number in text[1:-1].split(",")]
    tree = parse_python(text.lstrip(" \t"), MAX_LENGTH, MAX_DEPTH, "eval")
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError, OverflowError, RecursionError):  # a name, a list as a key, 10**400 + 1j, a long sum
        raise Unreadable(NOT_LITERAL) from None


def order_of(response: object, steps: int, once: bool = False) -> list[int] | str:
    """Return the indices that a response gives for n steps, each at least once, else the reason why it has none.

    once: a response that repeats an index has none.
    """
    if not isinstance(response, str):
        return NOT_TEXT
    block = last_block(after_thinking(response))
    if block is None:
        return NO_MARKERS
    try:
        given = literal(block)
    except Unreadable:
        return NOT_LITERAL
    try:
        named = set(given)
        if len(named) != steps or named != set(range(steps)):  # the length first, which is cheap
            return NOT_INDICES
        indices = list(given)
    except TypeError:  # not iterable, or lists inside
        return NOT_INDICES
    if not all(isinstance(index, int) for index in indices):
        return NOT_INDICES
    return REPEATS if once and len(indices) > steps else indices


def steps_differ(shown: Sequence[str], right: Sequence[str]) -> bool:
    """Return whether no order of the first shown steps can be the right one; the script allows more to follow."""
    return len(shown) < len(right) or not set(shown[: len(right)]) >= set(right)


def compared(given: Sequence[str], right: Sequence[str]) -> Order:
    """Compare the texts of the steps in a given order with the same texts in the right one."""
    last = {text: pos for pos, text in enumerate(given)}
    distinct = dict.fromkeys(reversed(right))  # in reverse order of their last occurrence
    positions = [last[text] for text in reversed(distinct)]
    concordant = 0
    before: list[int] = []
    for pos in positions:
        concordant += bisect_left(before, pos)
        insort(before, pos)
    return Order(list(given) == list(right), len(positions) * (len(positions) - 1) // 2, concordant)


class OrdRecord(Record):
    """One set of shuffled steps of BioProBench's ORD with a model's response."""

    wrong_steps: list[str] = Field(description="The steps as the model saw them; the response gives indices into them.")
    correct_steps: list[str] = Field(description="The same steps in the right order.")
    generated_response: Any = Field(None, description="The model's response; what is not text counts as failed.")


class OrdOptions(Options):
    """What ORD may be asked."""

    repeats: Literal["last", "failed"] = Field(
        "last",
        description="An answer that names a step more than once: read with the last place counting, as the public "
        "script does, or failed, as the paper's table of failures has it.",
    )
    reward: Literal["kendall_tau", "exact_match"] = Field(
        "kendall_tau", description="Rewards: the response's own tau, from -1 to 1, or 1 for the right order and else 0."
    )


class Ord(Task):
    """Step ordering."""

    name = "bioprobench.ord"
    description = "BioProBench, step ordering: exact match and Kendall's tau (equations 5 and 6)."
    record = OrdRecord
    options = OrdOptions
    metrics = (
        Metric("exact_match", "EM", "Share of right orders among those that could be read (equation 5).", percent=True),
        Metric(
            "kendall_tau",
            "τ",
            "Kendall's tau over the pairs of steps of all read records together, as published; "
            "of one record, its own (equation 6).",
            low=-1.0,
        ),
        Metric("failed", "Failed", "Share of responses without a readable order.", percent=True, less_is_better=True),
        Metric(
            "kendall_tau_macro",
            "τ (mean)",
            "Mean of the records' own tau, as equation 6 reads.",
            per_record=False,
            low=-1.0,
        ),
        Metric(
            "exact_match_over_all", "EM (all)", "Share of right orders among all: what failed is wrong.", percent=True
        ),
        Metric("repeats", "Repeats", "Share of read orders that name a step twice.", percent=True, less_is_better=True),
    )
    failures = UNREAD
    reward = "Kendall's tau of the response, from -1 to 1 (`reward = exact_match`: 1 for the right order and 0 else)."
    reasons = REASONS
    components = ("exact_match", "kendall_tau")
    passed_if = ("exact_match",)

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        return self._read(records, options, advance)[0]

    def _read(self, records: Records, options: OrdOptions, advance: Advance) -> tuple[Evaluation, np.ndarray]:
        """Return the evaluation, and the number of pairs of steps of each order that was read, int64 (n,)."""
        exact, tau, repeated = np.full((3, len(records)), np.nan)
        pairs, concordant = np.zeros((2, len(records)), np.int64)
        failed = []
        differ: dict[tuple[int, int], bool] = {}  # by identity: thousands of responses share the lists of a reference
        for row, record in enumerate(reporting(records, advance)):
            shown, right = record["wrong_steps"], record["correct_steps"]
            lists = id(shown), id(right)
            if lists not in differ:
                differ[lists] = steps_differ(shown, right)
            if differ[lists]:
                failed.append(Failure(row, STEPS_DIFFER))
                continue
            indices = order_of(record.get("generated_response"), len(right), options.repeats == "failed")
            if isinstance(indices, str):
                failed.append(Failure(row, indices, of_response=True))
                continue
            order = compared([shown[index] for index in indices], right)
            exact[row], pairs[row], concordant[row], tau[row] = order.exact, order.pairs, order.concordant, order.tau
            repeated[row] = len(indices) > len(right)
        unread = np.isnan(exact)
        columns = {
            "exact_match": exact,
            "kendall_tau": tau,
            "failed": unread.astype(float),
            "exact_match_over_all": np.where(unread, 0.0, exact),
            "repeats": repeated,
        }

        def corpus(rows: np.ndarray) -> dict[str, float | None]:
            total, agreeing = int(pairs[rows].sum()), int(concordant[rows].sum())
            return {
                "exact_match": mean_of(exact[rows]) or 0.0,
                "kendall_tau": share(2 * agreeing - total, total),
                "kendall_tau_macro": mean_of(tau[rows]) or 0.0,
            }

        return Evaluation(columns, failed, corpus, {"kendall_tau_macro": [tau]}), pairs

    def rewards(self, records: Records, options: Any, advance: Advance) -> Rewards:
        found, pairs = self._read(records, options, advance)
        exact, tau = found.columns["exact_match_over_all"], found.columns["kendall_tau"]
        tau = np.nan_to_num(np.where((pairs == 0) & ~np.isnan(tau), exact, tau), nan=-1.0)
        rewards = exact if options.reward == "exact_match" else tau
        return Rewards(rewards, found.failed, {"exact_match": exact, "kendall_tau": tau})

    def reference(self, value: Any) -> tuple[Mapping[str, Any] | None, str]:
        """Accept a record of the benchmark, as an object or JSON text, whose two lists hold the same steps."""
        record, wrong = super().reference(value)
        if record is not None and steps_differ(record["wrong_steps"], record["correct_steps"]):
            return None, "wrong_steps does not begin with the steps of correct_steps, in any order"
        return record, wrong


TASK = Ord()
