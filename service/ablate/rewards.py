"""Rewards of the rollouts of a file under every configuration of a grid, piece by piece.

Of each rollout, only numbers are kept: its rewards, its metrics and the number of its group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import orjson

from ..errors import InvalidReference, Issue
from ..evaluate.evaluation import task_named
from ..evaluate.paper import ProtocolPair, measure
from ..evaluate.task import ignore_progress
from ..files.complete_output import json_output
from ..files.row_tasks import RowTasks, score_rollouts
from ..files.summary import Values
from ..records.files import is_columnar
from ..records.forms import unfolded
from ..records.rows import Fault, Fields, Record, Rollout, pieces, rollout_of, value_digest
from ..records.trainer_rows import reference_text
from ..rewards.batch import Batch
from ..rewards.registry import SCORE, reward_of
from ..rewards.scorer import Scorer
from ..rewards.scorer import score as score_batch
from ..rewards.scores import Scores
from ..scoring.column_scorer import ColumnScorer
from .grids import Configuration, Grid

__all__ = ["METRICS", "Piece", "Rewards", "reward_output", "score_pieces"]

METRICS = {
    "step_m": "Step-M",
    "order_s": "Order-S",
    "order_lcs": "Order-LCS",
    "order_tau": "Order-Tau",
    "semantic_a": "Semantic-A",
}
"""The evaluation metrics of the paper's Appendix F, and their headings."""

WIDE = 2.0**63
"""Integers from here on are read as floats, which are equal for different integers."""


class Piece(NamedTuple):
    """Consecutive rows and the results of those without a fault: a column for each configuration and metric."""

    rollouts: list[Rollout]
    scores: list[Scores | None]
    """None under a configuration that cannot be computed."""
    metrics: dict[str, np.ndarray]
    groups: list[int]
    rows: int
    """Rows that were read, including those of other tasks, which are left out."""
    size: int


class Rewards:
    """Columns of all rollouts without a fault, counts, and the faults by reason."""

    def __init__(self, grid: Grid) -> None:
        self.columns = [Values() for _ in grid.configurations]
        """The rewards under each configuration."""
        self.unavailable = {
            k: what for k, configuration in enumerate(grid.configurations) if (what := what_lacks(configuration))
        }
        """What configurations that cannot be computed lack, by number."""
        self.passed = [0 for _ in grid.configurations]
        self.reasons: list[Counter[str]] = [Counter() for _ in grid.configurations]
        self._names = [reward_of(one.task).reasons for one in grid.configurations]
        self.metrics = {name: Values() for name in METRICS}
        self.faults: Counter[str] = Counter()
        self.others: Counter[str] = Counter()
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

    def add(self, piece: Piece) -> None:
        """Add the numbers of one piece."""
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


def what_lacks(configuration: Configuration) -> str:
    """Return what is missing to compute the rewards of a configuration, an empty text if nothing is."""
    if configuration.task == SCORE:
        return ""
    options = configuration.options.model_copy(update={"metrics": [configuration.options.reward]})
    unavailable = task_named(configuration.task).evaluate([], options, ignore_progress).unavailable
    return next((notice.advice for notice in unavailable.values()), "")


def score_pieces(
    scorer: Scorer, grid: Grid, tasks: RowTasks, fields: Fields, records: Iterable[Record], rewards: Rewards
) -> Iterator[Piece]:
    """Score records under every configuration and add them to `rewards`; yield them piece by piece.

    Each text is read once for all configurations, and once for the metrics.
    """
    of_score = [one for one in grid.configurations if one.task == SCORE]
    configurations = {one.name: ColumnScorer([one.settings], scorer.threads) for one in of_score}

    def score(batch: Batch) -> tuple[list[Scores | None], dict[str, np.ndarray]]:
        responses, references = list(map(str, batch.responses or ())), list(batch.references or ())
        index = batch.reference_index.tolist() if batch.reference_index is not None else []
        first = score_batch(batch)
        by_name: dict[str, Scores | None] = dict(zip(configurations, [first, *first.configs], strict=True))
        for k, one in enumerate(grid.configurations):
            if one.task != SCORE:
                by_name[one.name] = None if k in rewards.unavailable else of_texts(one, batch)
        scored = [by_name[one.name] for one in grid.configurations]
        pairs = [ProtocolPair(response, references[k], None) for response, k in zip(responses, index, strict=True)]
        measured = measure(pairs, scorer.settings.think_prefilled)
        if measured.invalid:  # by the limits of the metrics, which are the default ones
            issues = {index[row]: reason for row, reason in sorted(measured.invalid.items())}
            detail = "the metrics of Appendix F cannot be computed"
            raise InvalidReference([Issue(f"references[{k}]", reason, detail) for k, reason in issues.items()])
        return scored, measured.columns

    for piece in pieces(records):
        rollouts = []
        for record in piece:
            rollout, task = read(record, tasks, fields)
            if task == SCORE:
                rollouts.append(rollout)
            else:
                rewards.others[task] += 1
        scores, measured = score_rollouts(score, Batch(configurations=configurations), rollouts)
        groups = [rewards.number(rollout.group) for rollout in rollouts if rollout.fault is None]
        metrics = {name: measured[name] for name in METRICS}
        results = Piece(rollouts, scores, metrics, groups, len(piece), sum(record.size for record in piece))
        rewards.add(results)
        yield results


def of_texts(configuration: Configuration, batch: Batch) -> Scores:
    """Return the rewards of a task that compares texts; steps are compared as key lines."""
    texts = [reference_text(reference) for reference in batch.references or ()]
    options = {configuration.task: configuration.options}
    return score_batch(replace(batch, references=texts, task=configuration.task, options=options))


def read(record: Record, tasks: RowTasks, fields: Fields) -> tuple[Rollout, str]:
    """Return the rollout of a record and its task; whatever is wrong with it is the fault of a rollout of SCORE."""
    rollout = rollout_of(record._replace(text=b""))
    if rollout.fault is not None:
        return rollout, SCORE
    row = unfolded(record.value)
    task, fault = tasks.named_by(row)
    if fault is None and task != SCORE:
        return rollout, task
    tasks.fill(rollout, row, fields)
    if fields.group is not None and isinstance(rollout.group, float) and abs(rollout.group) >= WIDE:
        rollout.fault = Fault("wrong_type", "group: a number of 2^63 or more must be written as text")
    return rollout, SCORE


@contextmanager
def reward_output(target: str, fmt: str, grid: Grid, kind: str) -> Iterator[Callable[[Piece], None]]:
    """Yield a function that writes the rows of a piece; raises OSError if the output cannot be written.

    kind: how the rows of the input are located: `line`, `record` or `row`.
    """
    if is_columnar(fmt):
        import pyarrow as pa  # needs the extra

        from ..files.columns.results import column_output, error_field

        schema = schema_of(grid, kind, error_field(numbered=False))
        with column_output(target, fmt, schema) as write_table:
            yield lambda piece: write_table(pa.Table.from_pylist(list(rows_of(piece, grid)), schema))
        return
    with json_output(target, fmt) as write:
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


def rows_of(piece: Piece, grid: Grid) -> Iterator[dict[str, Any]]:
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
