"""Means of what a judge has said of a record, over criteria and runs, and their standard deviations over the runs."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..judges.replies import Judgement
from ..task import mean_of
from .prompts import CRITERIA
from .scores import expected_by_logprobs, expected_by_samples, geval_mean

__all__ = ["NOT_JUDGED", "NO_SCORE", "CriterionTally", "average", "deviation", "over_runs", "slug"]

NO_SCORE = "no_score"
NOT_JUDGED = "not_judged"


def slug(criterion: str) -> str:
    return criterion.strip().lower()


class CriterionTally:
    def __init__(self) -> None:
        self.values: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        self.reason: str | None = NOT_JUDGED

    def add(self, judgement: Judgement, criterion: str, run: int, by_logprobs: bool, form: bool) -> None:
        texts, logprobs = judgement
        values: dict[str, float | None] = {}
        by_samples, valid = expected_by_samples(texts, criterion if form else "")
        if texts:
            values |= {"valid_samples": valid / len(texts), "score_geval": geval_mean(texts)}
        if logprobs is not None:
            names = ("score_logprobs", "score_logprobs_raw", "logprobs_mass")
            values |= zip(names, expected_by_logprobs(logprobs), strict=True)
        score = values["score"] = values.get("score_logprobs") if by_logprobs else by_samples
        if criterion.strip().capitalize() in CRITERIA:
            values[slug(criterion)] = score
        for name, value in values.items():
            if value is not None:
                self.values[name, run].append(value)
        self.reason = (None if self.reason == NOT_JUDGED else self.reason) if score is not None else NO_SCORE

    def mean(self, metric: str, run: int) -> float:
        numbers = self.values[metric, run]
        return math.fsum(numbers) / len(numbers) if numbers else math.nan


def average(columns: Mapping[str, np.ndarray], rows: np.ndarray) -> float | None:
    means = [mean for name in CRITERIA if (mean := mean_of(columns[slug(name)][rows])) is not None]
    return math.fsum(means) / len(means) if means else None


def deviation(values: Iterable[float | None]) -> float | None:
    present = [float(value) for value in values if value is not None and not math.isnan(value)]
    return statistics.stdev(present) if len(present) > 1 else None


def over_runs(runs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    means = [mean_of(values) for values in np.array(runs).T]
    spreads = [deviation(values.tolist()) for values in np.array(runs).T]
    return np.array(means, float), np.array(spreads, float)
