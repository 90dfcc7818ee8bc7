"""Several samples of each prompt: means over prompts, pass@k and best of k.

pass@k is the unbiased estimator of Chen et al. 2021 (https://arxiv.org/abs/2107.03374), section 2.1. Best of k is its
generalization to any values: the expected best of k samples that are drawn without replacement from those of a prompt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...service.tables.table import Cell, Row, Table
from ...service.tasks.task import Metric
from ...service.wording import plural
from .inference import NO_ERROR, standard_error


class Mean(NamedTuple):
    """The mean of a value over n prompts, and its standard error, None for one of them or few equal ones."""

    value: float | None
    error: float | None
    n: int

    def document(self) -> dict[str, Any]:
        return {"value": self.value, "error": self.error, "prompts": self.n}


def mean_over(values: np.ndarray) -> Mean:
    """Return the mean of float64 (prompts,), without those that are NaN."""
    values = values[~np.isnan(values)]
    if not len(values):
        return Mean(None, None, 0)
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    error = standard_error(len(values), deviation, float(values.min()), float(values.max()))
    return Mean(float(values.mean()), error, len(values))


def prompt_numbers(ids: Sequence[str]) -> np.ndarray | None:
    """Return int64 (n,): the number of each record's prompt, which its id tells; None unless ids repeat and all exist.

    `pair_records` of a comparison takes the same records for samples of one prompt.
    """
    if len(set(ids)) == len(ids) or not all(ids):
        return None
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in ids], np.int64)


def means_by(prompts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return float64 (prompts,): the mean of the values (n,) of each prompt that are not NaN, NaN if all are."""
    present = ~np.isnan(values)
    prompts, number = prompts[present], int(prompts.max(initial=-1)) + 1
    with np.errstate(invalid="ignore"):
        return np.bincount(prompts, values[present], number) / np.bincount(prompts, minlength=number)


