"""Step ordering: exact match and Kendall's tau of the order that a response gives to shuffled steps."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import comb
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from ..task import (
    COMMON_REASONS,
    OK,
    Advance,
    Evaluation,
    Metric,
    Notice,
    RecordFailure,
    Records,
    TaskRewards,
    reporting,
    step_group,
)
from .answers import (
    EVALUATOR,
    FAILURES,
    INSTRUCTION,
    NO_MARKERS,
    NOT_TEXT,
    THOTH,
    ConversationRecord,
    ConversationTask,
    ProfileOptions,
    UnreadableAnswer,
    after_thinking,
    last_block,
    marked_answer,
    mean_read,
    metric_of_scripts,
    parse_python,
    share,
)

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
NOT_A_LIST = "not_a_list"
NOT_PERMUTATION = "not_permutation"
OTHER_LENGTH = "other_length"
NOT_HASHABLE = "not_hashable"
NOT_UNIQUE = "not_unique"
OTHER_STEPS = "other_steps"

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
UNREAD_BY_EVALUATOR = {
    name: f"{text} (only with `profile = bioprobench-2`)."
    for name, text in {
        NOT_A_LIST: "The last block is a Python literal, but no list",
        NOT_PERMUTATION: "The list has only integers, but is no permutation of 0 to n - 1",
        OTHER_LENGTH: "The order has more or fewer steps than correct_steps",
        NOT_HASHABLE: "The list has an element that cannot be compared with steps, such as a list",
        NOT_UNIQUE: "A step occurs twice in the order or in correct_steps; in the latter case any answer fails",
        OTHER_STEPS: "The order has other steps than correct_steps",
    }.items()
}


class OrderComparison(NamedTuple):
    """An answered order beside the right one: unordered pairs of steps, and those in the same order in both."""

    exact: bool
    pairs: int
    concordant: int
    repeats: bool

    @property
    def tau(self) -> float:
        return share(2 * self.concordant - self.pairs, self.pairs)


def literal(text: str) -> Any:
    """Return the value of a Python literal, as the script's `ast.literal_eval` does; raises UnreadableAnswer."""
    if len(text) <= MAX_LENGTH and PLAIN_LIST.fullmatch(text):
        return [int(number) for number in text[1:-1].split(",")]
    try:
        return ast.literal_eval(parse_python(text.lstrip(" \t"), MAX_LENGTH, MAX_DEPTH, "eval"))
    except (ValueError, TypeError, OverflowError, RecursionError):  # a name, a list as a key, 10**400 + 1j, a long sum
        raise UnreadableAnswer(NOT_LITERAL) from None


def order_of(response: object, steps: int, once: bool = False) -> list[int] | str:
    """Return the indices from 0 that a response gives for n steps, each at least once, or the reason of its failure."""
    if not isinstance(response, str):
        return NOT_TEXT
    block = last_block(after_thinking(response))
    if block is None:
        return NO_MARKERS
    try:
        values = literal(block)
    except UnreadableAnswer:
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


def compared_by_evaluator(record: Mapping[str, Any]) -> OrderComparison:
    """Compare a response as BioProBench's evaluator does: a list of indices or of steps; raises UnreadableAnswer."""
    shown, right, order = record["wrong_steps"], record["correct_steps"], record.get("generated_response")
    if not isinstance(order, list):
        order = literal(marked_answer(order))
        if not isinstance(order, list):
            raise UnreadableAnswer(NOT_A_LIST)
    if all(type(index) is int for index in order):
        if len(order) != len(shown) or set(order) != set(range(len(shown))):
            raise UnreadableAnswer(NOT_PERMUTATION)
        order = [shown[index] for index in order]
    if len(order) != len(right):
        raise UnreadableAnswer(OTHER_LENGTH)
    try:
        steps = set(order)
    except TypeError:
        raise UnreadableAnswer(NOT_HASHABLE) from None
    if len(steps) < len(order) or has_equal_steps(right):
        raise UnreadableAnswer(NOT_UNIQUE)
    if steps != set(right):
        raise UnreadableAnswer(OTHER_STEPS)
    return compared(order, right)


