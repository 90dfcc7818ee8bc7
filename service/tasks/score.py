"""The task `score`: the paper's evaluation metrics (docs/rules.md, Evaluation metrics) under two profiles."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from . import paper, thoth
from .paper import ProtocolPair
from .scirecipe_records import TYPES, level_of, library_of, reference_of
from .task import Advance, Evaluation, Metric, RecordFailure, Records, Task, TaskOptions, TaskRecord, step_group

PIECE_ROWS = 4_096  # records between two calls of the progress callback

METRICS: tuple[Metric, ...] = (
    Metric("step_m", "Step-M", "1 if prediction and reference have the same number of steps.", percent=True),
    Metric("order_s", "Order-S", "1 if the sequences of actions are equal.", percent=True),
    Metric(
        "order_lcs",
        "Order-LCS",
        "2 · LCS / (n + m) of the sequences of actions; n and m are their lengths.",
        percent=True,
    ),
    Metric(
        "order_tau",
        "Order-Tau",
        "Kendall's tau over the matched steps; 0 if there are fewer than two.",
        low=-1.0,
        percent=True,
    ),
    Metric(
        "semantic_a",
        "Semantic-A",
        "Mean over the matched steps of position factor · (Obj + ½ Par).",
        high=1.5,
        percent=True,
    ),
    Metric("mean_obj", "Obj", "Mean over the matched steps of the overlap of their objects.", percent=True),
    Metric("mean_par", "Par", "Mean over the matched steps of the overlap of their parameters.", percent=True),
    Metric("mean_position", "Position", "Mean over the matched steps of the position factor.", percent=True),
    Metric(
        "outside_library",
        "Outside",
        "Share of predicted steps whose action is not in the record's library of actions.",
        percent=True,
        less_is_better=True,
        default=False,
    ),
    Metric(
        "distractors_taken",
        "Distractors",
        "Share of predicted steps whose action is in the record's library, but not in its reference.",
        percent=True,
        less_is_better=True,
        default=False,
    ),
)
SHARES = {"outside_library": "outside_library", "distractors_taken": "distractors"}

FAILURES = {
    "too_long": "The reference has too many bytes or steps, or under `thoth` response or reference over a million "
    "characters.",
    "no_steps": "The reference has no step.",
    "bad_step_line": "A line of the reference is not of the form 'Step N: {...}'.",
    "bad_step_json": "The braces of a line of the reference do not hold one valid JSON object.",
    "bad_step_schema": "A step of the reference is not an action with objects and parameters.",
}


class ScoreRecord(TaskRecord):
    """One answer of a model with its reference."""

    response: str = Field(description="The model's answer.")
    reference: str | dict[str, Any] | None = Field(
        None, description='A whole answer, the lines of its <key> section, or {"steps": [...]}.'
    )
    key: str | None = Field(None, description="The reference of a record as SciRecipe publishes it; or `reference`.")
    type: Any = Field(None, description="Kind of the task, to group by.")
    level: Any = Field(
        None, description="Difficulty; if missing, 1 if the reference has fewer than four steps, else 2."
    )
    action_new: list[str] | None = Field(None, description="Library of actions; or `action`, or the end of `query`.")


class ScoreOptions(TaskOptions):
    """Options of SCORE's metrics."""

    profile: Literal["paper", "thoth"] = Field(
        "paper", description="Follow the paper's text, or the authors' public script number for number."
    )
    think_prefilled: bool = Field(False, description="Responses begin inside <think>.")


class ScoreTask(Task):
    """SCORE's metrics. The reward of the same name is not computed here: it is `Scorer`'s."""

    name = "score"
    description = "SCORE's evaluation metrics of Sketch-and-Fill answers (arXiv 2510.15600, Appendix F)."
    record = ScoreRecord
    options = ScoreOptions
    metrics = METRICS
    failures = FAILURES
    response = "response"
    derived_fields = ("level", "steps")
    printed_order: ClassVar[Mapping[str, tuple[str, ...]]] = {"type": TYPES}
    has_rules = True

    def validation_errors(self, record: Any) -> list[tuple[str, str, str]]:
        """Validate as every task does, but faster for valid records: there may be tens of thousands."""
        if (
            isinstance(record, dict)
            and isinstance(record.get("response"), str)
            and isinstance(reference_of(record), (str, dict))
        ):
            return []
        errors = super().validation_errors(record)
        if isinstance(record, dict) and reference_of(record) is None:
            errors.append(("reference", "missing_field", "this field is required"))
        return errors

    def unfolded(self, row: dict[str, Any]) -> dict[str, Any]:
        return row  # a reference is text or steps, never a record

    def optional_metrics(self, records: Records) -> Collection[str]:
        return SHARES if any(library_of(record) is not None for record in records) else ()

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        names = [metric.name for metric in self.requested(options)]
        columns = {name: np.full(len(records), np.nan) for name in names}
        failed: list[RecordFailure] = []
        counts: list[int | None] = []
        library = library_of if SHARES.keys() & set(names) else lambda _record: None
        measure = thoth.measure if options.profile == "thoth" else paper.measure
        for first in range(0, len(records), PIECE_ROWS):
            some = records[first : first + PIECE_ROWS]
            pairs = [ProtocolPair(record["response"], reference_of(record), library(record)) for record in some]
            measures, steps, reasons = measure(pairs, options.think_prefilled)
            readable = np.array([row not in reasons for row in range(len(pairs))])
            shared = readable & (measures["steps"] > 0) & [pair.library is not None for pair in pairs]
            for name, column in columns.items():
                rows = shared if name in SHARES else readable
                values = measures[SHARES.get(name, name)]
                values = values / np.maximum(measures["steps"], 1.0) if name in SHARES else values
                column[first : first + len(pairs)][rows] = values[rows]
            failed += [RecordFailure(first + row, reason) for row, reason in sorted(reasons.items())]
            counts += [None if row in reasons else count for row, count in enumerate(steps.tolist())]
            advance(first + len(pairs))
        levels = [None if count is None else level_of(count) for count in counts]
        groups = [None if count is None else step_group(count) for count in counts]
        return Evaluation(columns, failed, derived={"level": levels, "steps": groups})


TASK = ScoreTask()
