"""Error detection: whether a model calls a step of a protocol right; the positive class is the erroneous step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from ..task import (
    COMMON_REASONS,
    OK,
    Advance,
    Evaluation,
    Metric,
    RecordFailure,
    Records,
    Task,
    TaskOptions,
    TaskRecord,
    TaskRewards,
)
from ..text.tokens import precision_and_recall
from .answers import (
    EVALUATOR,
    FAILURES,
    NO_TRUTH_VALUE,
    THOTH,
    UNCLEAR,
    ConversationRecord,
    ConversationTask,
    ProfileOptions,
    marked_truth,
    mean_read,
    truth_of,
)

NO_GOLD = "no_gold"
GOLD_NOT_BOOLEAN = "gold_not_boolean"

CLASSIFICATION = (
    Metric("accuracy", "Acc", "Share of right verdicts among those that could be read.", percent=True),
    Metric("precision", "P", "Share of the steps called erroneous that are erroneous.", per_record=False, percent=True),
    Metric("recall", "R", "Share of the erroneous steps that are called erroneous.", per_record=False, percent=True),
    Metric("f1", "F1", "Harmonic mean of precision and recall.", per_record=False, percent=True),
    Metric("failed", "Failed", "Share of responses without a readable verdict.", percent=True, less_is_better=True),
    Metric(
        "accuracy_over_all",
        "Acc (all)",
        "Share of right verdicts among all responses; failed ones count as wrong.",
        percent=True,
    ),
    Metric(
        "accuracy_bool_gold",
        "Acc (bool)",
        "Accuracy over the records whose is_correct is a boolean; the public script also compares other values.",
        percent=True,
    ),
)

VERDICT_FAILURES = {
    **FAILURES,
    NO_TRUTH_VALUE: "The verdict is neither True nor False, in these spellings or in lower case "
    "(`profile = thoth`: in any case).",
    NO_GOLD: "The record has no is_correct: a fault of the record.",
    UNCLEAR: "The verdict has neither the word true nor the word false, or both (only with `profile = bioprobench-2`).",
    GOLD_NOT_BOOLEAN: "is_correct is not a boolean: a fault of the record (only with `profile = bioprobench-2`).",
}
OF_RECORD = (NO_GOLD, GOLD_NOT_BOOLEAN)
REASONS = (
    {OK: "A verdict was read."}
    | {name: text for name, text in VERDICT_FAILURES.items() if name not in (*OF_RECORD, UNCLEAR)}
    | COMMON_REASONS
    | {UNCLEAR: VERDICT_FAILURES[UNCLEAR]}
)


class VerdictRecord(TaskRecord):
    """One step of BioProBench's ERR with a model's response."""

    is_correct: Any = Field(None, description="Whether the step is right: a boolean. Without it the record fails.")
    generated_response: Any = Field(None, description="The model's response; anything but text counts as failed.")


class ErrRecord(VerdictRecord, ConversationRecord):
    """One step of BioProBench's ERR with a model's response."""


class VerdictOptions(TaskOptions):
    """Options of ERR and REA-ERR."""

    strict_markers: bool = Field(
        False,
        description="Whether a response without a marked block fails, as in the paper; the public script reads its "
        "last line.",
    )


class ErrOptions(VerdictOptions, ProfileOptions):
    """Options of ERR."""


OF_ERRONEOUS = ("precision", "recall", "f1")


class Verdicts:
    """The verdicts of n records beside the truth; a truth that is not a boolean is compared, but no erroneous step."""

    def __init__(self, records: Records, options: Any) -> None:
        verdicts = [verdict_of(record, options) for record in records]
        golds = [record.get("is_correct") for record in records]
        self.failed = [
            RecordFailure(row, verdict, of_response=verdict not in OF_RECORD)
            for row, verdict in enumerate(verdicts)
            if isinstance(verdict, str)
        ]
        unread, without_gold = np.zeros((2, len(records)), bool)
        unread[[failure.record for failure in self.failed]] = True
        without_gold[[failure.record for failure in self.failed if not failure.of_response]] = True
        boolean = np.array([isinstance(gold, bool) for gold in golds], bool)
        self.erroneous = np.array([gold is False for gold in golds], bool)
        self.called = np.array([verdict is False for verdict in verdicts], bool)
        right = [verdict == gold for verdict, gold in zip(verdicts, golds, strict=True)]
        self.right = np.where(unread, np.nan, right)
        self.of_boolean = np.where(boolean, self.right, np.nan)
        self.hit, self.false_alarm = self.called & self.erroneous, self.called & boolean & ~self.erroneous
        self.miss = self.erroneous & ~self.called & ~unread
        self.columns = {
            "accuracy": self.right,
            "failed": unread.astype(float),
            "accuracy_over_all": np.where(unread & ~without_gold, 0.0, self.right),
            "accuracy_bool_gold": self.of_boolean,
        }
        self.options = options
        self.over = {name: [self.of_boolean] for name in OF_ERRONEOUS}
        if options.profile == EVALUATOR:
            alone = np.where(unread, np.nan, self.hit)  # each metric of a single record
            self.columns |= dict.fromkeys(OF_ERRONEOUS, alone)

    def corpus(self, rows: np.ndarray) -> dict[str, float | None]:
        hits, false_alarms, misses = (int(column[rows].sum()) for column in (self.hit, self.false_alarm, self.miss))
        precision, recall, f1 = precision_and_recall(hits, hits + false_alarms, hits + misses)
        accuracy = mean_read(self.right[rows], self.options)
        return {"accuracy": accuracy, "precision": precision, "recall": recall, "f1": f1}


def verdict_of(record: Mapping[str, Any], options: Any) -> bool | str:
    if "is_correct" not in record:
        return NO_GOLD
    response = record.get("generated_response")
    if options.profile != EVALUATOR:
        return truth_of(response, needs_markers=options.strict_markers, any_case=options.profile == THOTH)
    if not isinstance(record["is_correct"], bool):
        return GOLD_NOT_BOOLEAN
    return marked_truth(response, options.strict_markers)


def truth_in(answer: str) -> bool | None:
    return {"true": True, "false": False}.get(answer.strip().lower())


class VerdictTask(Task):
    failures = VERDICT_FAILURES

    def validation_errors(self, record: Any) -> list[tuple[str, str, str]]:
        return [] if isinstance(record, dict) else super().validation_errors(record)


class Err(VerdictTask, ConversationTask):
    name = "bioprobench.err"
    description = "BioProBench, error detection: accuracy, precision, recall and F1 of erroneous steps."
    record = ErrRecord
    options = ErrOptions
    metrics = CLASSIFICATION
    reward = "1 for the right verdict, else 0."
    reasons = REASONS
    components = ("accuracy", "called_erroneous")
    passed_if = ("accuracy",)
    answered = ("is_correct",)

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        verdicts = Verdicts(self.completed(records), options)
        advance(len(records))
        return Evaluation(verdicts.columns, verdicts.failed, verdicts.corpus, verdicts.over)

    def rewards(self, records: Records, options: Any, advance: Advance) -> TaskRewards:
        verdicts = Verdicts(records, options)
        right = np.nan_to_num(verdicts.right, nan=0.0)
        return TaskRewards(
            right, verdicts.failed, {"accuracy": right, "called_erroneous": verdicts.called.astype(float)}
        )

    def from_conversation(self, question: str, answer: str) -> Mapping[str, Any] | str:
        truth = truth_in(answer)
        return "the answer must be True or False" if truth is None else {"is_correct": truth}

    def reference(self, value: Any) -> tuple[Mapping[str, Any] | None, str]:
        truth = value if isinstance(value, bool) else truth_in(value) if isinstance(value, str) else None
        if truth is not None:
            return {"is_correct": truth}, ""
        record, wrong = super().reference(value)
        if record is not None and not isinstance(record.get("is_correct"), bool):
            return None, "is_correct: must be a boolean"
        return record, wrong


TASK = Err()
