"""The report on a scored file as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..files.output_file import write_document
from ..files.summary import QUANTILES, quantiles
from ..scoring.scorer import Scorer
from ..settings import MAX_CONTENT, ScoreSettings
from ..tables.charts import Chart, histogram, scatter, ticks
from ..tables.page import render
from ..tables.table import TextTable
from ..wording import fixed
from .groups import Groups
from .hacking import SIGNS
from .shown_example import shown_examples
from .statistics import COMPONENTS, Statistics, correlation
from .verdict import remedies, verdict

__all__ = ["Report"]

DIGITS = {"mean_words": 2, "anchors": 2}
"""Decimals of components; 4 for the others."""

MAX_FLAT = 200
"""Maximum number of groups without spread that are listed, largest first."""


class Report(Statistics):
    """Collects statistics while a file is scored; `write` creates the page."""

    def __init__(self, scorer: Scorer, name: str, command: str = "") -> None:
        """Create an empty report; it shows the name of the file and the command that was run."""
        super().__init__(scorer)
        self.name, self.command = name, command

    def write(self, target: str, faults: Mapping[str, int], others: Mapping[str, int] | None = None) -> None:
        """Write the page, completely or not at all: see `page`. Raises OSError."""
        write_document(target, self.page(faults, datetime.now(UTC), others).encode())

    def page(self, faults: Mapping[str, int], moment: datetime, others: Mapping[str, int] | None = None) -> str:
        """Return the HTML of the report.

        faults: the number of rows without a reward, by reason. others: that of the rows of other tasks, by task, which
        the report leaves out.
        """
        rewards, passed = self.rewards.all(), self.passed.all() > 0
        return render(
            "scored.html",
            moment,
            report=self,
            faults=faults,
            others=others or {},
            number=len(rewards),
            number_passed=int(passed.sum()),
            mean_reward=float(rewards.mean()) if len(rewards) else None,
            verdict=verdict(self, faults),
            remedies=remedies(self),
            reward_chart=self._reward_chart(rewards, passed),
            reward_table=_spreads([("reward", rewards), ("reward, both gates passed", rewards[passed])]),
            component_charts=self._component_charts(),
            component_table=_spreads([(name, values.all()) for name, values in self.components.items()]),
            sizes=self._sizes(rewards, passed),
            grouped=_grouped(self.groups, self.bounds, self.name),
            examples=shown_examples(self.examples, self.scorer),
            SIGNS=SIGNS,
            settings=_settings(self.scorer.settings),
        )

    def _reward_chart(self, rewards: np.ndarray, passed: np.ndarray) -> Chart | None:
        if not len(rewards):
            return None
        label, failed = "Distribution of rewards", int((~passed).sum())
        return histogram(rewards, self.bounds, label, "reward", failed=failed, area=(640, 260))

    def _component_charts(self) -> list[tuple[str, str, Chart]]:
        """Return the name, the meaning and the distribution of every component that has values."""
        charts = []
        for name, meaning in COMPONENTS.items():
            values = self.components[name].all()
            if len(values):
                bounds, bins = _bounds(name, values, self.scorer.settings)
                label, digits = f"Distribution of {name}", DIGITS.get(name, 4)
                charts.append((name, meaning, histogram(values, bounds, label, name, bins=bins, digits=digits)))
        return charts

    def _sizes(self, rewards: np.ndarray, passed: np.ndarray) -> list[tuple[str, Chart, str]]:
        """Return the title, a chart and the correlation of the rewards and the size of responses."""
        steps = self.steps.all()
        drawn = (
            ("Reward and length", "bytes", self.lengths.all(), np.ones(len(rewards), bool)),
            ("Reward and number of steps, both gates passed", "steps", steps, steps > 0),
        )
        found = []
        for title, unit, x, rows in drawn:
            if rows.any():
                chart = scatter(x[rows], rewards[rows], passed[rows], self.bounds, title, unit)
                r = correlation(x[rows], rewards[rows])
                found.append((title, chart, "–" if r is None else f"{r:+.2f}".replace("-", "−")))
        return found


def _bounds(name: str, values: np.ndarray, settings: ScoreSettings) -> tuple[tuple[float, float], int]:
    """Return the range of a component and the number of bins of its chart."""
    if name == "anchors":
        most = max(int(values.max()), 5)
        return (-0.5, most + 0.5), most + 1 if most < 40 else 40
    if name == "mean_words":
        high = max(float(values.max()), 1.0)  # 0 if no prose step has a word, which a min_coverage of 0 allows
        whole = ticks(0.0, high)[-1]
        return (0.0, whole if whole >= high else whole + ticks(0.0, high)[1]), 20
    known = {"content": MAX_CONTENT, "semantics": MAX_CONTENT + 1.0, "score": settings.largest_score}
    return (0.0, max(known.get(name, 1.0), float(values.max()))), 20


def _spreads(columns: Sequence[tuple[str, np.ndarray]]) -> TextTable:
    """Return number, mean, standard deviation and quantiles of named columns."""
    rows = []
    for name, values in columns:
        if not len(values):
            rows.append([name, "0", *["–"] * (2 + len(QUANTILES))])
            continue
        deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        numbers = (float(values.mean()), deviation, *quantiles(values).values())
        rows.append([name, f"{len(values):,}", *(fixed(number, DIGITS.get(name, 4)) for number in numbers)])
    return TextTable(["", "n", "mean", "std", *QUANTILES], rows)


def _grouped(groups: Groups, bounds: tuple[float, float], name: str) -> dict[str, Any] | None:
    """Return charts, a table and a list of the groups; None if none has two responses."""
    multiple = [group for group in groups if group.size > 1]
    if not multiple:
        return None
    flat = [group for group in multiple if group.flat]
    lowest, highest = bounds
    means = np.array([group.mean for group in multiple])
    deviations = np.array([group.deviation for group in multiple])
    spread = (0.0, max(ticks(0.0, max(float(deviations.max()), 1e-3) * 1.2)))
    counts = {
        "prompts with one response": len(groups) - len(multiple),
        f"responses of further groups (only the first {len(groups):,} are tracked)": groups.left_out,
        "responses in groups without spread": sum(group.size for group in flat),
        "groups without spread at the lowest reward": sum(group.least <= lowest for group in flat),
        "groups without spread at the highest reward": sum(group.largest >= highest for group in flat),
    }
    return {
        "sizes": group_sizes([group.size for group in multiple]),
        "charts": [
            histogram(means, bounds, "Mean reward of a group", "mean reward of a group", y_title="groups"),
            histogram(
                deviations, spread, "Spread within a group", "standard deviation within a group", y_title="groups"
            ),
        ],
        "rows": [(what, f"{count:,}") for what, count in counts.items() if count],
        "flat": [
            (group.first.within(name), f"{group.size:,}", fixed(group.mean), group.label)
            for group in sorted(flat, key=lambda group: -group.size)[:MAX_FLAT]
        ],
        "flat_groups": len(flat),
    }


def group_sizes(sizes: Sequence[int]) -> str:
    """Say how many groups of which size there are: `4 groups of 5 responses`."""
    least, most = min(sizes), max(sizes)
    groups = f"{len(sizes):,} groups" if len(sizes) > 1 else "1 group"
    if least == most:
        return f"{groups} of {most:,} responses"
    return f"{groups} of {least:,} to {most:,} responses, {sum(sizes) / len(sizes):,.1f} on average"


def _settings(settings: ScoreSettings) -> list[tuple[str, str, str]]:
    defaults = ScoreSettings().model_dump()
    values = settings.model_dump().items()
    return [(name, str(value), "" if value == defaults[name] else "changed") for name, value in values]
