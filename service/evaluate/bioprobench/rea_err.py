"""Reasoned error detection: ERR's metrics, and how often a judge finds the named error consistent with the true one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from ..task import Advance, Evaluation, Metric, Records, mean_of
from .answers import after_thinking, truth_of
from .err import CLASSIFICATION, VerdictOptions, VerdictRecord, Verdicts, VerdictTask

__all__ = ["TASK", "Judge"]

JUDGED = "LLM_judge"

Judge = Callable[[Mapping[str, Any], str], object]
"""Takes a record and its response without thoughts and instructions, and returns the judgement: text with a marked True
or False, anything else for none. Called once for each record with a `corrupted_text` and without an `LLM_judge`."""


class ReaErrRecord(VerdictRecord):
    """One step of BioProBench's ERR with a reasoned response, and perhaps what a judge says of it."""

    LLM_judge: Any = Field(
        None, description="The judgement: text with a marked True or False. A record without the field is not judged."
    )


class ReaErrOptions(VerdictOptions):
    """What REA-ERR may be asked."""

    deduplicate: bool = Field(
        False,
        description="Whether each id counts once, its judged record before others: the public judge appends to the "
        "file that it reads, so that every id stands there twice.",
    )
    judge: SkipJsonSchema[Judge | None] = Field(
        None, description="In Python only: judges the records that have no judgement.", exclude=True
    )


class ReaErr(VerdictTask):
    """Reasoned error detection."""

    name = "bioprobench.rea_err"
    description = "BioProBench, reasoned error detection: ERR's metrics and consistency by a judge (equation 8)."
    record = ReaErrRecord
    options = ReaErrOptions
    metrics = (
        *CLASSIFICATION,
        Metric(
            "consistency",
            "Consistency",
            "Share of judgements that are True among those that could be read, as published.",
            percent=True,
        ),
        Metric(
            "consistency_eq8",
            "Consistency (8)",
            "Of the erroneous steps, the share that is called so and judged True (equation 8).",
            percent=True,
        ),
        Metric(
            "judge_failed",
            "Judge failed",
            "Share of judgements that could not be read.",
            percent=True,
            less_is_better=True,
        ),
    )

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        found = Verdicts(records, options.strict_markers)
        counted = np.ones(len(records), bool)
        if options.deduplicate:
            counted[:] = False
            counted[first_of_each(records)] = True
        consistent, judge_failed = judgements(records, counted, options.judge, advance)
        any_judged = np.isfinite(judge_failed).any()
        flagged = (found.hit & (consistent == 1.0)).astype(float)
        columns = found.columns | {
            "consistency": consistent,
            "consistency_eq8": np.where(found.erroneous & any_judged, flagged, np.nan),
            "judge_failed": judge_failed,
        }
        for column in columns.values():
            column[~counted] = np.nan

        def corpus(rows: np.ndarray) -> dict[str, float | None]:
            rows = rows[counted[rows]]
            judged = np.isfinite(judge_failed[rows]).any()
            return found.corpus(rows) | ({"consistency": mean_of(consistent[rows]) or 0.0} if judged else {})

        return Evaluation(columns, [failure for failure in found.failed if counted[failure.record]], corpus, found.over)


def first_of_each(records: Records) -> list[int]:
    """Return one row per id, in file order: that of a judged record if there is one, else the first."""
    chosen: dict[Any, int] = {}
    for row, record in enumerate(records):
        name = record.get("id")
        key = ("row", row) if name is None else ("id", str(name))
        if key not in chosen or (JUDGED in record and JUDGED not in records[chosen[key]]):
            chosen[key] = row
    return sorted(chosen.values())


def judgements(
    records: Records, counted: np.ndarray, judge: Judge | None, advance: Advance
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether each judged record is consistent, and whether its judgement could not be read; else NaN."""
    consistent, failed = np.full((2, len(records)), np.nan)
    for row, record in enumerate(records):
        if not counted[row] or not (JUDGED in record or (judge and record.get("corrupted_text"))):
            continue
        judgement = record[JUDGED] if JUDGED in record else asked(judge, record)
        verdict = truth_of(judgement, cut_instruction=False)
        failed[row] = isinstance(verdict, str)
        if not isinstance(verdict, str):
            consistent[row] = verdict
        advance(row + 1)
    advance(len(records))
    return consistent, failed


def asked(judge: Judge | None, record: Mapping[str, Any]) -> object:
    """Ask the judge about a record; None if its response is not text."""
    response = record.get("generated_response")
    if judge is None or not isinstance(response, str):
        return None
    return judge(record, after_thinking(response).rpartition("[/INST]")[2].strip())


TASK = ReaErr()
