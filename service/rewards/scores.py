"""The result of scoring a batch: one column per measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ...kernels.column import frozen
from ...kernels.rules import MISSING_SECTIONS, TOO_LONG
from ...kernels.semantics import exact_sums
from ...kernels.warmup import warmup
from ..errors import InvalidRequest
from ..scoring.column_scorer import Columns, StepColumns
from ..scoring.texts import Texts, utf8_of
from .batch import groups_of_one
from .registry import REWARD_TASKS, REWARDS, TASK_COMPONENTS, Reward

Floats = NDArray[np.float64]
"""A column of measures."""

NO_SPREAD = 1e-9
"""Rewards of a group that differ by no more are equal but for rounding (docs/rules.md, Advantages)."""


STEP_FIELDS = ("start", "end", "orc_start", "orc_end", "coverage", "reference", "value")
"""The fields of a step, in this order."""


class StepTable(Sequence[list[dict[str, Any]]]):
    """The steps of n responses: for each, a list with an entry for each of its steps (docs/rules.md, Steps).

    Attributes
    ----------
    columns : StepColumns
        The same as arrays.
    """

    def __init__(self, columns: StepColumns) -> None:
        self.columns = columns

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where the entries of each response begin in the columns, int64 (n + 1,)."""
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.columns.counts, out=offsets[1:])
        return offsets

    @property
    def fields(self) -> dict[str, NDArray[Any]]:
        """Every field as a column of all entries, by name: int64 or, for `coverage` and `value`, float64."""
        columns = self.columns
        values = *columns.spans, columns.coverages, columns.references, columns.values
        return dict(zip(STEP_FIELDS, values, strict=True))

    def __len__(self) -> int:
        return len(self.columns.counts)

    @overload
    def __getitem__(self, row: int) -> list[dict[str, Any]]: ...
    @overload
    def __getitem__(self, row: slice) -> list[list[dict[str, Any]]]: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return [self[k] for k in range(len(self))[row]]
        row = range(len(self))[row]
        first, last = self.offsets[row], self.offsets[row + 1]
        columns = [column[first:last].tolist() for column in self.fields.values()]
        return [dict(zip(STEP_FIELDS, entry, strict=True)) for entry in zip(*columns, strict=True)]

    @classmethod
    def none(cls, rows: int) -> StepTable:
        """Return the steps of responses without steps."""
        ints, floats = np.zeros(0, np.int64), np.zeros(0)
        zeros = np.zeros(rows, np.int64)
        return cls(StepColumns(zeros, np.zeros((4, 0), np.int64), floats, ints, floats, zeros))

    def spread(self, rows: NDArray[np.int64] | slice, size: int) -> StepTable:
        """Return the steps of `size` responses, of which those that `rows` numbers, ascending, have these steps."""
        counts, alternatives = np.zeros((2, size), np.int64)
        counts[rows], alternatives[rows] = self.columns.counts, self.columns.alternatives
        return StepTable(self.columns._replace(counts=counts, alternatives=alternatives))


