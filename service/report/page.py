"""The report on a scored file as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from ..explain.numbers import format_number
from ..files.rows.rows import Location
from ..files.summary import QUANTILES, quantiles
from ..scoring.scorer import Scorer
from ..settings import ScoreSettings
from ..version import VERSION
from .charts import bars, grid, histogram
from .collecting import Collection
from .counts import Distribution
from .document import document, section
from .explained import example
from .groups import Groups
from .hacking import SIGNS
from .markup import Markup, concatenate, element, table

__all__ = ["page"]

BINS = 40
MAX_FLAT = 200
SUSPICIOUS = 0.02
"""Minimum share of the responses that passed both gates for a sign to be marked, if it pays."""


def page(collection: Collection, scorer: Scorer, name: str, faults: Mapping[str, int], moment: datetime) -> str:
    """Return the HTML of the report.

    name: of the source. faults: number of rows without a reward, by reason.
    """
    sections = [
        _summary(collection, scorer, name, faults, moment),
        _rewards(collection),
        _components(collection),
        _reasons(collection, faults),
        _sizes(collection),
        _groups(collection, name),
        _signs(collection, name),
        *_examples(collection, scorer, name),
        _settings(scorer.settings),
    ]
    return document(f"Rewards of {name}", sections)


def _summary(collection: Collection, scorer: Scorer, name: str, faults: Mapping[str, int], moment: datetime) -> Markup:
    rewards, groups = collection.rewards, collection.groups
    ok = collection.reasons["ok"]
    flat = int(groups.flat.sum())
    multiple = int((groups.sizes > 1).sum())
    tiles = [
        ("responses", f"{rewards.number:,}"),
        ("mean reward", format_number(rewards.mean) if rewards.number else "–"),
        ("passed both gates", f"{ok / rewards.number:.1%}" if rewards.number else "–"),
        ("prompts", f"{len(groups):,}"),
        ("groups without spread", f"{flat:,} of {multiple:,}"),
        ("rows not scored", f"{sum(faults.values()):,}"),
    ]
    shown = [element("div", element("b", value), element("span", label), class_="tile") for label, value in tiles]
    when = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return element(
        "header",
        element("h1", f"Rewards of {name}"),
        element("p", f"Configuration {scorer.config_id}, Assay {VERSION}, {when}.", class_="soft"),
        element("div", *shown, class_="tiles"),
    )


def _table(label: str, heads: Sequence[str], rows: Sequence[Sequence[str]], wide: int = 0) -> Markup:
    """Return a table; the last `wide` columns are text that may wrap."""
    lines = [
        element(
            "tr",
            *(element("td", cell, class_="wide" if k >= len(row) - wide else None) for k, cell in enumerate(row)),
        )
        for row in rows
    ]
    return table(heads, lines, label)


SPREAD = ("n", "mean", "std", *QUANTILES)


def _spread(values: Distribution, exact: Mapping[str, float] | None = None) -> list[str]:
    """Return the cells of SPREAD; without exact quantiles, those of the distribution."""
    if not values.number:
        return ["0", *["–"] * (len(SPREAD) - 1)]
    found = exact or {name: values.quantile(share) for name, share in QUANTILES.items()}
    return [f"{values.number:,}", *map(format_number, (values.mean, values.deviation, *found.values()))]


def _rewards(collection: Collection) -> Markup:
    rewards = collection.rewards
    edges, counts = rewards.coarse(BINS)
    chart = histogram(edges, counts, rewards.mean if rewards.number else None, "Distribution of rewards")
    exact = quantiles(np.concatenate(collection.all_rewards)) if rewards.number else None
    shown = _table("Rewards", ("", *SPREAD), [["reward", *_spread(rewards, exact)]])
    return section("Rewards", element("figure", chart, class_="large"), shown)


def _components(collection: Collection) -> Markup:
    figures = []
    for name, values in collection.components.items():
        if name in ("format", "consistency") or not values.number:
            continue
        edges, counts = values.coarse(BINS)
        chart = histogram(edges, counts, values.mean, f"Distribution of {name}")
        figures.append(element("figure", chart, element("figcaption", element("code", name))))
    rows = [[element("code", name), *_spread(values)] for name, values in collection.components.items()]
    text = "Only responses that passed both gates, except for format, consistency and score."
    return section(
        "Components", element("div", *figures, class_="charts"), _table("Components", ("", *SPREAD), rows), text=text
    )


def _reasons(collection: Collection, faults: Mapping[str, int]) -> Markup:
    parts: list[str] = [bars(collection.reasons.most_common(), "reason")]
    if faults:
        rows = sorted(faults.items(), key=lambda pair: -pair[1])
        parts += [element("h3", "Rows that could not be scored"), bars(rows, "fault")]
    return section("Reasons", *parts)


def _sizes(collection: Collection) -> Markup:
    figures = []
    for counted, title, unit in (
        (collection.by_length, "Reward against length", "bytes"),
        (collection.by_steps, "Reward against number of steps (passed both gates)", "steps"),
    ):
        chart = grid(counted, title, unit)
        if not chart:
            continue
        found = counted.correlation
        caption = "correlation –" if found is None else f"correlation {found:+.2f}"
        figures.append(element("figure", chart, element("figcaption", title, element("br"), caption), class_="large"))
    text = (
        "Darker cells contain more responses; dots are means. A reward that grows with length alone encourages padding."
    )
    return section("Length and steps", element("div", *figures, class_="charts"), text=text)


def _groups(collection: Collection, name: str) -> Markup:
    groups = collection.groups
    sizes, means, flat = groups.sizes, groups.means, groups.flat
    multiple = sizes > 1
    if not multiple.any():
        return section("Groups", text="No prompt has two responses, so there are no advantages.")
    lowest, highest = collection.rewards.edges[[0, -1]]
    deviations = groups.deviations[multiple]
    top = max(float(deviations.max()), 1e-9)
    counts, edges = np.histogram(deviations, BINS, (0.0, top))
    spread = histogram(edges, counts, float(deviations.mean()), "Deviation of rewards within a group")
    counts, edges = np.histogram(means[multiple], BINS, (lowest, highest))
    middle = histogram(edges, counts, float(means[multiple].mean()), "Mean reward of a group")
    captions = (("Deviation within a group", spread), ("Mean reward of a group", middle))
    figures = [element("figure", chart, element("figcaption", caption)) for caption, chart in captions]
    rows = [
        ["groups of two or more", f"{int(multiple.sum()):,}"],
        [
            "responses per group",
            f"{format_number(float(sizes[multiple].mean()))}, from {sizes[multiple].min()} to {sizes.max()}",
        ],
        ["without spread", f"{int(flat.sum()):,} ({flat.sum() / multiple.sum():.1%})"],
        ["… all at the lowest reward", f"{int((flat & (means <= lowest)).sum()):,}"],
        ["… all at the highest reward", f"{int((flat & (means >= highest)).sum()):,}"],
        ["responses in groups without spread", f"{int(sizes[flat].sum()):,}"],
        ["prompts with one response", f"{int((sizes == 1).sum()):,}"],
    ]
    if groups.left_out:
        text = f"{groups.left_out:,} (only the first {len(groups):,} groups are tracked)"
        rows.append(["responses of further groups", text])
    text = "A group of equal rewards has advantages of 0 and no gradient: its prompt is too easy, too hard, or invalid."
    return section(
        "Groups",
        element("div", *figures, class_="charts"),
        _table("Groups", (), rows),
        *_flat(groups, flat, name),
        text=text,
    )


def _flat(groups: Groups, flat: np.ndarray, name: str) -> Iterator[Markup]:
    """Yield a list of the groups without spread, largest first."""
    numbers = np.flatnonzero(flat)
    if not len(numbers):
        return
    found = sorted(groups.listed(numbers.tolist()), key=lambda group: -group.size)[:MAX_FLAT]
    rows = [[group.first.within(name), f"{group.size:,}", format_number(group.reward), group.label] for group in found]
    heads = ("first row", "responses", "reward", "prompt (its end)")
    listed = _table("Groups without spread", heads, rows, wide=1)
    more = f", the largest {MAX_FLAT:,}" if len(numbers) > MAX_FLAT else ""
    yield element("details", element("summary", f"Groups without spread: {len(numbers):,}{more}"), listed)


def _signs(collection: Collection, name: str) -> Markup:
    tallies = collection.signs
    rows = []
    for sign in SIGNS:
        tally = tallies.by_sign[sign.name]
        share = tally.number / tallies.responses if tallies.responses else 0.0
        without = tallies.mean_without(sign.name)
        paid = tally.mean is not None and (without is None or tally.mean >= without)
        mark = element("b", "inspect", class_="look") if share >= SUSPICIOUS and paid else Markup("")
        rows.append(
            [
                concatenate([element("b", sign.title), element("br"), element("span", sign.meaning, class_="soft")]),
                concatenate([f"{tally.number:,} ", element("span", f"({share:.1%}) ", class_="soft"), mark]),
                "–" if tally.mean is None else format_number(tally.mean),
                "–" if without is None else format_number(without),
                _locations(tally.locations, name),
            ]
        )
    heads = ("sign", "responses", "mean reward", "mean reward of others", "first rows")
    text = (
        "Possible reward hacking – inspect these rows. Only responses that passed both gates "
        f"({tallies.responses:,}) are checked."
    )
    return section("Reward hacking", _table("Signs of reward hacking", heads, rows, wide=1), text=text)


def _locations(locations: Sequence[Location], name: str) -> str:
    return ", ".join(location.within(name).removeprefix(name) for location in locations) or "–"


def _examples(collection: Collection, scorer: Scorer, name: str) -> Iterator[Markup]:
    found = collection.examples
    for title, chosen in (
        ("Highest-scoring responses", found.best()),
        ("Lowest-scoring responses that passed both gates", found.worst()),
    ):
        if chosen:
            yield section(title, *(example(one, scorer, name) for one in chosen))
    failed = [example(one, scorer, name) for _, _, one in found.by_reason()]
    if failed:
        yield section("One example of each reason", *failed, text="Chosen at random.")


def _settings(settings: ScoreSettings) -> Markup:
    defaults = ScoreSettings().model_dump()
    rows = [
        [element("code", name), str(value), "" if value == defaults[name] else "changed"]
        for name, value in settings.model_dump().items()
    ]
    shown = _table("Settings", ("setting", "value", ""), rows)
    return section("Settings", element("details", element("summary", "All settings"), shown))
