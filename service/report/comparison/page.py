"""The comparison of several evaluated files as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

from ...explain.numbers import plural
from ...records.files import source_name
from ..charts import Chart
from ..rendering import render
from .compared_files import ComparedFiles
from .interval_plot import interval_plots

__all__ = ["comparison_page"]

MAX_LISTED = 200
"""Maximum number of rows that were left out and are listed."""


def comparison_page(compared: ComparedFiles, moment: datetime | None = None) -> str:
    """Return the HTML of the comparison."""
    options = {name: value for name, value in compared.files[0].options.items() if value is not None}
    means, differences, *agreement = compared.tables()
    groups = [(block, list(compared.differences(block))) for block in compared.blocks[1:]]
    left_out = list(left_out_rows(compared))
    return render(
        "comparison.html",
        moment or datetime.now(UTC),
        compared=compared,
        baseline=compared.names[compared.baseline],
        verdict=list(verdict(compared)),
        means=means,
        differences=differences,
        plots=list(plots(compared)),
        by_group=compared.difference_table(groups) if groups else None,
        agreement=agreement,
        failures=list(failures(compared)),
        left_out=left_out[:MAX_LISTED],
        more=max(0, len(left_out) - MAX_LISTED),
        options=orjson.dumps(options, default=str).decode(),
        signatures=dict.fromkeys(file.result.signature for file in compared.files),
        glossary=[(name, heading, metric.description if metric else "") for name, metric, heading in compared.metrics],
    )


def verdict(compared: ComparedFiles) -> Iterator[tuple[str, bool]]:
    """Yield sentences on the comparison, each with whether all is well."""
    ranks = {k: rank for k, rank in enumerate(compared.blocks[0].ranks) if rank is not None}
    if ranks:
        lowest = min(ranks.values())
        best = " and ".join(compared.names[k] for k, rank in ranks.items() if rank == lowest)
        yield f"{best}: the best mean rank over the metrics, {lowest:.2f} of {len(compared.names)} models.", True
    for k, pairing in compared.pairings.items():
        apart = [
            one for one in compared.overall if one[0] == k and one[1].interval and not contains_zero(one[1].interval)
        ]
        of_model = sum(number == k for number, _ in compared.overall)
        text = f"{len(apart)} of {plural(of_model, 'difference')} with an interval that excludes 0"
        yield f"{compared.names[k]}: {text}, over {plural(len(pairing.rows), 'pair')}.", len(pairing.rows) > 0
    if number := sum(1 for _ in left_out_rows(compared)):
        yield f"{plural(number, 'row')} not evaluated or not compared: see below.", False
    missing = {compared.titles.get(name, name) for file in compared.files for name in file.result.unavailable}
    if missing:
        yield f"{plural(len(missing), 'metric')} could not be computed: see below the table.", False


def contains_zero(interval: tuple[float, float, float]) -> bool:
    """Return whether an interval contains 0."""
    return interval[0] <= 0.0 <= interval[1]


def plots(compared: ComparedFiles) -> Iterator[tuple[str, list[Chart]]]:
    """Yield the name of each model but the baseline, and plots of its differences."""
    known = {name: metric for name, metric, _ in compared.metrics}
    baseline = compared.names[compared.baseline]
    for k in compared.pairings:
        found = [(metric, one) for number, one in compared.overall if number == k and (metric := known[one.metric])]
        name = compared.names[k]
        yield name, list(interval_plots(found, f"Differences of {name} to {baseline}", baseline))


def failures(compared: ComparedFiles) -> Iterator[tuple[str, str, str, str]]:
    """Yield the model, reason and number of records that failed, and a sentence."""
    sentences = compared.task.failures
    for name, file in zip(compared.names, compared.files, strict=True):
        for (reason, of_response), count in file.failures().most_common():
            cause = "the answer" if of_response else "the record"
            yield name, reason, f"{count:,}", f"{sentences.get(reason, '')} ({cause})"


def left_out_rows(compared: ComparedFiles) -> Iterator[tuple[Any, ...]]:
    """Yield the location, the reason and a sentence of rows that were not evaluated or not compared."""
    for file in compared.files:
        name = source_name(file.source)
        for location, fault in file.answers.faults:
            yield location.within(name), fault.reason, fault.detail
    for where, sentence, reason in compared.left_out():
        yield where, reason, sentence
