"""The task: expected scores of a judge's samples in each record, or requested from a judge."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from ...errors import InvalidRequest, Issue
from ..task import Advance, Evaluation, Failure, Metric, Options, Record, Records, Task, mean_of
from .endpoint import Endpoint, JudgeFault, Judgement
from .scores import expected_by_logprobs, expected_by_samples, geval_mean

__all__ = ["CRITERIA", "TASK", "prompt_of"]

NO_SCORE = "no_score"
NOT_JUDGED = "not_judged"
JUDGE_FAULT = "judge_fault"
FAILURES = {
    NO_SCORE: "No sample of the judge states a whole number from 1 to 5.",
    NOT_JUDGED: "The record has no samples of a judge, and there is no judge to ask or nothing to ask it about.",
    JUDGE_FAULT: "The judge did not answer, or not with a chat completion.",
}
MAX_LOGPROBS = 20
CRITERIA = {
    "Coherence": "the steps follow from one another and the whole reads as one procedure",
    "Consistency": "every statement agrees with the true protocol; nothing contradicts it",
    "Fluency": "the language is grammatical, clear, and that of laboratory work",
    "Relevance": "the steps serve the protocol's purpose, without anything beside the point",
    "Precision": "amounts, times, temperatures and other parameters are given and right",
    "Coverage": "every step and material of the true protocol is there",
}
"""ProtoMed-LLM's six criteria, paraphrased."""

FORM = """\
Below are the true protocol of a laboratory procedure and one that a model has written. Rate the written protocol.

Criterion: {criterion}{meaning}

Give one whole number from 1 (worst) to 5 (best) by filling in the form at the end, and nothing else.

True protocol:
{reference}

Written protocol:
{response}

Form (the number only):
- {criterion}:"""


class LlamEvalRecord(Record):
    """What a judge has said of a protocol, or a protocol to be judged."""

    criterion: str | None = Field(
        None, description="What the samples judge; without it the judge is asked for all six."
    )
    responses: list[str] | None = Field(None, description="Samples of the judge's reply.")
    score_token_logprobs: dict[str, float] | None = Field(
        None, description="Log-probabilities of the judge's first token, by its text."
    )
    prompt: str | None = Field(None, description="What to ask the judge, instead of Assay's prompt.")
    reference: str | None = Field(None, description="The true protocol.")
    generated_response: str | None = Field(None, description="The protocol to be judged.")


class LlamEvalOptions(Options):
    """What Llam-Eval may be asked."""

    method: Literal["samples", "logprobs"] = Field(
        "samples",
        description="Where p(s) is from: the share of a score among the samples, or the judge's log-probabilities.",
    )
    parser: Literal["form", "geval"] = Field(
        "form", description="Whether `- Criterion:` may stand before the score, or a sample must begin with it."
    )
    base_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s@]+$",
        description="The judge: an OpenAI-compatible address up to /v1. Its key is the environment's ASSAY_JUDGE_KEY.",
        json_schema_extra={"local": True},
    )
    model: str = Field("default", description="The judge's model.", json_schema_extra={"local": True})
    samples: int = Field(20, ge=1, le=128, description="Samples for each criterion, as G-Eval takes.")
    rounds: int = Field(5, ge=1, le=10, description="Requests at most for the samples of one criterion.")
    temperature: float = Field(1.0, ge=0, le=2)
    seed: int | None = Field(None, description="Passed on to the judge.")
    max_tokens: int = Field(16, ge=1, le=4096)
    concurrency: int = Field(
        8, ge=1, le=64, description="Requests at the same time.", json_schema_extra={"local": True}
    )
    timeout: float = Field(
        60.0, gt=0, le=600, description="Seconds for one request.", json_schema_extra={"local": True}
    )
    retries: int = Field(3, ge=0, le=10, description="Further tries after a fault.", json_schema_extra={"local": True})


class Question(NamedTuple):
    """One prompt about one record."""

    row: int
    criterion: str
    prompt: str


def slug(criterion: str) -> str:
    return criterion.strip().lower()


class LlamEval(Task):
    """A judge's expected scores."""

    name = "llam_eval"
    description = "Llam-Eval of ProtoMed-LLM: a judge's expected score from 1 to 5, Σ s · p(s), for each criterion."
    record = LlamEvalRecord
    options = LlamEvalOptions
    metrics = (
        Metric("score", "Score", "Expected score of the record; with several criteria their mean.", True, 1.0, 5.0),
        Metric("average", "Average", "Mean of the criteria's means, as the paper's tables have it.", False, 1.0, 5.0),
        *(Metric(slug(name), name, f"Expected score where {text}.", True, 1.0, 5.0) for name, text in CRITERIA.items()),
        Metric("valid_samples", "Valid", "Share of the judge's samples that state a score.", percent=True),
        Metric("score_geval", "G-Eval", "G-Eval's mean: any number counts, and 0 where there is none.", high=None),
        Metric(
            "score_logprobs", "Σ s·p", "Σ s · p(s) by log-probabilities normalized over the scores.", True, 1.0, 5.0
        ),
        Metric(
            "score_logprobs_raw",
            "Σ s·p raw",
            "Σ s · p(s) by log-probabilities that are not normalized.",
            True,
            0.0,
            5.0,
        ),
        Metric("logprobs_mass", "Mass", "Probability that the first token is a score."),
    )
    failures = FAILURES

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        tallies = [Tally() for _ in records]
        questions: list[Question] = []
        for row, record in enumerate(records):
            if judged(record):
                judgement = Judgement(record.get("responses") or [], record.get("score_token_logprobs"))
                tallies[row].add(record.get("criterion") or "", judgement, options)
            elif options.base_url is not None:
                questions += questions_of(row, record)
        for question, answer in answers(questions, options, advance):
            if isinstance(answer, JudgeFault):
                tallies[question.row].reason = JUDGE_FAULT
            else:
                tallies[question.row].add(question.criterion, answer, options)
        columns = {
            metric.name: np.array([tally.mean(metric.name) for tally in tallies])
            for metric in self.metrics
            if metric.per_record
        }
        advance(len(records))
        failed = [Failure(row, tally.reason) for row, tally in enumerate(tallies) if tally.reason is not None]
        of_criteria = [columns[slug(name)] for name in CRITERIA]
        by_any = np.where(np.isnan(of_criteria).all(axis=0), np.nan, 1.0)
        return Evaluation(columns, failed, lambda rows: {"average": average(columns, rows)}, {"average": [by_any]})


