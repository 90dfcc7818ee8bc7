"""Error detection: whether a model calls a step of a protocol right; the positive class is the erroneous step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from ..task import OK, Advance, Evaluation, Failure, Metric, Options, Record, Records, Rewards, Task, ignore_progress
from .answers import FAILURES, nan_column, share, truth_of

__all__ = ["CLASSIFICATION", "TASK", "Classification", "VerdictTask", "classified", "classify"]

NO_GOLD = "no_gold"

CLASSIFICATION = (
    Metric("accuracy", "Acc", "Share of right verdicts among those that could be read.", percent=True),
    Metric("precision", "P", "Of the steps called erroneous, the share that is.", per_record=False, percent=True),
    Metric("recall", "R", "Of the erroneous steps, the share called so.", per_record=False, percent=True),
    Metric("f1", "F1", "Harmonic mean of precision and recall.", per_record=False, percent=True),
    Metric("failed", "Failed", "Share of responses without a readable verdict.", percent=True, less_is_better=True),
    Metric("accuracy_over_all", "Acc (all)", "Share of right verdicts among all: what failed is wrong.", percent=True),
    Metric(
        "accuracy_bool_gold",
        "Acc (bool)",
        "Accuracy over the records whose is_correct is a boolean; the public script also compares what is not.",
        percent=True,
    ),
)
"""What ERR and REA-ERR share."""

CLASSIFICATION_FAILURES = {
    **FAILURES,
    "no_truth_value": "Where the verdict should stand is neither True nor False, in these spellings or in lower case.",
    NO_GOLD: "The record has no is_correct: a fault of the record.",
}

REASONS = {OK: "A verdict was read."} | {
    name: text for name, text in CLASSIFICATION_FAILURES.items() if name != NO_GOLD
}


class Classification:
    """Verdicts of records with the truth, one row each."""

    def __init__(self, count: int, read: Sequence[tuple[int, bool, Any]], failed: list[Failure]) -> None:
        """Take (row, verdict, truth) of the records whose response could be read."""
        self.failed = failed
        self.right, self.boolean = nan_column(count), nan_column(count)
        rows = [row for row, _, _ in read]
        verdict = np.array([verdict for _, verdict, _ in read], bool)
        erroneous = np.array([gold is False for _, _, gold in read], bool)
        boolean = np.array([gold is True or gold is False for _, _, gold in read], bool)
        self.right[rows] = [verdict == gold for _, verdict, gold in read]
        self.boolean[rows] = np.where(boolean, self.right[rows], np.nan)
        self.hit, self.false_alarm, self.miss = (np.zeros(count, bool) for _ in range(3))
        self.hit[rows], self.miss[rows] = ~verdict & erroneous, verdict & erroneous
        self.false_alarm[rows] = ~verdict & boolean & ~erroneous
        self.unread = np.isnan(self.right)
        self.without_gold = np.zeros(count, bool)
        self.without_gold[[failure.record for failure in failed if failure.reason == NO_GOLD]] = True

    def columns(self) -> dict[str, np.ndarray]:
        return {
            "accuracy": self.right,
            "failed": self.unread.astype(float),
            "accuracy_over_all": np.where(self.unread & ~self.without_gold, 0.0, self.right),
            "accuracy_bool_gold": self.boolean,
        }

    @property
    def over(self) -> dict[str, list[np.ndarray]]:
        """Columns of precision, recall and F1: verdicts that could be read, of truths that are booleans."""
        return {name: [self.boolean] for name in ("precision", "recall", "f1")}

    def corpus(self, rows: np.ndarray) -> dict[str, float | None]:
        """Return accuracy, precision, recall and F1 of some rows, 0 if undefined, as the script does."""
        read = rows[~self.unread[rows]]
        hits = int(self.hit[read].sum())
        precision = share(hits, hits + int(self.false_alarm[read].sum()))
        recall = share(hits, hits + int(self.miss[read].sum()))
        f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
        return {
            "accuracy": share(float(self.right[read].sum()), len(read)),
            "precision": precision,
            "recall": recall,
            "f1": f1,
        }


def classify(record: Mapping[str, Any], strict_markers: bool) -> bool | str:
    """Return the verdict of a record's response (True: the step is right), else the reason why it has none."""
    if "is_correct" not in record:
        return NO_GOLD
    return truth_of(record.get("generated_response"), needs_markers=strict_markers)


def classified(records: Records, strict_markers: bool) -> Classification:
    """Classify all records. A truth that is not a boolean is compared, but is not an erroneous step."""
    read, failed = [], []
    for row, record in enumerate(records):
        verdict = classify(record, strict_markers)
        if isinstance(verdict, str):
            failed.append(Failure(row, verdict, of_response=verdict != NO_GOLD))
        else:
            read.append((row, verdict, record["is_correct"]))
    return Classification(len(records), read, failed)


class ErrRecord(Record):
    """One step of BioProBench's ERR with a model's response."""

    is_correct: Any = Field(None, description="Whether the step is right: a boolean. Without it the record fails.")
    generated_response: Any = Field(None, description="The model's response; what is not text counts as failed.")


class ErrOptions(Options):
    """What ERR may be asked."""

    strict_markers: bool = Field(
        False,
        description="Whether a response without a marked block fails, as the paper has it; the public script reads its "
        "last line.",
    )


class VerdictTask(Task):
    """A task on records of ERR."""

    failures = CLASSIFICATION_FAILURES

    def validation_errors(self, record: Any) -> list[tuple[str, str, str]]:
        """Accept any object: any field may hold anything or be missing."""
        return [] if isinstance(record, dict) else super().validation_errors(record)


class Err(VerdictTask):
    """Error detection."""

    name = "bioprobench.err"
    description = "BioProBench, error detection: accuracy, precision, recall and F1 of erroneous steps."
    record = ErrRecord
    options = ErrOptions
    metrics = CLASSIFICATION
    reward = "1 for the right verdict and 0 else."
    reasons = REASONS
    components = ("accuracy", "called_erroneous")

    def evaluate(self, records: Records, options: Any, advance: Advance = ignore_progress) -> Evaluation:
        found = classified(records, options.strict_markers)
        advance(len(records))
        return Evaluation(found.columns(), found.failed, found.corpus, found.over)

    def rewards(self, records: Records, options: Any, advance: Advance = ignore_progress) -> Rewards:
        verdicts = [classify(record, options.strict_markers) for record in records]
        right = np.array(
            [
                not isinstance(verdict, str) and verdict == record["is_correct"]
                for verdict, record in zip(verdicts, records, strict=True)
            ],
            float,
        )
        called = np.array([verdict is False for verdict in verdicts], float)
        reasons = [verdict if isinstance(verdict, str) else OK for verdict in verdicts]
        return Rewards(right, reasons, {"accuracy": right, "called_erroneous": called})

    def reference(self, value: Any) -> tuple[Mapping[str, Any] | None, str]:
        """Accept a record of the benchmark, as an object or JSON text, or the truth itself, as a boolean or text."""
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            value = value.strip().lower() == "true"
        if isinstance(value, bool):
            return {"is_correct": value}, ""
        record, wrong = super().reference(value)
        if record is not None and not isinstance(record.get("is_correct"), bool):
            return None, "is_correct: must be a boolean"
        return record, wrong


TASK = Err()
