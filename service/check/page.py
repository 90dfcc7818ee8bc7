"""The report on a checked data set as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

from ..explain.numbers import first_n, plural
from ..records.files import source_title
from ..records.rows import Place
from ..report.rendering import render
from .data_set import DataSet
from .policies import POLICIES
from .tables import gates_table, policies_table, words_table

__all__ = ["page"]

MAX_LISTED = 100
"""Maximum number of words, pairs and contradictory prompts that are listed."""

MAX_ROWS = 4
"""Maximum number of rows that one of them names."""


def page(data: DataSet, command: str, moment: datetime | None = None) -> str:
    """Return the HTML of the report."""
    names = list(map(source_title, data.sources))
    return render(
        "checked.html",
        moment or datetime.now(UTC),
        data=data,
        name=first_n(names, MAX_ROWS),
        command=command,
        verdict=list(verdict(data)),
        gates=gates_table(data),
        words=words_table(data, MAX_LISTED),
        policies=policies_table(data),
        constructions=[(policy.title, policy.construction) for policy in POLICIES],
        reasons=[
            (reason, "invalid" if kind == "error" else "warning", f"{count:,}")
            for (kind, reason), count in data.reasons.most_common()
        ],
        pairs=[
            (pair.of, f"{pair.similarity:.2f}", listed(pair.first), listed(pair.second))
            for pair in islice(data.pairs, MAX_LISTED)
        ],
        contradictions=[
            (listed(rows[0]), "; ".join(map(listed, rows[1:])))
            for rows in (one.rows for one in islice(data.contradictions, MAX_LISTED))
        ],
        most=MAX_LISTED,
    )


def verdict(data: DataSet) -> Iterator[tuple[str, bool]]:
    """Yield sentences on the data set, each with whether all is well."""
    invalid = data.counts["error"]
    text = f"{plural(data.counts['checked'], 'reference')}, {f'{invalid:,} invalid' if invalid else 'all valid'}."
    yield text, not invalid
    yield from data.advice()
    if data.contradictions:
        yield f"{plural(len(data.contradictions), 'prompt')} with references that differ in their steps.", False
    if data.splits:
        found = len(data.pairs)
        yield f"{plural(found, 'pair')} of near-duplicates across splits.", not found


def listed(places: list[Place]) -> str:
    """Return the first of these rows, and how many more there are."""
    return first_n([str(place) for place in places], MAX_ROWS)
