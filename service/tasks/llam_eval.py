"""Llam-Eval: a judge's scores of six criteria."""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field

from .judges import FAULT, JUDGE_FAULT, Endpoint, JudgeFault, Judgement, JudgeOptions, JudgeQuestion, answers
from .llam_eval_prompts import CRITERIA, prompt_of
from .task import Advance, Evaluation, Metric, Notice, RecordFailure, Records, Task, TaskRecord, mean_of

SCORES = range(1, 6)
NUMBER = re.compile(r"^ ?([\d.]{1,400})(?![\d.])")
"""G-Eval's pattern, at the beginning of a text; longer numbers are ignored."""


def geval_score(text: str) -> float:
    """Return the number at the beginning of the text, as G-Eval's parser reads it; 0 if missing."""
    match = NUMBER.match(text)
    try:
        return float(match[1]) if match else 0.0
    except ValueError:  # 1.2.3
        return 0.0


def without_criterion(text: str, criterion: str) -> str:
    remainder = text.lstrip().removeprefix("-").lstrip()
    if not criterion or not remainder.lower().startswith(criterion.lower()):
        return text
    remainder = remainder[len(criterion) :].lstrip()
    return remainder[1:].lstrip() if remainder.startswith(":") else text


def stated_score(text: str, criterion: str = "") -> int | None:
    """Return the score from 1 to 5 that a text states, perhaps as `- Coherence: 4`; None for anything else."""
    score = geval_score(without_criterion(text, criterion))
    return int(score) if score in SCORES else None


def expected_by_samples(texts: Sequence[str], criterion: str = "") -> tuple[float | None, int]:
    """Return Σ s · p(s), with p the frequency among the samples that state a score, or None; and how many do."""
    scores = [score for text in texts if (score := stated_score(text, criterion)) is not None]
    return (sum(scores) / len(scores) if scores else None), len(scores)


def geval_mean(texts: Sequence[str]) -> float:
    return math.fsum(map(geval_score, texts)) / len(texts)


def expected_by_logprobs(logprobs: Mapping[str, float]) -> tuple[float | None, float, float]:
    """Return Σ s · p(s) with p normalized over the five scores, or None, the same not normalized, and Σ p."""
    p = dict.fromkeys(SCORES, 0.0)
    for token, value in logprobs.items():
        if token.strip() in ("1", "2", "3", "4", "5"):
            p[int(token.strip())] += math.exp(min(value, 0.0))
    mass = math.fsum(p.values())
    expected = math.fsum(score * share for score, share in p.items())
    return (expected / mass if mass > 0 else None), expected, mass


NO_SCORE = "no_score"
NOT_JUDGED = "not_judged"


def slug(criterion: str) -> str:
    return criterion.strip().lower()


class CriterionTally:
    def __init__(self) -> None:
        self.values: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        self.reason: str | None = NOT_JUDGED

    def add(self, judgement: Judgement, criterion: str, run: int, by_logprobs: bool, form: bool) -> None:
        texts, logprobs = judgement
        values: dict[str, float | None] = {}
        by_samples, valid = expected_by_samples(texts, criterion if form else "")
        if texts:
            values |= {"valid_samples": valid / len(texts), "score_geval": geval_mean(texts)}
        if logprobs is not None:
            names = ("score_logprobs", "score_logprobs_raw", "logprobs_mass")
            values |= zip(names, expected_by_logprobs(logprobs), strict=True)
        score = values["score"] = values.get("score_logprobs") if by_logprobs else by_samples
        if criterion.strip().capitalize() in CRITERIA:
            values[slug(criterion)] = score
        for name, value in values.items():
            if value is not None:
                self.values[name, run].append(value)
        self.reason = (None if self.reason == NOT_JUDGED else self.reason) if score is not None else NO_SCORE

    def mean(self, metric: str, run: int) -> float:
        numbers = self.values[metric, run]
        return math.fsum(numbers) / len(numbers) if numbers else math.nan


def average(columns: Mapping[str, np.ndarray], rows: np.ndarray) -> float | None:
    means = [mean for name in CRITERIA if (mean := mean_of(columns[slug(name)][rows])) is not None]
    return math.fsum(means) / len(means) if means else None


def deviation(values: Iterable[float | None]) -> float | None:
    present = [float(value) for value in values if value is not None and not math.isnan(value)]
    return statistics.stdev(present) if len(present) > 1 else None


