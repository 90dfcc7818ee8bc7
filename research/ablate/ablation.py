"""An ablation: the rewards of a file under every configuration of a grid, as tables, JSON and a page.

Only numbers of each rollout are kept: its rewards, its metrics and the number of its group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import orjson

from ...service.errors import InvalidReference, Issue
from ...service.explain.case import chosen_of
from ...service.records.files.opening import is_columnar, source_title
from ...service.records.jobs.row_tasks import RowTasks, read_rollout, score_rollouts
from ...service.records.jobs.summary import GATES, Values
from ...service.records.output.complete_output import json_output
from ...service.records.rows.forms import reference_text, unfolded
from ...service.records.rows.rows import Fields, Record, Rollout, pieces, value_digest
from ...service.rewards.batch import Batch
from ...service.rewards.registry import SCORE, reward_of
from ...service.rewards.scorer import Scorer
from ...service.rewards.scores import NO_SPREAD, Scores, spread_of
from ...service.rewards.scoring import score as score_batch
from ...service.scoring.column_scorer import ColumnScorer
from ...service.scoring.references import ReferenceTexts, alternatives_of
from ...service.scoring.texts import strings_of
from ...service.tables.page import Chart, histogram, render
from ...service.tables.table import Cell, Row, Table
from ...service.tasks.paper import ProtocolPair, measure
from ...service.wording import NOTHING, fixed, format_number, in_this_shell, plural
from ..reports.inference import notes_on_correlations
from .grids import Configuration, Grid

METRICS = {
    "step_m": "Step-M",
    "order_s": "Order-S",
    "order_lcs": "Order-LCS",
    "order_tau": "Order-Tau",
    "semantic_a": "Semantic-A",
}
"""The evaluation metrics of the paper's Appendix F, and their headings."""


class RolloutPiece(NamedTuple):
    """Consecutive rows and the results of the rows without a fault: a column for each configuration and metric."""

    rollouts: list[Rollout]
    scores: list[Scores | None]
    """None under a configuration that cannot be computed."""
    metrics: dict[str, np.ndarray]
    groups: list[int]
    rows: int
    """Rows that were read, including rows of other tasks, which are left out."""
    size: int


class AblationRewards:
    """Columns of all rollouts without a fault, counts, and the faults by reason."""

    def __init__(self, grid: Grid) -> None:
        self.columns = [Values() for _ in grid.configurations]
        """The rewards under each configuration."""
        self.unavailable = {
            k: advice for k, configuration in enumerate(grid.configurations) if (advice := configuration.lacks)
        }
        """The missing requirement of each configuration that cannot be computed, by number."""
        self.passed = [0 for _ in grid.configurations]
        self.reasons: list[Counter[str]] = [Counter() for _ in grid.configurations]
        self._names = [reward_of(configuration.task).reasons for configuration in grid.configurations]
        self.metrics = {name: Values() for name in METRICS}
        self.faults: Counter[str] = Counter()
        self.other_tasks: Counter[str] = Counter()
        """Rows of other tasks, which are left out, by task."""
        self._groups: list[np.ndarray] = [np.empty(0, np.int64)]
        self._numbers: dict[bytes, int] = {}

    def __len__(self) -> int:
        return sum(len(part) for part in self._groups)

    @property
    def groups(self) -> np.ndarray:
        """The number of each rollout's group, int64 (n,)."""
        self._groups = [np.concatenate(self._groups)]
        return self._groups[0]

    def number(self, group: Any) -> int:
        """Return the number of a group; groups are numbered from 0 in the order of their first rollouts."""
        return self._numbers.setdefault(value_digest(group), len(self._numbers))

    def add(self, piece: RolloutPiece) -> None:
        for k, scores in enumerate(piece.scores):
            if scores is None:
                continue
            self.columns[k].add(scores.rewards)
            self.passed[k] += int(np.count_nonzero(scores.passed))
            names, counts = list(self._names[k]), np.bincount(scores.reason_codes)
            self.reasons[k].update({names[code]: int(counts[code]) for code in np.flatnonzero(counts).tolist()})
        for name, values in piece.metrics.items():
            self.metrics[name].add(values)
        self._groups.append(np.array(piece.groups, np.int64))
        self.faults.update(rollout.fault.reason for rollout in piece.rollouts if rollout.fault is not None)


