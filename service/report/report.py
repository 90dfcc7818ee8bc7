"""The report on a scored file as one self-contained HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from ...kernels.score import COMPONENTS
from ...kernels.status import OK, REASONS
from ..errors import ScoringError
from ..explain.case import MAX_BYTES
from ..explain.explanation import explain, smallest_and_largest
from ..explain.numbers import format_number
from ..explain.schema import Explanation, Pair
from ..files.rows.output import write_atomic
from ..files.rows.rows import Rollout
from ..files.summary import QUANTILES, quantiles
from ..scoring.scorer import Scorer
from ..scoring.scores import Scores
from ..scoring.text_columns import utf8
from ..settings import MAX_CONTENT, ScoreSettings
from .counts import Distribution, Grid, Groups, log_edges
from .examples import Example, Examples
from .hacking import SIGNS, Tallies, split_parts
from .rendering import Chart, chart_of, grid, histogram, render

__all__ = ["Report"]

FINE_BINS = 1200
"""Bins of rewards and components: quantiles of components are exact to a thousandth of the range."""

BINS = 40
"""Bins of a chart."""

UNBOUNDED = {"mean_words": 120.0, "anchors": 60.0}
"""Upper edges for components without a maximum; larger values count in the last bin."""

MAX_FLAT = 200
"""Maximum number of groups without spread that are listed, largest first."""


class Report:
    """Collects statistics while a file is scored; `write` creates the page. Takes 8 bytes of memory per row."""

    def __init__(self, scorer: Scorer, name: str) -> None:
        """Create an empty report; `name` is the name of the file in it."""
        self.scorer = scorer
        self.name = name
        settings = scorer.settings
        smallest, largest = smallest_and_largest(settings)
        self.rewards = Distribution(np.linspace(smallest, largest, FINE_BINS + 1))
        self.all_rewards: list[np.ndarray] = []
        """The rewards of each piece, for exact quantiles."""
        self.components = {name: Distribution(_edges(name, settings)) for name in COMPONENTS}
        rewards = np.linspace(smallest, largest, 21)
        self.by_length = Grid(log_edges(settings.max_response_bytes), rewards)
        self.by_steps = Grid(np.arange(0.0, 42.0), rewards)
        self.reasons: Counter[str] = Counter()
        self.groups = Groups()
        self.examples = Examples()
        self.signs = Tallies()

    def add(self, rollouts: Sequence[Rollout], scores: Scores) -> None:
        """Add one piece; row k of `scores` belongs to `rollouts[k]`."""
        codes = scores.reason_codes
        passed_gates = codes == OK
        self.rewards.add(scores.rewards)
        self.all_rewards.append(scores.rewards)
        for name, column in scores.components.items():
            counted = column if name in ("format", "consistency", "score") else column[passed_gates]
            self.components[name].add(counted)
        for code, count in enumerate(np.bincount(codes, minlength=len(REASONS)).tolist()):
            self.reasons[REASONS[code]] += count
        lengths, steps = np.empty(len(rollouts)), np.zeros(len(rollouts))
        for k, (rollout, reward, code) in enumerate(
            zip(rollouts, scores.rewards.tolist(), codes.tolist(), strict=True)
        ):
            content = utf8(rollout.response)
            lengths[k] = len(content)
            self.groups.add(rollout.group, rollout.location, reward)
            self.examples.add(rollout, reward, code)
            if code == OK and len(content) <= MAX_BYTES:
                parts = split_parts(content, self.scorer.settings.think_prefilled)
                steps[k] = len(parts.bodies)
                self.signs.add(rollout, parts, reward)
        self.by_length.add(lengths, scores.rewards)
        known = steps > 0
        self.by_steps.add(steps[known], scores.rewards[known])

    def write(self, target: str, faults: Mapping[str, int]) -> None:
        """Write the page, completely or not at all; `faults` counts the rows without a reward. Raises OSError."""
        write_atomic(target, self.page(faults, datetime.now(UTC)).encode())

    def page(self, faults: Mapping[str, int], moment: datetime) -> str:
        """Return the HTML of the report; `faults` is the number of rows without a reward, by reason."""
        exact = quantiles(np.concatenate(self.all_rewards)) if self.rewards.number else {}
        return render(
            "scored.html",
            moment,
            report=self,
            faults=faults,
            spread=("", "n", "mean", "std", *QUANTILES),
            reward_chart=_distribution(self.rewards, "rewards"),
            reward_spread=_spread("reward", self.rewards, exact.values()),
            component_charts=[
                (name, _distribution(values, name))
                for name, values in self.components.items()
                if name not in ("format", "consistency") and values.number
            ],
            component_spreads=[
                _spread(name, values, map(values.quantile, QUANTILES.values()))
                for name, values in self.components.items()
            ],
            sizes=self._sizes(),
            grouped=_grouped(self.groups, self.rewards.edges, self.name),
            examples=self._examples(),
            SIGNS=SIGNS,
            settings=_settings(self.scorer.settings),
        )

    def _sizes(self) -> list[tuple[Chart, float | None]]:
        """Return charts of the rewards against the size of responses, and the correlations."""
        drawn = (
            (self.by_length, "Reward against length", "bytes"),
            (self.by_steps, "Reward against number of steps (passed both gates)", "steps"),
        )
        charts = [(grid(counted, label, unit), counted.correlation) for counted, label, unit in drawn]
        return [(chart, correlation) for chart, correlation in charts if chart is not None]

    def _examples(self) -> list[tuple[str, str, list[ShownExample]]]:
        """Return the title, an introduction and the examples of each section."""
        chosen = (
            ("Highest-scoring responses", "", self.examples.best()),
            ("Lowest-scoring responses that passed both gates", "", self.examples.worst()),
            ("One example of each reason", "Chosen at random.", self.examples.by_reason()),
        )
        return [(title, text, [_explained(one, self.scorer) for one in found]) for title, text, found in chosen]


class ShownExample(NamedTuple):
    """An example with its explanation, or why it has none, and the explained pairs by predicted step."""

    example: Example
    explanation: Explanation | None
    pairs: Mapping[int, Pair]
    problem: str = ""


def _explained(example: Example, scorer: Scorer) -> ShownExample:
    if not example.whole:
        return ShownExample(example, None, {}, "The response is too long; only its beginning is shown.")
    try:
        explanation = explain(scorer, example.response, example.reference, suggestions=3)
    except ScoringError as error:  # too long for an explanation
        return ShownExample(example, None, {}, "; ".join(issue.detail for issue in error.issues))
    return ShownExample(example, explanation, {pair.predicted: pair for pair in explanation.pairs})


def _edges(name: str, settings: ScoreSettings) -> np.ndarray:
    best = {"content": MAX_CONTENT, "semantics": settings.largest_score, "score": settings.largest_score}
    return np.linspace(0.0, UNBOUNDED.get(name, best.get(name, 1.0)), FINE_BINS + 1)


def _distribution(values: Distribution, name: str) -> Chart:
    edges, counts = values.coarse(BINS)
    return histogram(edges, counts, values.mean if values.number else None, f"Distribution of {name}")


def _spread(name: str, values: Distribution, quantiles: Iterable[float]) -> list[str]:
    """Return the cells of a row: name, number, mean, deviation and quantiles."""
    if not values.number:
        return [name, "0", *["–"] * (2 + len(QUANTILES))]
    return [name, f"{values.number:,}", *map(format_number, (values.mean, values.deviation, *quantiles))]


def _grouped(groups: Groups, edges: np.ndarray, name: str) -> dict[str, Any] | None:
    """Return charts, a table and a list of the groups; None if none has two responses."""
    multiple = [group for group in groups if group.size > 1]
    if not multiple:
        return None
    sizes, flat = [group.size for group in multiple], [group for group in multiple if group.flat]
    lowest, highest = edges[[0, -1]]
    means = np.array([group.mean for group in multiple])
    deviations = np.array([group.deviation for group in multiple])
    spread = (0.0, max(float(deviations.max()), 1e-9))
    rows = [
        ("groups of two or more", f"{len(multiple):,}"),
        ("responses per group", f"{format_number(sum(sizes) / len(sizes))}, from {min(sizes)} to {max(sizes)}"),
        ("without spread", f"{len(flat):,} ({len(flat) / len(multiple):.1%})"),
        ("… all at the lowest reward", f"{sum(group.mean <= lowest for group in flat):,}"),
        ("… all at the highest reward", f"{sum(group.mean >= highest for group in flat):,}"),
        ("responses in groups without spread", f"{sum(group.size for group in flat):,}"),
        ("prompts with one response", f"{len(groups) - len(multiple):,}"),
    ]
    if groups.left_out:
        text = f"{groups.left_out:,} (only the first {len(groups):,} groups are tracked)"
        rows.append(("responses of further groups", text))
    return {
        "charts": [
            ("Deviation within a group", chart_of(deviations, BINS, spread, "Deviation of rewards within a group")),
            ("Mean reward of a group", chart_of(means, BINS, (lowest, highest), "Mean reward of a group")),
        ],
        "rows": rows,
        "flat": [
            (group.first.within(name), f"{group.size:,}", format_number(group.mean), group.label)
            for group in sorted(flat, key=lambda group: -group.size)[:MAX_FLAT]
        ],
        "flat_groups": len(flat),
        "groups": len(multiple),
    }


def _settings(settings: ScoreSettings) -> list[tuple[str, str, str]]:
    defaults = ScoreSettings().model_dump()
    values = settings.model_dump().items()
    return [(name, str(value), "" if value == defaults[name] else "changed") for name, value in values]