def over_runs(runs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    means = [mean_of(values) for values in np.array(runs).T]
    spreads = [deviation(values.tolist()) for values in np.array(runs).T]
    return np.array(means, float), np.array(spreads, float)


FAILURES = {
    NO_SCORE: "No sample of the judge states a whole number from 1 to 5.",
    NOT_JUDGED: "The record has no samples of a judge, and there is no judge to ask or nothing to ask it about.",
    **FAULT,
}
ONE_RUN = Notice("A standard deviation over runs needs several; the option `runs` sets how many.")
MAX_LOGPROBS = 20

METRICS = (
    *(Metric(slug(name), name, f"Expected score for {it.meaning}.", True, 1.0, 5.0) for name, it in CRITERIA.items()),
    Metric("average", "Average", "Mean of the criteria's means, as in the paper's tables.", False, 1.0, 5.0),
    Metric("score", "Score", "Expected score of the record; with several criteria their mean.", True, 1.0, 5.0),
)
OF_RECORDS = tuple(metric for metric in METRICS if metric.per_record)
SINGLE = tuple(
    Metric(
        f"{metric.name}_std_single",
        f"{metric.title} SD",
        f"Standard deviation of single scores, of each record in each run: the paper's ± of {metric.title}.",
        False,
        high=None,
        less_is_better=True,
    )
    for metric in OF_RECORDS
)
DEVIATIONS = tuple(
    Metric(
        f"{metric.name}_std",
        f"{metric.title} SD (runs)",
        f"Standard deviation of {metric.title} over the runs, if there are several (`runs`).",
        metric.per_record,
        high=None,
        less_is_better=True,
    )
    for metric in METRICS
)


class LlamEvalRecord(TaskRecord):
    """The judgement of a protocol, or a protocol to be judged."""

    criterion: str | None = Field(
        None, description="The criterion that the samples judge; without it, the judge is asked about all six."
    )
    responses: list[str] | None = Field(None, description="Samples of the judge's reply.")
    score_token_logprobs: dict[str, float] | None = Field(
        None, description="Log-probabilities of the judge's first token, by its text."
    )
    prompt: str | None = Field(None, description="What to ask the judge, instead of a prompt of Assay's.")
    reference: str | None = Field(None, description="The protocol to compare with: in the paper, GPT-4's pseudocode.")
    protocol: str | None = Field(None, description="The original protocol, for `baseline = protocol`.")
    generated_response: str | None = Field(None, description="The protocol to be judged.")


class LlamEvalOptions(JudgeOptions):
    """Options of Llam-Eval."""

    prompt: Literal["paper", "assay"] = Field(
        "paper",
        description="The judge's prompt: with the paper's parts and meaning of the criteria, or Assay's shorter one.",
    )
    baseline: Literal["reference", "protocol"] = Field(
        "reference", description="The field that the response is compared with: one of the paper's two baselines."
    )
    method: Literal["samples", "logprobs"] = Field(
        "samples",
        description="Source of p(s): the share of a score among the samples, or the judge's log-probabilities.",
    )
    parser: Literal["form", "geval"] = Field(
        "form", description="Whether `- Criterion:` may precede the score, or a sample must begin with the score."
    )
    samples: int = Field(20, ge=1, le=128, description="Number of samples for each criterion, as in G-Eval.")
    rounds: int = Field(5, ge=1, le=10, description="Maximum number of requests for the samples of one criterion.")
    runs: int = Field(1, ge=1, le=100, description="How often everything is asked, for means and deviations over runs.")
    temperature: float | None = Field(1.0, ge=0, le=2, description="Passed on to the judge.")
    max_tokens: int = Field(16, ge=1, le=65536, description="Maximum number of tokens in a reply.")


class LlamEval(Task):
    name = "llam_eval"
    description = "Llam-Eval of ProtoMed-LLM: a judge's expected score from 1 to 5, Σ s · p(s), for each criterion."
    record = LlamEvalRecord
    options = LlamEvalOptions
    metrics = (
        *METRICS,
        *SINGLE,
        *DEVIATIONS,
        Metric("valid_samples", "Valid", "Share of the judge's samples that state a score.", percent=True),
        Metric("score_geval", "G-Eval", "G-Eval's mean: any number counts, and 0 where there is none.", high=None),
        Metric(
            "score_logprobs", "Σ s·p", "Σ s · p(s) by log-probabilities normalized over the scores.", True, 1.0, 5.0
        ),
        Metric("score_logprobs_raw", "Σ s·p raw", "Σ s · p(s) by log-probabilities that are not normalized.", high=5.0),
        Metric("logprobs_mass", "Mass", "Probability that the first token is a score."),
    )
    failures = FAILURES
    judge_metrics = ("score", *map(slug, CRITERIA))

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        tallies = [CriterionTally() for _ in records]
        modes = {"by_logprobs": options.method == "logprobs", "form": options.parser == "form"}
        to_ask = []
        for row, record in enumerate(records):
            if judged(record):
                judgement = Judgement(record.get("responses") or [], record.get("score_token_logprobs"))
                tallies[row].add(judgement, record.get("criterion") or "", 0, **modes)
            elif options.has_judge:
                to_ask.append(row)
        questions = (question for row in to_ask for question in questions_of(row, records[row], options))
        for question, answer in answers(questions, options, partial(sampled, options), advance):
            if isinstance(answer, JudgeFault):
                tallies[question.row].reason = JUDGE_FAULT
            else:
                tallies[question.row].add(answer, question.criterion, question.run, **modes)
        advance(len(records))
        failed = [RecordFailure(row, tally.reason) for row, tally in enumerate(tallies) if tally.reason is not None]
        evaluation = self.summary(tallies, options.runs, failed)
        if options.runs == 1:
            named = [metric.name for metric in DEVIATIONS if metric.name in (options.metrics or ())]
            evaluation.unavailable |= dict.fromkeys(named, ONE_RUN)
        if any(metric.name == "average" for metric in self.requested(options)):
            evaluation.warnings.extend(incomplete(evaluation))
        return evaluation

    def summary(self, tallies: list[CriterionTally], n_runs: int, failed: list[RecordFailure]) -> Evaluation:
        deviated = [metric.name for metric in OF_RECORDS]
        measured = [metric.name for metric in self.metrics if metric.per_record and metric not in DEVIATIONS]
        runs = [
            {name: np.array([tally.mean(name, run) for tally in tallies]) for name in measured} for run in range(n_runs)
        ]
        columns, spreads = runs[0], {}
        if n_runs > 1:
            both = {name: over_runs([run[name] for run in runs]) for name in measured}
            columns = {name: means for name, (means, _) in both.items()}
            spreads = {f"{name}_std": both[name][1] for name in deviated}

        def corpus(rows: np.ndarray) -> dict[str, float | None]:
            values = {"average": average(columns, rows)}
            values |= {
                f"{name}_std_single": deviation(np.concatenate([run[name][rows] for run in runs])) for name in deviated
            }
            if n_runs > 1:
                values |= {f"{name}_std": deviation(mean_of(run[name][rows]) for run in runs) for name in deviated}
                values["average_std"] = deviation(average(run, rows) for run in runs)
            return values

        of_criteria = [columns[slug(name)] for name in CRITERIA]
        by_any = np.where(np.isnan(of_criteria).all(axis=0), np.nan, 1.0)
        over = {"average": [by_any], **{f"{name}_std_single": [columns[name]] for name in deviated}}
        return Evaluation(columns | spreads, failed, corpus, over)


def incomplete(evaluation: Evaluation) -> Iterator[Notice]:
    without = [name for name in CRITERIA if np.isnan(evaluation.columns[slug(name)]).all()]
    if 0 < len(without) < len(CRITERIA):
        counted = f"Average is the mean of {len(CRITERIA) - len(without)} criteria"
        yield Notice(f"{counted}: no score for {', '.join(without)}.")


def judged(record: Mapping[str, Any]) -> bool:
    return record.get("responses") is not None or record.get("score_token_logprobs") is not None


def questions_of(row: int, record: Mapping[str, Any], options: LlamEvalOptions) -> Iterator[JudgeQuestion]:
    prompt_template, criterion = record.get("prompt"), record.get("criterion")
    source, response = record.get(options.baseline), record.get("generated_response")
    prompts = {}
    if prompt_template is not None:
        prompts[criterion or ""] = prompt_template
    elif source is not None and response is not None:
        for name in [criterion] if criterion else CRITERIA:
            prompts[name] = prompt_of(name, source, response, options.prompt, options.baseline)
    for run in range(options.runs):
        for name, prompt in prompts.items():
            yield JudgeQuestion(row, prompt, name, run)


def sampled(options: LlamEvalOptions, endpoint: Endpoint, question: JudgeQuestion) -> Judgement:
    """Request enough samples for one question, and more while none states a score, in `rounds` requests at most."""
    by_logprobs = options.method == "logprobs"
    needed = 1 if by_logprobs else options.samples
    texts: list[str] = []
    logprobs = None
    for round_ in range(options.rounds):
        short = needed - len(texts) % needed
        body: dict[str, Any] = {"n": short, "max_tokens": options.max_tokens}
        if options.temperature is not None:
            body["temperature"] = options.temperature
        if options.seed is not None:
            body["seed"] = options.seed + question.run * options.rounds + round_
        if by_logprobs:
            body |= {"logprobs": True, "top_logprobs": MAX_LOGPROBS}
        reply = endpoint.ask(question.prompt, body, question.occasion(round_))
        logprobs = logprobs or reply.logprobs
        texts += reply.texts[:short]
        enough = texts and len(texts) % needed == 0
        if enough and (
            by_logprobs or expected_by_samples(texts, question.criterion if options.parser == "form" else "")[1]
        ):
            break
    return Judgement(texts, logprobs)


TASK = LlamEval()