def score_pieces(
    scorer: Scorer, grid: Grid, tasks: RowTasks, fields: Fields, records: Iterable[Record], rewards: AblationRewards
) -> Iterator[RolloutPiece]:
    """Score records under every configuration and add them to `rewards`; yield them piece by piece.

    Each text is read once for all configurations, and once for the metrics.
    """
    scorers: dict[str, dict[str, ColumnScorer]] = {}
    for entry in grid.configurations:
        scorers.setdefault(entry.task, {})[entry.name] = ColumnScorer([entry.settings], scorer.threads)
    configurations = scorers[SCORE]

    def score(batch: Batch) -> tuple[list[Scores | None], dict[str, np.ndarray]]:
        index = batch.reference_index.tolist() if batch.reference_index is not None else []
        assert batch.references is not None
        batch.steps = any(alternatives_of(reference) is not None for reference in strings_of(batch.references.texts))
        first = score_batch(batch)
        by_name = dict(zip(configurations, [first, *first.configs], strict=True))
        counted = counted_references(batch, index, by_name[grid.configurations[grid.base].name])
        scored = [
            None
            if k in rewards.unavailable
            else by_name[entry.name]
            if entry.name in by_name
            else of_texts(entry, batch, counted)
            for k, entry in enumerate(grid.configurations)
        ]
        responses = map(str, batch.responses or ())
        pairs = [
            ProtocolPair(response, reference, None) for response, reference in zip(responses, counted, strict=True)
        ]
        measured = measure(pairs, scorer.settings.think_prefilled)
        if measured.invalid:  # by the limits of the metrics, which are the default ones
            issues = {index[row]: reason for row, reason in sorted(measured.invalid.items())}
            detail = "the metrics of Appendix F cannot be computed"
            raise InvalidReference([Issue(f"references[{k}]", reason, detail) for k, reason in issues.items()])
        return scored, measured.columns

    for piece in pieces(records):
        by_task: dict[str, list[tuple[Record, Mapping[str, Any]]]] = {}
        for record in piece:
            row = unfolded(record.value) if record.fault is None and isinstance(record.value, dict) else {}
            by_task.setdefault(tasks.named_by(row)[0], []).append((record, row))
        rollouts = [read_rollout(record, row, tasks, fields) for record, row in by_task.pop(SCORE, [])]
        rewards.other_tasks.update({task: len(rows) for task, rows in by_task.items()})
        scores, measured = score_rollouts(score, Batch(configurations=configurations), rollouts)
        groups = [rewards.number(rollout.group) for rollout in rollouts if rollout.fault is None]
        metrics = {name: measured[name] for name in METRICS}
        results = RolloutPiece(rollouts, scores, metrics, groups, len(piece), sum(record.size for record in piece))
        rewards.add(results)
        yield results


def counted_references(batch: Batch, index: Sequence[int], scores: Scores) -> list[Any]:
    """Return the reference of each response; with alternatives, the one that counts."""
    assert batch.references is not None
    references = [strings_of(batch.references.texts)[k] for k in index]
    if scores.alternative is None:
        return references
    return [chosen_of(*pair) for pair in zip(references, scores.alternative.tolist(), strict=True)]


def of_texts(configuration: Configuration, batch: Batch, references: Sequence[Any]) -> Scores:
    """Return the rewards of a task that compares texts, a reference for each; steps are compared as key lines."""
    numbers: dict[str, int] = {}
    index = [numbers.setdefault(reference_text(reference), len(numbers)) for reference in references]
    options = {configuration.task: configuration.options}
    batch = replace(batch, references=ReferenceTexts(list(numbers)), reference_index=np.array(index, np.int64))
    return score_batch(replace(batch, task=configuration.task, options=options))


@contextmanager
def reward_output(
    target: str, fmt: str, grid: Grid, kind: str, append: bool = False
) -> Iterator[Callable[[RolloutPiece], None]]:
    """Yield a function that writes the rows of a piece; raises OSError if the output cannot be written.

    kind: how the rows of the input are located: `line`, `record` or `row`.
    """
    if is_columnar(fmt):
        import pyarrow as pa  # needs the extra

        from ...service.records.output.batch_columns import column_output, error_field

        schema = schema_of(grid, kind, error_field(numbered=False))
        with column_output(target, fmt, schema) as write_table:
            yield lambda piece: write_table(pa.Table.from_pylist(list(rows_of(piece, grid)), schema))
        return
    with json_output(target, fmt, append) as write:
        yield lambda piece: write([orjson.dumps(row) for row in rows_of(piece, grid)])