def best_of(
    prompts: np.ndarray, values: np.ndarray, failed: np.ndarray, k: int, failed_as_zero: bool = False
) -> np.ndarray:
    """Return float64 (prompts,): the expected largest of k samples drawn without replacement from those of each prompt.

    prompts: int64 (n,). values: float64 (n,). failed: bool (n,). A failed sample without a value is drawn, but is never
    the best; draws of such samples alone are left out, or count as 0. Another sample without a value is not drawn: the
    metric does not apply to it. NaN for a prompt with fewer than k samples to draw, or without a value.
    """
    number = int(prompts.max(initial=-1)) + 1
    drawn = failed | ~np.isnan(values)
    prompts, values = prompts[drawn], values[drawn]
    order = np.lexsort((values, ~np.isnan(values), prompts))
    prompts, values = prompts[order], values[order]
    sizes = np.bincount(prompts, minlength=number)
    places = np.arange(len(prompts)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    weights = np.zeros(len(prompts))
    for size in np.unique(sizes[sizes >= k]).tolist():
        # Of all draws, the sample at place j, from 0, is the largest in comb(j, k - 1).
        shares = np.array([math.comb(j, k - 1) / math.comb(size, k) for j in range(size)])
        of_size = sizes[prompts] == size
        weights[of_size] = shares[places[of_size]]
    has_value = ~np.isnan(values)
    prompts, weights = prompts[has_value], weights[has_value]
    sums, shares = (np.bincount(prompts, some, number) for some in (weights * values[has_value], weights))
    if failed_as_zero:
        return np.where(sizes >= k, sums, np.nan)
    with np.errstate(invalid="ignore"):
        return sums / shares


class SampleEstimate(NamedTuple):
    """What several samples of a prompt reach in one metric."""

    metric: str
    name: str
    """`pass@k` or `best of k`."""
    mean: Mean
    best: dict[int, Mean]
    """By k."""
    has_failed: bool
    """Whether failed answers have no value."""

    @property
    def means(self) -> list[Mean]:
        return [self.mean, *self.best.values()]

    def document(self) -> dict[str, Any]:
        best = [{"k": k, **mean.document()} for k, mean in self.best.items()]
        return {"metric": self.metric, "mean": self.mean.document(), "estimate": self.name, "k": best}


@dataclass(frozen=True)
class Samples:
    """The samples of a file's prompts: how many a prompt has at least and at most, and what they reach."""

    prompts: int
    smallest: int
    largest: int
    estimates: list[SampleEstimate]

    def document(self) -> dict[str, Any]:
        return {
            "prompts": self.prompts,
            "smallest": self.smallest,
            "largest": self.largest,
            "metrics": [estimate.document() for estimate in self.estimates],
        }

    @property
    def sizes(self) -> list[int]:
        """The numbers of samples, k, that are drawn."""
        return draws(self.smallest)

    def rows(self, titles: Mapping[str, str], formatted: Callable[[str, float], str]) -> list[Row]:
        """Return a row for each metric: its heading, the name of the estimate, the mean, and the best of each k."""

        def cell(metric: str, mean: Mean) -> Cell | None:
            if mean.value is None:
                return None
            error = "" if mean.error is None else formatted(metric, mean.error)
            return Cell(formatted(metric, mean.value), error, f"{mean.n:,}" if mean.n < self.prompts else "")

        return [
            [
                titles.get(estimate.metric, estimate.metric),
                estimate.name,
                *(cell(estimate.metric, mean) for mean in estimate.means),
            ]
            for estimate in self.estimates
        ]


def draws(samples: int) -> list[int]:
    """Return 1, 2, 4, … below the number of samples of a prompt, and the number itself."""
    return [*(1 << power for power in range((samples - 1).bit_length())), samples]


def samples_of(
    prompts: np.ndarray, columns: Mapping[str, np.ndarray], metrics: Mapping[str, Metric], failed: np.ndarray
) -> Samples:
    """Return what the samples of each prompt reach.

    prompts: int64 (n,). columns: float64 (n,) by the name of a metric in `metrics`. failed: bool (n,), the records
    whose response is the cause that metrics have no value.
    """
    sizes = np.bincount(prompts)
    smallest, largest = int(sizes.min()), int(sizes.max())
    estimates = []
    for name, metric in metrics.items():
        values = columns[name]
        if np.isnan(values).all():
            continue
        sign = -1.0 if metric.less_is_better else 1.0
        passes = sign > 0 and bool(np.isin(values[~np.isnan(values)], (0.0, 1.0)).all())
        best = {k: mean_over(sign * best_of(prompts, sign * values, failed, k, passes) + 0.0) for k in draws(smallest)}
        label = "pass@k" if passes else "best of k"
        has_failed = bool((failed & np.isnan(values)).any())
        estimates.append(SampleEstimate(name, label, mean_over(means_by(prompts, values)), best, has_failed))
    return Samples(len(sizes), smallest, largest, estimates)


def samples_table(
    models: Sequence[tuple[str, Samples]], titles: Mapping[str, str], formatted: Callable[[str, float], str]
) -> Table:
    """Return the table of one model's samples, or of several with their names."""
    sizes = sorted({k for _, samples in models for k in samples.sizes})
    rows: list[Row] = []
    for model, samples in models:
        for row in samples.rows(titles, formatted):
            best = dict(zip(samples.sizes, row[3:], strict=True))
            name = [model] if len(models) > 1 else []
            rows.append([*name, *row[:3], *(best.get(k) for k in sizes)])
    heads = ["metric", "estimate", "mean", *(f"k = {k}" for k in sizes)]
    notes = list(notes_on(models))
    if len(models) > 1:
        heads = ["model", *heads]
    return Table(heads, rows, left=2 + (len(models) > 1), title="Samples", notes=notes)


def notes_on(models: Sequence[tuple[str, Samples]]) -> Iterator[str]:
    for model, samples in models:
        number = plural(samples.largest, "sample")
        each = f"{number} each" if samples.smallest == samples.largest else f"{samples.smallest} to {number} each"
        yield f"{f'{model}: ' if len(models) > 1 else ''}{plural(samples.prompts, 'prompt')} with {each}."
    yield "mean: over the prompts, of the means of their samples. ±: standard error over the prompts."
    yield "k: samples drawn from each prompt's. pass@k: the share of draws with a 1; best of k: the mean of their best."
    estimates = [estimate for _, samples in models for estimate in samples.estimates]
    if any(mean.error is None and mean.n > 1 for estimate in estimates for mean in estimate.means):
        yield NO_ERROR
    if any(estimate.has_failed for estimate in estimates):
        yield "A failed answer without a value does not pass, and every other is better; the mean leaves it out."
    counted = ((mean.n, samples.prompts) for _, samples in models for each in samples.estimates for mean in each.means)
    if any(n < prompts for n, prompts in counted):
        yield "(n) after a value: based on only n prompts."
