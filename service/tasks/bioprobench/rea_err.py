"""Reasoned error detection: ERR's metrics, and how often a judge finds the named error consistent with the true one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from ...errors import InvalidRequest, Issue
from ..judges import FAULT, JUDGE_FAULT, Endpoint, JudgeFault, Judgement, JudgeOptions, JudgeQuestion, answers
from ..task import Advance, Evaluation, Metric, Notice, RecordFailure, Records, mean_of
from .answers import END, EVALUATOR, NOT_TEXT, SCRIPT, START, EvaluatorOptions, answer_in, marked_truth, truth_of
from .err import CLASSIFICATION, VERDICT_FAILURES, VerdictOptions, VerdictRecord, Verdicts, VerdictTask

JUDGED = "LLM_judge"

Judge = Callable[[Mapping[str, Any], str], object]
"""Takes a record and its response without thoughts; returns text with a marked True or False."""


NOT_JUDGED = Notice(
    f"No record has a judgement (`{JUDGED}`)",
    "the options `base_url` and `model` name a judge, which is asked about records with a `corrupted_text`",
)
MISSING = "(not given)"

PROMPT = f"""\
A step of a laboratory protocol has an error. Below are the erroneous step, the correct one, a description of the \
error, and the answer of a model that was asked about the erroneous step. Decide whether the answer names this error.

Find out from the two steps and the description what is wrong. The verdict is True if the answer says explicitly that \
this is wrong, whatever else it objects to. It is False if the answer misses the error or takes something else for it.

Erroneous step:
{{corrupted_text}}

Correct step:
{{corrected_text}}

Error:
{{error_description}}

Answer of the model:
{{answer}}

Reply with the verdict only, in one of these two forms:
{START}True{END}
{START}False{END}"""

CONSISTENCY = (
    Metric(
        "consistency",
        "Consistency",
        "Share of judgements that are True among those that could be read, as published.",
        percent=True,
    ),
    Metric(
        "consistency_eq8",
        "Consistency (8)",
        "Share of the erroneous steps that are called erroneous and judged True (equation 8).",
        percent=True,
        profiles=(SCRIPT,),
    ),
    Metric(
        "judge_failed",
        "Judge failed",
        "Share of judgements that could not be read, or that the judge did not give.",
        percent=True,
        less_is_better=True,
    ),
)


class ReaErrRecord(VerdictRecord):
    """One step of BioProBench's ERR with a reasoned response, and perhaps what a judge says of it."""

    LLM_judge: Any = Field(
        None, description="The judgement: text with a marked True or False. A judge is asked only without the field."
    )
    corrupted_text: Any = Field(None, description="The erroneous step; a record without it is not judged.")
    corrected_text: Any = Field(None, description="The correct step, for the judge.")
    error_description: Any = Field(None, description="What is wrong with the step, for the judge.")


class ReaErrOptions(VerdictOptions, EvaluatorOptions, JudgeOptions):
    """Options of REA-ERR."""

    deduplicate: bool = Field(
        False,
        description="Whether each id counts once, its judged record first: the public judge appends to the file that "
        "it reads, so every id is in it twice.",
    )
    judge: SkipJsonSchema[Judge | None] = Field(
        None, description="In Python only, instead of `base_url`: judges the records without a judgement.", exclude=True
    )