def has_equal_steps(steps: Sequence[str]) -> bool:
    return len(set(steps)) < len(steps)


def listed(text: str) -> list[Any] | None:
    if text.lstrip().startswith(BEGINNINGS):
        try:
            value = literal(text)
        except UnreadableAnswer:
            value = None
        if isinstance(value, list):
            return value
    last = deque(LISTED.finditer(text), maxlen=1)
    try:
        return list(literal(last[0][0])) if last else None
    except UnreadableAnswer:  # a leading zero, or a digit that is not ASCII
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
    exact, repeats = list(answer) == list(right), len(answer) > len(right)
    return OrderComparison(exact, comb(len(positions), 2), increasing_pairs(positions), repeats)


def compared_indices(answer: Sequence[int], right: Sequence[int]) -> OrderComparison:
    """Compare an order of indices with the right one; a pair of equal indices is not concordant."""
    position = {index: pos for pos, index in enumerate(answer)}
    counts = Counter(right)
    distinct = dict.fromkeys(reversed(right))
    positions = [position[index] for index in reversed(distinct) for _ in range(counts[index])]
    return OrderComparison(list(answer) == list(right), comb(len(right), 2), increasing_pairs(positions), False)


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


GOLD = "gold_indices_1based"
GOLD_FROM_0 = "gold_indices"

SHARES = {
    "failed_missing": ("Share of responses that fail because a step is not named.", (MISSING_STEPS,)),
    "failed_extra": ("Share of responses that fail because an index is not one of the steps.", (EXTRA_STEPS,)),
    "failed_repeated": ("Share of responses that fail because a step is named more than once.", (REPEATS,)),
    "failed_base": (
        "Share of responses that fail because they count from 1 instead of 0 (profile thoth: from 0 instead of 1).",
        (ONE_BASED, ZERO_BASED),
    ),
    "failed_unreadable": (
        "Share of responses that fail because they have no list of integers in the expected place.",
        (NOT_TEXT, NO_MARKERS, NOT_LITERAL, NOT_INDICES, NO_LIST),
    ),
}

REASONS = (
    {OK: "An order was read."}
    | {name: text for name, text in UNREAD.items() if name != STEPS_DIFFER}
    | COMMON_REASONS
    | UNREAD_BY_EVALUATOR
)
"""Their order numbers them, so new reasons of responses come last."""


def record_fault(record: Mapping[str, Any]) -> str:
    shown, right, gold = record["wrong_steps"], record["correct_steps"], gold_of(record)
    if len(shown) < len(right) or not set(shown[: len(right)]) >= set(right):  # more steps may follow
        return "wrong_steps does not begin with the steps of correct_steps, in any order"
    if gold is not None and sorted(gold) != list(range(1, len(right) + 1)):
        name, numbers = (GOLD, "1 to n") if record.get(GOLD) is not None else (GOLD_FROM_0, "0 to n - 1")
        return f"{name} is not {numbers} in any order, for n steps"
    return ""


def gold_of(record: Mapping[str, Any]) -> list[int] | None:
    gold: list[int] | None = record.get(GOLD)
    if gold is None and record.get(GOLD_FROM_0) is not None:
        return [index + 1 for index in record[GOLD_FROM_0]]
    return gold


def right_indices(record: Mapping[str, Any]) -> list[int]:
    gold = gold_of(record)
    if gold is not None:
        return gold
    shown, right = record["wrong_steps"], record["correct_steps"]
    last = {step: index for index, step in enumerate(shown[: len(right)], start=1)}
    return [last[step] for step in right]


