"""The result of scoring a batch: one column per measure."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import numpy as np

from ...kernels.score import COMPONENTS
from ...kernels.status import REASONS
from ..errors import InvalidRequest, Issue

__all__ = ["Scores", "group_advantages"]

_REASONS = np.array(REASONS)


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
    """

    def __init__(
        self,
        rewards: np.ndarray,
        reason_codes: np.ndarray,
        measures: np.ndarray,
        reference_index: np.ndarray,
        advantage_ddof: int,
    ) -> None:
        self.rewards = rewards
        self.reason_codes = reason_codes
        self.reference_index = reference_index
        self.measures = measures
        self._ddof = advantage_ddof

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        if not len(self):
            return "Scores(0 responses)"
        counts = Counter(self.reasons.tolist()).most_common()
        reasons = ", ".join(f"{reason} {count}" for reason, count in counts)
        return f"Scores({len(self)} responses, mean reward {self.rewards.mean():.4f}; {reasons})"

    @cached_property
    def reasons(self) -> np.ndarray:
        """Names of the reasons, str (n,): `ok`, or why the response fails a gate (docs/rules.md, Reasons)."""
        names: np.ndarray = _REASONS[self.reason_codes]
        return names

    @cached_property
    def components(self) -> dict[str, np.ndarray]:
        """Every component by name, float64 (n,); 0 if the response fails a gate."""
        return dict(zip(COMPONENTS, self.measures, strict=True))

    def put(self, first: int, part: Scores) -> None:
        """Copy the rows of `part` to those from `first` on."""
        last = first + len(part)
        self.rewards[first:last] = part.rewards
        self.reason_codes[first:last] = part.reason_codes
        self.measures[:, first:last] = part.measures

    def advantages(self) -> np.ndarray:
        """Return (r − mean) / std within the responses of each reference (paper eq. 12).

        Returns
        -------
        ndarray of float64, shape (n,)
            0 in a group of one or of equal rewards.

        Raises
        ------
        InvalidRequest
            If no reference has two responses.
        """
        return group_advantages(self.rewards, self.reference_index, self._ddof)


def group_advantages(rewards: np.ndarray, group_index: np.ndarray, ddof: int) -> np.ndarray:
    """Return advantages of `rewards`, float64 (n,), within groups numbered by `group_index`, int64 (n,)."""
    if rewards.shape[0] == 0:
        return np.zeros(0)
    _, groups, sizes = np.unique(group_index, return_inverse=True, return_counts=True)
    if sizes.max() < 2:
        detail = "advantages need a reference with at least two responses"
        raise InvalidRequest([Issue("include", "no_group", detail)])
    order = np.argsort(groups, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    grouped = rewards[order]
    means = np.add.reduceat(grouped, starts) / sizes
    centred = grouped - np.repeat(means, sizes)
    flat = np.maximum.reduceat(grouped, starts) == np.minimum.reduceat(grouped, starts)
    largest = np.where(flat, 1.0, np.maximum.reduceat(np.abs(centred), starts))
    centred /= np.repeat(largest, sizes)  # so that squares of tiny rewards do not underflow
    deviations = np.sqrt(np.add.reduceat(centred * centred, starts) / np.maximum(sizes - ddof, 1))
    deviations[flat] = np.inf
    advantages = np.empty_like(rewards)
    advantages[order] = centred / np.repeat(deviations, sizes)
    return advantages
