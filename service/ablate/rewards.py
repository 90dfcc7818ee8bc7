"""Rewards of the rollouts of a file under every configuration of a grid, piece by piece.

Of each rollout, only numbers are kept: its rewards, its metrics and the number of its group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidReference, Issue
from ..evaluate.paper import Pair, measure
from ..evaluate.task import ignore_progress
from ..evaluate.task_rewards import SCORE, read_references, reasons_of, reward_responses, reward_task
from ..files.row_tasks import RowTasks, with_valid_references
from ..files.summary import Values
from ..records.forms import unfolded
from ..records.rows import Fault, Fields, Record, Rollout, pieces, rollout_of, value_digest
from ..records.trainer_rows import reference_text
from ..scoring.configurations import score_together
from ..scoring.request import checked_request
from ..scoring.scorer import Scorer
from ..scoring.scores import Scores
from .grids import Configuration, Grid

__all__ = ["METRICS", "Piece", "Rewards", "score_pieces"]

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
        self.unavailable = {k: what for k, one in enumerate(grid.configurations) if (what := what_lacks(one))}
        """What configurations that cannot be computed lack, by number."""
        self.passed = [0 for _ in grid.configurations]
        self.reasons: list[Counter[str]] = [Counter() for _ in grid.configurations]
        self._names = [reasons_of(one.task) for one in grid.configurations]
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
        self.faults.update(one.fault.reason for one in piece.rollouts if one.fault is not None)


def what_lacks(configuration: Configuration) -> str:
    """Return what is missing to compute the rewards of a configuration, an empty text if nothing is."""
    if configuration.task == SCORE:
        return ""
    options = configuration.options.model_copy(update={"metrics": [configuration.options.reward]})
    unavailable = reward_task(configuration.task).evaluate([], options, ignore_progress).unavailable
    return next((notice.advice for notice in unavailable.values()), "")


def score_pieces(
    scorer: Scorer, grid: Grid, tasks: RowTasks, fields: Fields, records: Iterable[Record], rewards: Rewards
) -> Iterator[Piece]:
    """Score records under every configuration and add them to `rewards`; yield them piece by piece.

    Each text is read once for all configurations, and once for the metrics.
    """
    of_score = [one for one in grid.configurations if one.task == SCORE]
    names, settings = [one.name for one in of_score], [one.settings for one in of_score]

    def score(
        responses: list[str], references: list[Any], index: list[int]
    ) -> tuple[list[Scores | None], dict[str, np.ndarray]]:
        request = checked_request(responses, references, index, None)
        together = score_together(settings, scorer.threads, lambda columns: columns.score_request(request), names)
        by_name: dict[str, Scores | None] = dict(zip(names, together, strict=True))
        for k, one in enumerate(grid.configurations):
            if one.task != SCORE:
                by_name[one.name] = None if k in rewards.unavailable else of_texts(one, responses, references, index)
        scored = [by_name[one.name] for one in grid.configurations]
        pairs = [Pair(response, references[k], None) for response, k in zip(responses, index, strict=True)]
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
        scores, measured = with_valid_references(score, rollouts)
        groups = [rewards.number(one.group) for one in rollouts if one.fault is None]
        metrics = {name: measured[name] for name in METRICS}
        found = Piece(rollouts, scores, metrics, groups, len(piece), sum(one.size for one in piece))
        rewards.add(found)
        yield found


def of_texts(configuration: Configuration, responses: list[str], references: list[Any], index: list[int]) -> Scores:
    """Return the rewards of a task that compares texts; steps are compared as key lines."""
    task = reward_task(configuration.task)
    texts = read_references(task, [reference_text(reference) for reference in references])
    return reward_responses(task, responses, texts, np.array(index, np.int64), configuration.options)


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