class Scores:
    """Columns of length n, in the order of the responses.

    Attributes
    ----------
    rewards : ndarray of float64, shape (n,)
        The rewards, all finite.
    reason_codes : ndarray of uint8, shape (n,)
        Numbers of the reasons: indices into `assay.kernels.rules.REASONS`, which other tasks number for themselves.
    reference_index : ndarray of int64, shape (n,)
        The reference of each response.
    groups : ndarray of int64, shape (n,), or None
        The group of each response, if the request gave groups.
    task_codes : ndarray of uint8, shape (n,)
        The number of each response's task; 0 is SCORE.
    steps : Steps or None
        The steps of each response, if they were asked for; none of responses that have no valid steps, and of other
        tasks.
    """

    configs: Sequence[Scores] = ()
    """The scores under further configurations of the same request."""

    def __init__(
        self,
        rewards: Floats,
        reason_codes: NDArray[np.uint8],
        measures: Floats,
        reference_index: NDArray[np.int64],
        *,
        advantage_ddof: int = 1,
        groups: NDArray[np.int64] | None = None,
        task_codes: NDArray[np.uint8] | None = None,
        steps: StepTable | None = None,
    ) -> None:
        """Take columns: measures has a row for each component; task_codes is None if only SCORE was asked for."""
        self.steps = steps
        self.rewards = rewards
        self.reason_codes = reason_codes
        self.reference_index = reference_index
        self.groups = groups
        self.measures = measures
        self._ddof = advantage_ddof
        self._task_codes = task_codes
        self.is_score = task_codes is None
        """True if only SCORE was asked for: then there are no components of other tasks."""

    @classmethod
    def zeros(
        cls,
        task_codes: NDArray[np.uint8],
        reference_index: NDArray[np.int64],
        advantage_ddof: int = 1,
        groups: NDArray[np.int64] | None = None,
        steps: bool = False,
    ) -> Scores:
        """Return scores of any tasks, to be filled."""
        n = len(task_codes)
        columns = np.zeros(n), np.zeros(n, np.uint8), np.zeros((len(TASK_COMPONENTS), n)), reference_index
        none = StepTable.none(n) if steps else None
        return cls(*columns, advantage_ddof=advantage_ddof, groups=groups, task_codes=task_codes, steps=none)

    def put(self, reward: Reward, rows: NDArray[np.int64] | slice, columns: Columns) -> None:
        """Copy the columns of rows of one reward to the rows that `rows` numbers."""
        self.rewards[rows] = columns.rewards[0]
        self.reason_codes[rows] = columns.reason_codes[0]
        for place, measure in zip(reward.places, columns.measures[0], strict=True):
            self.measures[place, rows] = measure
        if columns.steps:
            self.steps = StepTable(columns.steps[0]).spread(rows, len(self))

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        if not len(self):
            return "Scores(0 responses)"
        counts = Counter(self.reasons.tolist()).most_common()
        reasons = ", ".join(f"{reason} {count}" for reason, count in counts)
        return f"Scores({len(self)} responses, mean reward {self.rewards.mean():.4f}; {reasons})"

    @cached_property
    def _parts(self) -> list[tuple[Reward, NDArray[np.bool_] | slice]]:
        """Every reward that has rows, and these."""
        codes = self._task_codes
        numbers = [0] if codes is None else np.unique(codes).tolist()
        if codes is None or len(numbers) == 1:
            return [(REWARDS[number], slice(None)) for number in numbers]
        return [(REWARDS[number], codes == number) for number in numbers]

    @cached_property
    def reasons(self) -> NDArray[np.str_]:
        """Names of the reasons, str (n,): `ok`, or why the response fails a gate (docs/rules.md, Reasons)."""
        names = [reward.reason_names[self.reason_codes[rows]] for reward, rows in self._parts]
        if len(names) == 1:
            return names[0]
        reasons = np.empty(len(self), np.result_type("U1", *names))
        for (_, rows), column in zip(self._parts, names, strict=True):
            reasons[rows] = column
        return reasons

    @cached_property
    def components(self) -> dict[str, Floats]:
        """Every component by name, float64 (n,); 0 if the response fails a gate or its task does not have it."""
        return dict(zip(TASK_COMPONENTS, self.measures, strict=False))

    @cached_property
    def passed(self) -> Floats:
        """1.0 for responses that pass: for SCORE, both gates with the reference's order of actions; float64 (n,)."""
        passed = np.ones(len(self))
        for reward, rows in self._parts:
            for name in reward.passed_if:
                passed[rows] *= np.abs(self.components[name][rows] - 1.0) <= reward.tolerance
        return passed

    def of_reward(self, reward: Reward) -> tuple[NDArray[np.int64], Scores]:
        """Return the numbers of the rows of one reward, int64, and their scores with its components."""
        rows = np.flatnonzero(self.task_codes == reward.number)
        if self.is_score:
            return rows, self
        columns = self.rewards[rows], self.reason_codes[rows], self.measures[reward.places][:, rows]
        return rows, Scores(*columns, self.reference_index[rows], advantage_ddof=self._ddof)

    @property
    def alternative(self) -> NDArray[np.int64] | None:
        """The alternative of its reference that counted for each response, int64 (n,), 0 without alternatives; None
        unless steps were asked for.
        """
        return None if self.steps is None else self.steps.columns.alternatives

    @property
    def task_codes(self) -> NDArray[np.uint8]:
        """The number of each response's task, uint8 (n,)."""
        return np.zeros(len(self), np.uint8) if self._task_codes is None else self._task_codes

    @property
    def tasks(self) -> NDArray[np.str_]:
        """The name of each response's task, str (n,)."""
        names: NDArray[np.str_] = np.array(REWARD_TASKS)[self.task_codes]
        return names

    @cached_property
    def unscored(self) -> NDArray[np.bool_] | None:
        """True for responses that are `out_of_time`, bool (n,); None if none is."""
        unscored = None
        for reward, rows in self._parts:
            if reward.out_of_time is not None and (late := self.reason_codes[rows] == reward.out_of_time).any():
                unscored = np.zeros(len(self), bool) if unscored is None else unscored
                unscored[rows] = late
        return unscored

    @property
    def group_index(self) -> NDArray[np.int64]:
        """The group of each response, int64 (n,): of `groups`, or else its reference."""
        return self.reference_index if self.groups is None else self.groups

    def advantages(self) -> Floats:
        """Return (r − mean) / std within each group (paper eq. 12): by `groups`, or else by reference.

        Returns
        -------
        ndarray of float64, shape (n,)
            0 in a group of one, or whose rewards are equal but for rounding, and for responses that are `out_of_time`.

        Raises
        ------
        InvalidRequest
            If groups are not named, and no reference has two responses.
        """
        if self.groups is None:
            require_group_of_two(self.reference_index)
        if self.unscored is None:
            return group_advantages(self.rewards, self.group_index, self._ddof)
        advantages, scored = np.zeros(len(self)), ~self.unscored
        advantages[scored] = group_advantages(self.rewards[scored], self.group_index[scored], self._ddof)
        return advantages