class Tally:
    """Values of the judgements of one record, by metric; each metric is the mean over the criteria."""

    def __init__(self) -> None:
        self.values: defaultdict[str, list[float]] = defaultdict(list)
        self.reason: str | None = NOT_JUDGED

    def add(self, criterion: str, judgement: Judgement, options: LlamEvalOptions) -> None:
        texts, logprobs = judgement
        found: dict[str, float | None] = {}
        by_samples, valid = expected_by_samples(texts, criterion if options.parser == "form" else "")
        if texts:
            found |= {"valid_samples": valid / len(texts), "score_geval": geval_mean(texts)}
        if logprobs is not None:
            names = ("score_logprobs", "score_logprobs_raw", "logprobs_mass")
            found |= zip(names, expected_by_logprobs(logprobs), strict=True)
        score = found["score"] = by_samples if options.method == "samples" else found.get("score_logprobs")
        if criterion.strip().capitalize() in CRITERIA:
            found[slug(criterion)] = score
        for name, value in found.items():
            if value is not None:
                self.values[name].append(value)
        self.reason = (None if self.reason == NOT_JUDGED else self.reason) if score is not None else NO_SCORE

    def mean(self, metric: str) -> float:
        found = self.values[metric]
        return math.fsum(found) / len(found) if found else math.nan


def judged(record: Mapping[str, Any]) -> bool:
    """Return whether the record has a judge's samples or log-probabilities."""
    return record.get("responses") is not None or record.get("score_token_logprobs") is not None


def questions_of(row: int, record: Mapping[str, Any]) -> Iterator[Question]:
    """Yield what to ask about a record."""
    prompt, reference, response = (record.get(name) for name in ("prompt", "reference", "generated_response"))
    if prompt is not None:
        yield Question(row, record.get("criterion") or "", prompt)
    elif reference is not None and response is not None:
        for criterion in [record["criterion"]] if record.get("criterion") else CRITERIA:
            yield Question(row, criterion, prompt_of(criterion, reference, response))


def prompt_of(criterion: str, reference: str, response: str) -> str:
    meaning = CRITERIA.get(criterion)
    return FORM.format(
        criterion=criterion, meaning=f": {meaning}." if meaning else "", reference=reference, response=response
    )


def average(columns: Mapping[str, np.ndarray], rows: np.ndarray) -> float | None:
    """Return the mean of the means of the criteria that have values."""
    means = [mean for name in CRITERIA if (mean := mean_of(columns[slug(name)][rows])) is not None]
    return math.fsum(means) / len(means) if means else None


def answers(
    questions: Sequence[Question], options: LlamEvalOptions, advance: Advance
) -> Iterator[tuple[Question, Judgement | JudgeFault]]:
    """Ask all questions concurrently, after the first one, which raises InvalidRequest if the judge does not reply."""
    key = os.environ.get("ASSAY_JUDGE_KEY")
    endpoint = Endpoint(str(options.base_url), options.model, key, options.timeout, options.retries)
    waiting = iter(questions)
    for first in islice(waiting, 1):
        answer = asked(endpoint, first, options)
        if isinstance(answer, JudgeFault):
            raise InvalidRequest([Issue("options.base_url", JUDGE_FAULT, f"the judge does not answer: {answer}")])
        yield first, answer
    with ThreadPoolExecutor(options.concurrency, thread_name_prefix="assay-judge") as pool:
        running: dict[Future[Judgement | JudgeFault], Question] = {}
        try:
            while True:
                for question in islice(waiting, 2 * options.concurrency - len(running)):
                    running[pool.submit(asked, endpoint, question, options)] = question
                if not running:
                    break
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    question = running.pop(done)
                    yield question, done.result()
                    advance(question.row)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def asked(endpoint: Endpoint, question: Question, options: LlamEvalOptions) -> Judgement | JudgeFault:
    """Request enough samples for one question, and more while none states a score, in `rounds` requests at most.

    A fault is returned, not raised.
    """
    by_logprobs = options.method == "logprobs"
    wanted = 1 if by_logprobs else options.samples
    texts: list[str] = []
    logprobs = None
    for round_ in range(options.rounds):
        short = wanted - len(texts) % wanted
        body: dict[str, Any] = {"n": short, "temperature": options.temperature, "max_tokens": options.max_tokens}
        if options.seed is not None:
            body["seed"] = options.seed + round_
        if by_logprobs:
            body |= {"logprobs": True, "top_logprobs": MAX_LOGPROBS}
        try:
            reply = endpoint.ask(question.prompt, body)
        except JudgeFault as fault:
            return fault
        logprobs = logprobs or reply.logprobs
        texts += reply.texts[:short]
        enough = texts and len(texts) % wanted == 0
        if enough and (by_logprobs or stated_by_any(texts, question.criterion, options)):
            break
    return Judgement(texts, logprobs)


def stated_by_any(texts: Sequence[str], criterion: str, options: LlamEvalOptions) -> bool:
    return expected_by_samples(texts, criterion if options.parser == "form" else "")[1] > 0


TASK = LlamEval()
