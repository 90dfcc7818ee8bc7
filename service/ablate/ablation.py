"""The result of an ablation: the figures of every configuration as tables, JSON and a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import orjson

from ..extras import in_this_shell
from ..records.files import source_title
from ..rewards.registry import SCORE
from ..rewards.scores import NO_SPREAD, spread_of
from ..tables.charts import Chart, histogram
from ..tables.page import render
from ..tables.table import Cell, Row, Table
from ..wording import NOTHING, fixed, format_number, plural
from .grids import Configuration, Grid
from .rewards import METRICS, Rewards

__all__ = ["Ablation", "Groups"]

BASE = "base"
"""Key and heading of the rank correlation with the configuration at hand."""

MARK = " *"

HEADS = ("configuration", "mean reward", "range", "gates %", "passed %", "group std", "flat groups %")
CORRELATED = {BASE: "ρ base", **{name: f"ρ {heading}" for name, heading in METRICS.items()}}
"""Headings of the rank correlations."""


class Ranks(NamedTuple):
    """Ranks of a column within each group, as distances from their mean.

    centred: float64 (n,), in the order of the groups. squares: float64 (groups,), the sums of their squares, 0 in a
    group without spread.
    """

    centred: np.ndarray
    squares: np.ndarray


class Correlation(NamedTuple):
    """The mean of the rank correlations of the groups in which both columns differ, None without such a group."""

    mean: float | None
    groups: int


class Spread(NamedTuple):
    """The mean standard deviation within groups of at least two rows, and the share of those without spread."""

    deviation: float
    flat: float


class Groups:
    """The groups of n rows, from the number of each row's group, int64 (n,)."""

    def __init__(self, numbers: np.ndarray) -> None:
        self._order = np.argsort(numbers, kind="stable")
        _, self._first, self.sizes = np.unique(numbers[self._order], return_index=True, return_counts=True)
        self._group = np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def multiple(self) -> int:
        return int(np.count_nonzero(self.sizes > 1))

    def spread(self, values: np.ndarray, ddof: int) -> Spread | None:
        """Return the spread of a column, float64 (n,); None if no group has two rows."""
        if not self.multiple:
            return None
        *_, deviations, flat = spread_of(values[self._order], np.append(self._first, len(values)), ddof)
        several = self.sizes > 1
        return Spread(float(deviations[several].mean()), float(flat[several].mean()))

    def ranks(self, values: np.ndarray) -> Ranks:
        """Rank a column, float64 (n,), within each group; values that differ by at most 1e-9 share their mean rank."""
        rows = len(values)
        if not rows:
            return Ranks(np.zeros(0), np.zeros(0))
        grouped = values[self._order]
        order = np.lexsort((grouped, self._group))  # groups keep their places
        ordered = grouped[order]
        starts = np.ones(rows, bool)
        starts[1:] = np.diff(ordered) > NO_SPREAD
        starts[self._first] = True
        ties = np.flatnonzero(starts)
        lengths = np.diff(ties, append=rows)
        centred = np.empty(rows)
        centred[order] = np.repeat(ties + (lengths - 1) / 2, lengths)
        centred -= (self._first + (self.sizes - 1) / 2)[self._group]
        return Ranks(centred, np.add.reduceat(centred * centred, self._first))

    def correlation(self, ranks: Ranks, base: Ranks) -> Correlation:
        """Return Spearman's rank correlation of two columns within groups."""
        both = (ranks.squares > 0) & (base.squares > 0)
        groups = int(np.count_nonzero(both))
        if not groups:
            return Correlation(None, 0)
        products = np.add.reduceat(ranks.centred * base.centred, self._first)[both]
        correlations = products / np.sqrt(ranks.squares[both] * base.squares[both])
        return Correlation(float(correlations.mean()), groups)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one configuration."""

    configuration: Configuration
    mean: float | None
    """The mean reward; None without rollouts, and for a configuration that cannot be computed."""
    range: tuple[float, float]
    """The rewards of SCORE 0 and of the maximum SCORE."""
    reasons: Mapping[str, int]
    passed: int | None
    """The number of rollouts that pass; None for another task than SCORE, which has no gates."""
    spread: Spread | None
    correlations: Mapping[str, Correlation]


@dataclass(frozen=True)
class Ablation:
    """The rewards of one file under every configuration of a grid; with the command that was run, if known."""

    source: str
    grid: Grid
    rewards: Rewards
    command: str = ""

    @cached_property
    def groups(self) -> Groups:
        return Groups(self.rewards.groups)

    @cached_property
    def figures(self) -> list[Figures]:
        """The figures of every configuration, in the order of the grid."""
        rewards, groups = self.rewards, self.groups
        with_ranks = {BASE: groups.ranks(rewards.columns[self.grid.base].all())}
        with_ranks |= {name: groups.ranks(values.all()) for name, values in rewards.metrics.items()}
        figures = []
        for k, configuration in enumerate(self.grid.configurations):
            is_missing = k in rewards.unavailable
            values = rewards.columns[k].all()
            ranks = None if is_missing else groups.ranks(values)
            entry = Figures(
                configuration=configuration,
                mean=float(values.mean()) if len(values) else None,
                range=configuration.range,
                reasons=rewards.reasons[k],
                passed=rewards.passed[k] if configuration.task == SCORE and not is_missing else None,
                spread=None if is_missing else groups.spread(values, configuration.settings.advantage_ddof),
                correlations={
                    name: Correlation(None, 0) if ranks is None else groups.correlation(ranks, other)
                    for name, other in with_ranks.items()
                },
            )
            figures.append(entry)
        return figures

    @property
    def unavailable(self) -> dict[str, str]:
        """What configurations that cannot be computed lack, by name."""
        return {self.grid.configurations[k].name: what for k, what in self.rewards.unavailable.items()}

    def table(self) -> Table:
        """Return the figures of every configuration as one table."""
        rows = [self._cells(k, figures) for k, figures in enumerate(self.figures)]
        return Table([*HEADS, *CORRELATED.values()], rows, notes=self.notes())

    def halves(self) -> list[tuple[str, Table]]:
        """Return the table in two, each with its title: the rewards and the rank correlations."""
        whole, split = self.table(), len(HEADS)
        correlations = Table([HEADS[0], *whole.heads[split:]], [[row[0], *row[split:]] for row in whole.rows])
        rewards = Table(whole.heads[:split], [row[:split] for row in whole.rows])
        return [("Rewards", rewards), ("Rank correlations", correlations)]

    def parts(self) -> list[str | Table]:
        """Return the tables and the notes for a terminal."""
        (_, rewards), (_, correlations) = self.halves()
        return [rewards, "", correlations, "", *self.notes()]

    def notes(self) -> list[str]:
        """Return what a reader of the table has to know."""
        base = self.grid.configurations[self.grid.base]
        sizes = self.groups.sizes
        single = int((sizes == 1).sum())
        counted = f"{plural(len(self.rewards), 'rollout')}, {plural(self.groups.multiple, 'group')} of two or more"
        counted += f" and {single:,} of one" if single else ""
        ddofs = {configuration.settings.advantage_ddof for configuration in self.grid.configurations}
        ddof = f" (advantage_ddof {format_number(ddofs.pop())})" if len(ddofs) == 1 else ""
        return [
            f"{MARK.strip()} base, as configured: {base.settings.signature}",
            f"{counted}. range: the rewards of the lowest and the highest SCORE.",
            "gates: share of rollouts that pass both gates; passed: share that also have order 1.",
            f"group std: mean standard deviation within groups{ddof}; flat groups: share of groups with equal rewards.",
            "ρ: Spearman's rank correlation within groups, averaged over the (n) groups in which both vary.",
            *(f"{NOTHING} {name}: not computed. {in_this_shell(what)}" for name, what in self.unavailable.items()),
        ]

    def _cells(self, k: int, figures: Figures) -> Row:
        spread, gates, passed = figures.spread, *self._shares(figures)
        low, high = (format_number(value).replace("-", "−") for value in figures.range)
        correlations = (figures.correlations[name] for name in CORRELATED)
        return [
            figures.configuration.name + (MARK if k == self.grid.base else ""),
            fixed(figures.mean).replace("-", "−"),
            f"{low} to {high}",
            *(None if part is None else fixed(100 * part, 1) for part in (gates, passed)),
            None if spread is None else fixed(spread.deviation),
            None if spread is None else fixed(100 * spread.flat, 1),
            *(
                None if mean is None else Cell(fixed(mean, 3).replace("-", "−"), n=f"{groups:,}")
                for mean, groups in correlations
            ),
        ]

    def _shares(self, figures: Figures) -> tuple[float | None, float | None]:
        """Return the shares of the rollouts that pass both gates, and that pass; None for other tasks than SCORE."""
        number = len(self.rewards)
        if figures.passed is None or not number:
            return None, None
        return figures.reasons.get("ok", 0) / number, figures.passed / number

    def document(self) -> bytes:
        rewards = self.rewards
        means = {name: float(values.all().mean()) if len(rewards) else None for name, values in rewards.metrics.items()}
        document = {
            "source": self.source,
            "grid": self.grid.name,
            "base": self.grid.configurations[self.grid.base].name,
            "rollouts": len(rewards),
            "groups": {"number": len(self.groups.sizes), "of_two_or_more": self.groups.multiple},
            "not_scored": rewards.faults,
            "other_tasks": rewards.others,
            "metrics": means,
            "no_spread": NO_SPREAD,
            "configs": [self._entry(figures) for figures in self.figures],
            "unavailable": self.unavailable,
        }
        return orjson.dumps(document, option=orjson.OPT_INDENT_2)

    def _entry(self, figures: Figures) -> dict[str, Any]:
        configuration, spread, (gates, passed) = figures.configuration, figures.spread, self._shares(figures)
        return {
            "name": configuration.name,
            "config": configuration.overrides,
            **({} if configuration.task == SCORE else {"task": configuration.task}),
            **configuration.identity,
            "range": figures.range,
            "mean_reward": figures.mean,
            "passed_gates": gates,
            "passed": passed,
            "group_std": None if spread is None else spread.deviation,
            "flat_groups": None if spread is None else spread.flat,
            "reasons": figures.reasons,
            "rank_correlation": {name: pair._asdict() for name, pair in figures.correlations.items()},
        }

    def page(self) -> str:
        rewards, grid = self.rewards, self.grid
        faults, others = rewards.faults.most_common(), rewards.others.most_common()
        without = [
            Table(["error", "rows"], faults, title="Rows that could not be scored", code=True),
            Table(["other task", "rows"], others, title="Rows of other tasks, which are left out", code=True),
        ]
        settings = [
            (entry.name, orjson.dumps(entry.overrides).decode(), *entry.identity.values())
            for entry in grid.configurations
        ]
        heads = ["configuration", "changes", "config_id", "signature"]
        return render(
            "ablated.html",
            name=source_title("-" if self.source == "stdin" else self.source),
            ablation=self,
            halves=self.halves(),
            rollouts=plural(len(rewards), "rollout"),
            configurations=plural(len(grid.configurations), "configuration"),
            distributions=list(self._distributions()) if len(rewards) else [],
            without=[table for table in without if table.rows],
            settings=Table(heads, settings, title="Settings", wide=True),
        )

    def _distributions(self) -> Iterator[tuple[str, Chart]]:
        for values, figures in zip(self.rewards.columns, self.figures, strict=True):
            if figures.mean is not None:
                name, failed = figures.configuration.name, len(self.rewards) - figures.reasons.get("ok", 0)
                yield name, histogram(values.all(), figures.range, f"Rewards under {name}", "reward", failed=failed)