def schema_of(grid: Grid, kind: str, error: Any) -> Any:
    """Return the schema of columns; signatures of the configurations are the metadata of their fields."""
    import pyarrow as pa

    rewards = [
        pa.field(configuration.name, pa.float64(), metadata={"signature": configuration.identity["signature"]})
        for configuration in grid.configurations
    ]
    metrics = [pa.field(name, pa.float64()) for name in METRICS]
    numbers = [pa.field(name, pa.int64()) for name in (kind, "group")]
    structs = [pa.field("rewards", pa.struct(rewards)), pa.field("metrics", pa.struct(metrics))]
    return pa.schema([*numbers, *structs, error])


def rows_of(piece: RolloutPiece, grid: Grid) -> Iterator[dict[str, Any]]:
    """Yield a row for each rollout: its location, and its rewards and metrics or its error."""
    names = [configuration.name for configuration in grid.configurations]
    nothing = [None] * len(piece.groups)
    columns = (nothing if scores is None else scores.rewards.tolist() for scores in piece.scores)
    rewards = zip(*columns, strict=True)
    metrics = zip(*(piece.metrics[name].tolist() for name in METRICS), strict=True)
    results = zip(piece.groups, rewards, metrics, strict=True)
    for rollout in piece.rollouts:
        location = {rollout.location.kind: rollout.location.number}
        if rollout.fault is not None:
            yield {**location, "error": rollout.fault._asdict()}
            continue
        group, values, measured = next(results)
        named = dict(zip(names, values, strict=True))
        yield {**location, "group": group, "rewards": named, "metrics": dict(zip(METRICS, measured, strict=True))}


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


class RewardSpread(NamedTuple):
    """The mean standard deviation within groups of at least two rows, and the share of groups without spread."""

    deviation: float
    flat: float


class RankedGroups:
    """The groups of n rows, from the number of each row's group, int64 (n,)."""

    def __init__(self, numbers: np.ndarray) -> None:
        self._order = np.argsort(numbers, kind="stable")
        _, self._first, self.sizes = np.unique(numbers[self._order], return_index=True, return_counts=True)
        self._group = np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def multiple(self) -> int:
        return int(np.count_nonzero(self.sizes > 1))

    def spread(self, values: np.ndarray, ddof: int) -> RewardSpread | None:
        """Return the spread of a column, float64 (n,); None if no group has two rows."""
        if not self.multiple:
            return None
        *_, deviations, flat = spread_of(values[self._order], np.append(self._first, len(values)), ddof)
        several = self.sizes > 1
        return RewardSpread(float(deviations[several].mean()), float(flat[several].mean()))

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
    spread: RewardSpread | None
    correlations: Mapping[str, Correlation]


@dataclass(frozen=True)
class Ablation:
    """The rewards of one file under every configuration of a grid; with the command that was run, if known."""

    source: str
    grid: Grid
    rewards: AblationRewards
    command: str = ""

    @cached_property
    def groups(self) -> RankedGroups:
        return RankedGroups(self.rewards.groups)

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
                passed=rewards.passed[k] if {*GATES} <= {*reward_of(configuration.task).components} else None,
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
        """The missing requirement of each configuration that cannot be computed, by name."""
        return {self.grid.configurations[k].name: advice for k, advice in self.rewards.unavailable.items()}

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
        return [self.table(), "", *self.notes()]

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
            *notes_on_correlations((n for each in self.figures for _, n in each.correlations.values()), "group"),
            *(f"{NOTHING} {name}: not computed. {in_this_shell(advice)}" for name, advice in self.unavailable.items()),
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
            "other_tasks": rewards.other_tasks,
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
        faults, other_tasks = rewards.faults.most_common(), rewards.other_tasks.most_common()
        without = [
            Table(["error", "rows"], faults, title="Rows that could not be scored", code=True),
            Table(["other task", "rows"], other_tasks, title="Rows of other tasks, which are left out", code=True),
        ]
        heads = ["configuration", "changes", "config_id", "signature"]
        settings = [
            (entry.name, orjson.dumps(entry.overrides).decode(), *map(entry.identity.get, heads[2:]))
            for entry in grid.configurations
        ]
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
