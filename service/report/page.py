"""The report as one HTML file: nothing to load, no script, light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from ..explain.numbers import format_number
from ..files.rows.rows import Place
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
from .markup import Markup, element, joined, table

__all__ = ["page"]

BINS = 40
MAX_FLAT = 200
SUSPICIOUS = 0.02
"""Share of the responses behind open gates from which on a sign is worth a second look, if it pays."""


def page(collection: Collection, scorer: Scorer, name: str, faults: Mapping[str, int], moment: datetime) -> str:
    """The whole file. `name` is the source's, `faults` count the rows without a reward by reason."""
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
    several = int((groups.sizes > 1).sum())
    tiles = [
        ("responses", f"{rewards.number:,}"),
        ("mean reward", format_number(rewards.mean) if rewards.number else "–"),
        ("gates open", f"{ok / rewards.number:.1%}" if rewards.number else "–"),
        ("prompts", f"{len(groups):,}"),
        ("groups without spread", f"{flat:,} of {several:,}"),
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
    """A table; the last `wide` columns hold text that may break."""
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
    """The cells of SPREAD; the quantiles are those of the distribution, where there are no exact ones."""
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
    text = "Of responses behind open gates, but for format, consistency and score, which count all."
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
        (collection.by_steps, "Reward against number of steps (gates open)", "steps"),
    ):
        chart = grid(counted, title, unit)
        if not chart:
            continue
        found = counted.correlation
        told = "correlation –" if found is None else f"correlation {found:+.2f}"
        figures.append(element("figure", chart, element("figcaption", title, element("br"), told), class_="large"))
    text = "Darker cells hold more responses; dots are means. A reward that grows with length alone pays for padding."
    return section("Length and steps", element("div", *figures, class_="charts"), text=text)


def _groups(collection: Collection, name: str) -> Markup:
    groups = collection.groups
    sizes, means, flat = groups.sizes, groups.means, groups.flat
    several = sizes > 1
    if not several.any():
        return section("Groups", text="No prompt has two responses, so there are no advantages to look at.")
    lowest, highest = collection.rewards.edges[[0, -1]]
    deviations = groups.deviations[several]
    top = max(float(deviations.max()), 1e-9)
    counts, edges = np.histogram(deviations, BINS, (0.0, top))
    spread = histogram(edges, counts, float(deviations.mean()), "Deviation of rewards within a group")
    counts, edges = np.histogram(means[several], BINS, (lowest, highest))
    middle = histogram(edges, counts, float(means[several].mean()), "Mean reward of a group")
    captions = (("Deviation within a group", spread), ("Mean reward of a group", middle))
    figures = [element("figure", chart, element("figcaption", caption)) for caption, chart in captions]
    mean_size = format_number(float(sizes[several].mean()))
    rows = [
        ["groups of two or more", f"{int(several.sum()):,}"],
        ["responses a group", f"{mean_size}, from {sizes[several].min()} to {sizes.max()}"],
        ["without spread", f"{int(flat.sum()):,} ({flat.sum() / several.sum():.1%})"],
        ["… all at the lowest reward", f"{int((flat & (means <= lowest)).sum()):,}"],
        ["… all at the highest reward", f"{int((flat & (means >= highest)).sum()):,}"],
        ["responses in groups without spread", f"{int(sizes[flat].sum()):,}"],
        ["prompts with one response", f"{int((sizes == 1).sum()):,}"],
    ]
    if groups.left_out:
        told = f"{groups.left_out:,} (only the first {len(groups):,} groups are told apart)"
        rows.append(["responses of further groups", told])
    text = (
        "A group whose rewards are all equal has advantages of 0 and gives no gradient: too easy, too hard, or broken."
    )
    return section(
        "Groups",
        element("div", *figures, class_="charts"),
        _table("Groups", (), rows),
        *_flat(groups, flat, name),
        text=text,
    )


def _flat(groups: Groups, flat: np.ndarray, name: str) -> Iterator[Markup]:
    """The groups without spread, the largest first."""
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
        share = tally.number / tallies.seen if tallies.seen else 0.0
        without = tallies.mean_without(sign.name)
        paid = tally.mean is not None and (without is None or tally.mean >= without)
        mark = element("b", "look", class_="look") if share >= SUSPICIOUS and paid else Markup("")
        rows.append(
            [
                joined([element("b", sign.title), element("br"), element("span", sign.meaning, class_="soft")]),
                joined([f"{tally.number:,} ", element("span", f"({share:.1%}) ", class_="soft"), mark]),
                "–" if tally.mean is None else format_number(tally.mean),
                "–" if without is None else format_number(without),
                _places(tally.places, name),
            ]
        )
    heads = ("sign", "responses", "their mean reward", "that of the others", "first rows")
    text = (
        "Signs that a reward may be earned by its letter: look at the rows. Only responses behind open gates "
        f"({tallies.seen:,}) are looked at."
    )
    return section("Reward hacking", _table("Signs of reward hacking", heads, rows, wide=1), text=text)


def _places(places: Sequence[Place], name: str) -> str:
    return ", ".join(place.within(name).removeprefix(name) for place in places) or "–"


def _examples(collection: Collection, scorer: Scorer, name: str) -> Iterator[Markup]:
    found = collection.examples
    for title, chosen in (("Best", found.best()), ("Worst behind open gates", found.worst())):
        if chosen:
            yield section(f"{title} examples", *(example(one, scorer, name) for one in chosen))
    closed = [example(one, scorer, name) for _, _, one in found.by_reason()]
    if closed:
        yield section("One example of each reason", *closed, text="Chosen at random among all of that reason.")


def _settings(settings: ScoreSettings) -> Markup:
    defaults = ScoreSettings().model_dump()
    rows = [
        [element("code", name), str(value), "" if value == defaults[name] else "changed"]
        for name, value in settings.model_dump().items()
    ]
    shown = _table("Settings", ("setting", "value", ""), rows)
    return section("Settings", element("details", element("summary", "All settings"), shown))