def is_cut_off(reason_code: int, response: bytes) -> bool:
    """Return whether a response to SCORE is too long, or begins sections and stops before the last end tag."""
    if reason_code != MISSING_SECTIONS:
        return reason_code == TOO_LONG
    return b"<key>" in response and b"</note>" not in response


def count_cut_off(scores: Scores, responses: Texts) -> int:
    """Return how many of the responses to SCORE are cut off; only texts of `missing_sections` are read."""
    codes = scores.reason_codes if scores.is_score else scores.reason_codes * (scores.task_codes == 0)
    reasons = codes.tobytes()
    number, row = reasons.count(TOO_LONG), reasons.find(MISSING_SECTIONS)
    while row >= 0:
        number += is_cut_off(MISSING_SECTIONS, utf8_of(responses, row))
        row = reasons.find(MISSING_SECTIONS, row + 1)
    return number


def require_group_of_two(group_index: NDArray[np.int64]) -> None:
    """Raise InvalidRequest if groups that follow from references, int64 (n,), have one response each."""
    if issues := groups_of_one(group_index):
        raise InvalidRequest(issues)


def group_advantages(rewards: Floats, group_index: NDArray[np.int64], ddof: int) -> Floats:
    """Return advantages of `rewards`, float64 (n,), within groups numbered by `group_index`, int64 (n,).

    They are 0 in groups of one and without spread (`NO_SPREAD`). Sums are exact, so the order of the rows does not
    matter.
    """
    if rewards.shape[0] == 0:
        return np.zeros(0)
    _, groups, sizes = np.unique(group_index, return_inverse=True, return_counts=True)
    order = np.argsort(groups, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    spread = spread_of(rewards[order], offsets, ddof, sums_of)
    flat = np.repeat(spread.flat, sizes)
    advantages = np.empty_like(rewards)
    advantages[order] = np.where(flat, 0.0, spread.centred) / np.where(flat, 1.0, np.repeat(spread.deviations, sizes))
    return advantages


class Spread(NamedTuple):
    """The spread of values within groups."""

    sizes: NDArray[np.int64]
    means: Floats
    centred: Floats
    """The distance of each value from the mean of its group."""
    deviations: Floats
    """The standard deviation of each group; 0 without spread."""
    flat: NDArray[np.bool_]
    """True if the values of a group are equal but for rounding (`NO_SPREAD`), as they are in a group of one."""


def sums_between(terms: Floats, offsets: NDArray[np.int64]) -> Floats:
    sums: Floats = np.add.reduceat(terms, offsets[:-1])
    return sums


def spread_of(
    values: Floats,
    offsets: NDArray[np.int64],
    ddof: int = 1,
    sums: Callable[[Floats, NDArray[np.int64]], Floats] = sums_between,
) -> Spread:
    """Return the spread within groups of consecutive values, n > 0: group k is `values[offsets[k]:offsets[k + 1]]`."""
    starts = offsets[:-1]
    sizes = offsets[1:] - starts
    means = sums(values, offsets) / sizes
    centred = values - np.repeat(means, sizes)
    deviations = np.sqrt(sums(centred * centred, offsets) / np.maximum(sizes - ddof, 1))
    flat = np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts) <= NO_SPREAD
    return Spread(sizes, means, centred, np.where(flat, 0.0, deviations), flat)


def sums_of(terms: Floats, offsets: NDArray[np.int64]) -> Floats:
    """Return the exactly rounded sum of each row of a column of float64."""
    warmup()
    sums = np.empty(len(offsets) - 1)
    exact_sums(sums, terms, frozen(offsets, np.int64))
    return sums