WRONG_BASE = {
    ONE_BASED: "count from 1, but BioProBench counts from 0: they count as failed. Subtract 1, or evaluate with "
    "profile=thoth, which reads indices from 1.",
    ZERO_BASED: "count from 0, but profile=thoth reads indices from 1: they count as failed. Add 1, or evaluate with "
    "profile=bioprobench, which reads indices from 0.",
}


EQUAL_STEPS = "records have equal steps in the right order: with profile=bioprobench-2 they fail whatever the answer."


def equal_steps(records: Records) -> list[Notice]:
    count = sum(has_equal_steps(record["correct_steps"]) for record in records)
    return [Notice(f"{count:,} of {len(records):,} {EQUAL_STEPS}")] if count else []


def wrong_base(failed: Sequence[RecordFailure], count: int) -> list[Notice]:
    reasons = [failure.reason for failure in failed]
    counts = ((reasons.count(reason), text) for reason, text in WRONG_BASE.items())
    return [Notice(f"{wrong:,} of {count:,} answers {text}") for wrong, text in counts if wrong]


Golds = dict[tuple[int, ...], list[int] | None]
"""Right orders by the identity of a record's fields: thousands of responses share a reference."""


def comparison_of(record: Mapping[str, Any], options: OrdOptions, golds: Golds) -> OrderComparison:
    """Compare a response as its profile does; raises UnreadableAnswer."""
    if options.profile == EVALUATOR:
        return compared_by_evaluator(record)
    shown, right = record["wrong_steps"], record["correct_steps"]
    by_indices = options.profile == THOTH
    key = id(shown), id(right), id(record.get(GOLD)), id(record.get(GOLD_FROM_0))
    if key not in golds:
        golds[key] = None if record_fault(record) else right_indices(record) if by_indices else []
    gold, response = golds[key], record.get("generated_response")
    if gold is None:
        raise UnreadableAnswer(STEPS_DIFFER)
    once = options.repeats == "failed"
    indices = order_of_list(response, len(right)) if by_indices else order_of(response, len(right), once)
    if isinstance(indices, str):
        raise UnreadableAnswer(indices)
    return compared_indices(indices, gold) if by_indices else compared([shown[index] for index in indices], right)


class OrdRecord(ConversationRecord):
    """One set of shuffled steps of BioProBench's ORD with a model's response."""

    wrong_steps: list[str] = Field(description="The steps as the model saw them; the response gives indices into them.")
    correct_steps: list[str] = Field(description="The same steps in the right order.")
    gold_indices_1based: list[int] | None = Field(
        None,
        description="Profile thoth: the right order as indices from 1. Without it and gold_indices, the order is found "
        "by the steps' texts; of equal texts, the last one counts.",
    )
    gold_indices: list[int] | None = Field(
        None, description="Profile thoth: the right order as indices from 0, if there is no gold_indices_1based."
    )
    generated_response: Any = Field(None, description="The model's response; anything but text counts as failed.")


class OrdOptions(ProfileOptions):
    """Options of ORD."""

    repeats: Literal["last", "failed"] = Field(
        "last",
        description="An answer that names a step more than once: its last place counts, as in the public script, or "
        "it fails, as in the paper's table of failures. Profile thoth: it always fails.",
    )
    reward: Literal["kendall_tau", "exact_match"] = Field(
        "kendall_tau", description="Rewards: the response's own tau, from -1 to 1, or 1 for the right order, else 0."
    )


