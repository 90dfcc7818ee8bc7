"""Summary of a run of `assay score` as a text table."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ...kernels.status import REASONS
from ..scoring.scores import Scores

__all__ = ["QUANTILES", "Summary", "quantiles"]

QUANTILES = {"min": 0.0, "5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95, "max": 1.0}
"""Names and probabilities of the quantiles in tables of rewards."""


def quantiles(rewards: np.ndarray) -> dict[str, float]:
    """Return the quantiles of at least one float64 reward, by the names of `QUANTILES` (linear interpolation)."""
    values = np.quantile(rewards, list(QUANTILES.values()))
    return dict(zip(QUANTILES, values.tolist(), strict=True))


class Summary:
    """Accumulates counts piece by piece; keeps 8 bytes per response, for exact quantiles."""

    def __init__(self) -> None:
        self._rewards: list[np.ndarray] = []
        self._reasons = np.zeros(len(REASONS), dtype=np.int64)
        self._gates = {"format": 0, "consistency": 0}
        self.faults: Counter[str] = Counter()

    def add(self, scores: Scores) -> None:
        """Count one piece."""
        self._rewards.append(scores.rewards)
        self._reasons += np.bincount(scores.reason_codes, minlength=len(REASONS))
        for gate in self._gates:
            self._gates[gate] += int(np.count_nonzero(scores.components[gate]))

    @property
    def responses(self) -> int:
        """Number of responses that have a reward."""
        return int(self._reasons.sum())

    def table(self, seconds: float) -> str:
        """Return the table; `seconds` is the time from the first row read to the last one written."""
        rate = f", {self.responses / seconds:,.0f} a second" if seconds > 0 else ""
        lines = [f"scored       {self.responses:,} in {seconds:.2f} s{rate}"]
        if self.faults:
            lines.append(f"not scored   {self.faults.total():,}")
            lines += [f"  {reason:<20} {count:>10,}" for reason, count in self.faults.most_common()]
        if self.responses:
            lines += self._reward_lines()
            lines.append("gates passed")
            lines += [self._share(gate, count) for gate, count in self._gates.items()]
            lines.append("reasons")
            found = [(REASONS[code], int(count)) for code, count in enumerate(self._reasons) if count]
            lines += [self._share(reason, count) for reason, count in sorted(found, key=lambda pair: -pair[1])]
        return "\n".join(lines)

    def _reward_lines(self) -> list[str]:
        rewards = np.concatenate(self._rewards)
        values = {"mean": rewards.mean(), **quantiles(rewards)}
        heads = "".join(f"{name:>9}" for name in values)
        return ["reward", heads, "".join(f"{value:9.4f}" for value in values.values())]

    def _share(self, name: str, count: int) -> str:
        return f"  {name:<20} {count:>10,}  {100 * count / self.responses:5.1f} %"
