"""The result of scoring a batch: one column per measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...kernels.column import frozen
from ...kernels.score import COMPONENTS
from ...kernels.similarity.exact_sum import exact_sums
from ...kernels.status import REASONS
from ...kernels.warmup import warmup
from ..errors import InvalidRequest, Issue

__all__ = [
    "NO_SPREAD",
    "PASSED_IF",
    "Floats",
    "Scores",
    "group_advantages",
    "require_group_of_two",
    "spread_of",
    "sums_of",
]

Floats = NDArray[np.float64]
"""A column of measures."""

NO_SPREAD = 1e-9
"""Rewards of a group that differ by no more are equal but for rounding (docs/rules.md, Advantages)."""

_REASONS = np.array(REASONS)

PASSED_IF = ("consistency", "order")
"""The components that are both 1 for a response that passes."""


class Scores:
    """Columns of length n, in the order of the responses.

    Attributes
    ----------
    rewards : ndarray of float64, shape (n,)
        The rewards, all finite.
    reason_codes : ndarray of uint8, shape (n,)
        Indices into `assay.kernels.status.REASONS`.
    reference_index : ndarray of int64, shape (n,)
        The reference of each response.
    groups : ndarray of int64, shape (n,), or None
        The group of each response, if the request gave groups.
    """

    _names: ClassVar[tuple[str, ...]] = COMPONENTS

    unscored: NDArray[np.bool_] | None = None
    """True for responses whose reward is not known, bool (n,); None if all are."""

    def __init__(
        self,
        rewards: Floats,
        reason_codes: NDArray[np.uint8],
        measures: Floats,
        reference_index: NDArray[np.int64],
        advantage_ddof: int,
        groups: NDArray[np.int64] | None = None,
    ) -> None:
        self.rewards = rewards
        self.reason_codes = reason_codes
        self.reference_index = reference_index
        self.groups = groups
        self.measures = measures
        self._ddof = advantage_ddof

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        if not len(self):
            return f"{type(self).__name__}(0 responses)"
        counts = Counter(self.reasons.tolist()).most_common()
        reasons = ", ".join(f"{reason} {count}" for reason, count in counts)
        return f"{type(self).__name__}({len(self)} responses, mean reward {self.rewards.mean():.4f}; {reasons})"

    @cached_property
    def reasons(self) -> NDArray[np.str_]:
        """Names of the reasons, str (n,): `ok`, or why the response fails a gate (docs/rules.md, Reasons)."""
        names: NDArray[np.str_] = _REASONS[self.reason_codes]
        return names

    @cached_property
    def components(self) -> dict[str, Floats]:
        """Every component by name, float64 (n,); 0 if the response fails a gate."""
        return dict(zip(self._names, self.measures, strict=True))

    @cached_property
    def passed(self) -> Floats:
        """1.0 for responses that pass both gates with the reference's order of actions, else 0.0; float64 (n,)."""
        passed: NDArray[np.bool_] = np.all([self.components[name] == 1.0 for name in PASSED_IF], axis=0)
        return passed.astype(np.float64)

    @property
    def task_codes(self) -> NDArray[np.uint8]:
        """The number of each response's task, uint8 (n,): 0, SCORE."""
        return np.zeros(len(self), np.uint8)

    @property
    def tasks(self) -> NDArray[np.str_]:
        """The name of each response's task, str (n,): `score`."""
        return np.full(len(self), "score")

    @property
    def group_index(self) -> NDArray[np.int64]:
        """The group of each response, int64 (n,): of `groups`, or else its reference."""
        return self.reference_index if self.groups is None else self.groups

    def advantages(self) -> Floats:
        """Return (r − mean) / std within each group (paper eq. 12): by `groups`, or else by reference.

        Returns
        -------
        ndarray of float64, shape (n,)
            0 in a group of one, or whose rewards are equal but for rounding.

        Raises
        ------
        InvalidRequest
            If groups are not named, and no reference has two responses.
        """
        if self.groups is None:
            require_group_of_two(self.reference_index)
        return group_advantages(self.rewards, self.group_index, self._ddof)


def require_group_of_two(group_index: NDArray[np.int64]) -> None:
    """Raise InvalidRequest if groups that follow from references, int64 (n,), have one response each.

    That is a mistake: one reference for each row and no index. Groups that a request names may have one response.
    """
    if len(group_index) and len(np.unique(group_index)) == len(group_index):
        detail = "advantages need a group of at least two responses"
        raise InvalidRequest([Issue("include", "no_group", detail)])


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
    """Whether the values of a group are equal but for rounding (`NO_SPREAD`), as they are in a group of one."""


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