class Ord(ConversationTask):
    name = "bioprobench.ord"
    description = "BioProBench, step ordering: exact match and Kendall's tau (equations 5 and 6)."
    record = OrdRecord
    options = OrdOptions
    metrics = (
        Metric("exact_match", "EM", "Share of right orders among those that could be read (equation 5).", percent=True),
        Metric(
            "kendall_tau",
            "τ",
            "Kendall's tau over the pairs of steps of all readable records together, as published; for one record, "
            "its own (equation 6).",
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
            "exact_match_over_all",
            "EM (all)",
            "Share of right orders among all responses; failed ones count as wrong.",
            percent=True,
        ),
        metric_of_scripts("repeats", "Repeats", "Share of read orders that name a step twice."),
        *(
            metric_of_scripts(name, name.replace("_", ": ").capitalize(), text, default=False)
            for name, (text, _) in SHARES.items()
        ),
    )
    failures = UNREAD | UNREAD_BY_EVALUATOR
    reward = "Kendall's tau of the response, from -1 to 1 (`reward = exact_match`: 1 for the right order, else 0)."
    reasons = REASONS
    components = ("exact_match", "kendall_tau")
    passed_if = ("exact_match",)
    answered = ("wrong_steps", "correct_steps")
    derived_fields = ("steps",)

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        records = self.completed(records)
        evaluation = self._read(records, options, advance)[0]
        reasons = {failure.record: failure.reason for failure in evaluation.failed}
        for metric in self.requested(options):
            if metric.name in SHARES:
                shares = [reasons.get(row) in SHARES[metric.name][1] for row in range(len(records))]
                evaluation.columns[metric.name] = np.array(shares, float)

        evaluation.warnings = wrong_base(evaluation.failed, len(records))
        if options.profile == EVALUATOR:
            evaluation.warnings += equal_steps(records)
        evaluation.derived["steps"] = [step_group(len(record["correct_steps"])) for record in records]
        return evaluation

    def _read(self, records: Records, options: OrdOptions, advance: Advance) -> tuple[Evaluation, np.ndarray]:
        exact, tau, repeated = np.full((3, len(records)), np.nan)
        pairs, concordant = np.zeros((2, len(records)), np.int64)
        failed = []
        golds: Golds = {}
        for row, record in enumerate(reporting(records, advance)):
            try:
                order = comparison_of(record, options, golds)
            except UnreadableAnswer as error:
                failed.append(RecordFailure(row, error.reason, of_response=error.reason != STEPS_DIFFER))
                continue
            exact[row], pairs[row], concordant[row], tau[row] = order.exact, order.pairs, order.concordant, order.tau
            repeated[row] = order.repeats
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
                "exact_match": (exact_match := mean_read(exact[rows], options)),
                "kendall_tau": None if exact_match is None else share(2 * agreeing - total, total),
                "kendall_tau_macro": mean_read(tau[rows], options),
            }

        return Evaluation(columns, failed, corpus, {"kendall_tau_macro": [tau]}), pairs

    def rewards(self, records: Records, options: Any, advance: Advance) -> TaskRewards:
        evaluation, pairs = self._read(records, options, advance)
        exact, tau = evaluation.columns["exact_match_over_all"], evaluation.columns["kendall_tau"]
        tau = np.nan_to_num(np.where((pairs == 0) & ~np.isnan(tau), exact, tau), nan=-1.0)
        rewards = exact if options.reward == "exact_match" else tau
        return TaskRewards(rewards, evaluation.failed, {"exact_match": exact, "kendall_tau": tau})

    def from_conversation(self, question: str, answer: str) -> Mapping[str, Any] | str:
        shown = steps_in(question)
        try:
            gold = literal(answer.strip())
        except UnreadableAnswer:
            gold = None
        if not shown:
            return "the question has no line `Step 1: …`"
        if not isinstance(gold, list) or not all(type(index) is int for index in gold):
            return "the answer must be a list of integers"
        if sorted(gold) != list(range(1, len(shown) + 1)):
            return "the answer must be 1 to n in any order, for n steps of the question"
        return {"wrong_steps": shown, "correct_steps": [shown[index - 1] for index in gold], GOLD: gold}

    def reference(self, value: Any) -> tuple[Mapping[str, Any] | None, str]:
        record, wrong = super().reference(value)
        if record is not None and (fault := record_fault(record)):
            return None, fault
        return record, wrong


TASK = Ord()