class ReaErr(VerdictTask):
    name = "bioprobench.rea_err"
    description = "BioProBench, reasoned error detection: ERR's metrics and consistency by a judge (equation 8)."
    record = ReaErrRecord
    options = ReaErrOptions
    metrics = (
        *(metric if metric.name == "failed" else replace(metric, profiles=(SCRIPT,)) for metric in CLASSIFICATION),
        *CONSISTENCY,
    )
    failures = VERDICT_FAILURES | FAULT
    judge_metrics = ("consistency",)

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        verdicts = Verdicts(records, options)
        counted = np.ones(len(records), bool)
        if options.deduplicate:
            counted[:] = False
            counted[first_of_each(records)] = True
        requested = {metric.name for metric in CONSISTENCY}.intersection(m.name for m in self.requested(options))
        rows = np.flatnonzero(counted).tolist()
        consistent, judge_failed, unread = judgements(records, rows, options, bool(requested), advance)
        advance(len(records))
        any_judged = np.isfinite(judge_failed).any()
        unavailable = dict.fromkeys(sorted(requested), NOT_JUDGED) if len(records) and not any_judged else {}
        if options.profile == EVALUATOR:
            missing = np.isnan(judge_failed) & counted
            judge_failed[missing] = 1.0
            unread += [RecordFailure(row, NOT_TEXT, of_response=True) for row in np.flatnonzero(missing).tolist()]
            columns = {"failed": judge_failed, "consistency": consistent, "judge_failed": judge_failed}
            return Evaluation(columns, sorted(unread), unavailable=unavailable)
        faults = [failure for failure in unread if failure.reason == JUDGE_FAULT]
        flagged = (verdicts.hit & (consistent == 1.0)).astype(float)
        flagged[[fault.record for fault in faults]] = np.nan
        columns = verdicts.columns | {
            "consistency": consistent,
            "consistency_eq8": np.where(verdicts.erroneous & any_judged, flagged, np.nan),
            "judge_failed": judge_failed,
        }
        for column in columns.values():
            column[~counted] = np.nan

        def corpus(rows: np.ndarray) -> dict[str, float | None]:
            rows = rows[counted[rows]]
            judged = np.isfinite(judge_failed[rows]).any()
            return verdicts.corpus(rows) | ({"consistency": mean_of(consistent[rows]) or 0.0} if judged else {})

        failed = sorted([failure for failure in verdicts.failed if counted[failure.record]] + faults)
        return Evaluation(columns, failed, corpus, verdicts.over, unavailable)


def first_of_each(records: Records) -> list[int]:
    chosen: dict[Any, int] = {}
    for row, record in enumerate(records):
        name = record.get("id")
        key = ("row", row) if name is None else ("id", str(name))
        if key not in chosen or (JUDGED in record and JUDGED not in records[chosen[key]]):
            chosen[key] = row
    return sorted(chosen.values())


def judgements(
    records: Records, rows: list[int], options: ReaErrOptions, asks: bool, advance: Advance
) -> tuple[np.ndarray, np.ndarray, list[RecordFailure]]:
    """Return whether each record is consistent, whether its judgement failed, else NaN; and why it failed."""
    if options.judge is not None and options.has_judge:
        raise InvalidRequest([Issue("options.judge", "invalid_option", "give a function or base_url, not both")])
    consistent, failed = np.full((2, len(records)), np.nan)
    read = marked_truth if options.profile == EVALUATOR else partial(truth_of, cut_instruction=False)
    unread = []
    for row, judgement in said(records, rows, options, asks, advance):
        verdict = read(judgement)
        failed[row] = isinstance(verdict, str)
        if isinstance(judgement, JudgeFault):
            unread.append(RecordFailure(row, JUDGE_FAULT))
        elif isinstance(verdict, str):
            unread.append(RecordFailure(row, verdict, of_response=True))
        else:
            consistent[row] = verdict
    return consistent, failed, unread


def said(
    records: Records, rows: list[int], options: ReaErrOptions, asks: bool, advance: Advance
) -> Iterator[tuple[int, object | JudgeFault]]:
    questions = []
    for row in rows:
        record = records[row]
        response = record.get("generated_response")
        if JUDGED in record:
            yield row, record[JUDGED]
        elif not asks or not record.get("corrupted_text") or not (options.judge or options.has_judge):
            continue
        elif not isinstance(response, str):
            yield row, None
        elif options.judge is not None:
            yield row, options.judge(record, answer_in(response))
            advance(row + 1)
        else:
            questions.append(JudgeQuestion(row, prompt_of(record, answer_in(response))))
    for question, answer in answers(questions, options, partial(judged, options), advance):
        yield question.row, answer if isinstance(answer, JudgeFault) else "".join(answer.texts[:1])


def prompt_of(record: Mapping[str, Any], answer: str) -> str:
    texts = {
        name: str(record.get(name) or MISSING) for name in ("corrupted_text", "corrected_text", "error_description")
    }
    return PROMPT.format(**texts, answer=answer)


def judged(options: ReaErrOptions, endpoint: Endpoint, question: JudgeQuestion) -> Judgement:
    body = {"max_tokens": options.max_tokens, "temperature": options.temperature, "seed": options.seed}
    parameters = {name: value for name, value in body.items() if value is not None}
    return endpoint.ask(question.prompt, parameters, question.occasion())


TASK = ReaErr()
