"""Protocol generation: how near a generated protocol comes to the true one, in words, keywords and steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ..task import (
    LOCAL,
    Advance,
    Evaluation,
    Metric,
    Notice,
    OptionalDependencies,
    RecordFailure,
    Records,
    Task,
    TaskRecord,
)
from ..text.embedders import Embedder, EmbedderOption, embedded, embedder_of
from ..text.text_pairs import (
    EPSILON,
    LIBRARIES,
    METEOR_METRIC,
    ROUGE_METRICS,
    TOO_LONG,
    KeywordOptions,
    TextPair,
    TextPairs,
    comparable,
    keyword_warnings,
)
from ..text.text_pairs import FAILURES as PAIR_FAILURES
from ..text.tokens import NltkRules, precision_and_recall
from .answers import EVALUATOR, FAILURES, NOT_TEXT, EvaluatorOptions, answer_in, generated_text, last_block

STEP = ("step_recall", "step_precision")
DELTA = 0.7
MAX_SWEEP = 32
CELLS = 1 << 22  # cosines computed at once, to limit memory
LIST_NOT_TEXT = "list_not_text"
UNREAD = {
    NOT_TEXT: FAILURES[NOT_TEXT],
    **PAIR_FAILURES,
    LIST_NOT_TEXT: "The response is a list with other elements than text (only with `profile = bioprobench-2`).",
}
WORD = re.compile(r"\w+")
CORE = ("exact_match", "token_precision", "token_recall", "token_f1")


class GenRecord(TaskRecord):
    """One protocol of BioProBench's GEN with a model's response."""

    output: str | list[str] = Field(description="The true protocol: its steps, or a text, which has no step metrics.")
    generated_response: Any = Field(
        description="The model's response; anything but text counts as failed. Profile bioprobench-2 also takes a list "
        "of steps."
    )


class GenOptions(EvaluatorOptions, KeywordOptions):
    """Options of GEN."""

    nltk: NltkRules = Field(
        "3.9",
        description="Rules for splitting words: NLTK 3.9 (as in 3.8 and in published values) or 3.10, "
        "whichever version is installed.",
    )
    embedder: EmbedderOption = Field(
        None,
        description="For step recall and precision: `hashed_words` needs no weights but is not comparable with "
        "published values; in Python, any function of texts to vectors.",
    )
    embedding_model: str | None = Field(
        None,
        description="For step recall and precision: a model of Sentence Transformers by name or folder; published: "
        "all-mpnet-base-v2.",
        json_schema_extra=LOCAL,
    )
    delta: float = Field(
        DELTA, ge=0, le=1, description="For step recall and precision: the cosine from which two steps match."
    )
    delta_sweep: list[Annotated[float, Field(ge=0, le=1)]] = Field(
        default_factory=list,
        max_length=MAX_SWEEP,
        description="Further values of `delta`, each with columns such as `step_recall@0.5`: they show how much the "
        "two metrics depend on it.",
    )
    empty_step_precision: Literal["one", "zero"] = Field(
        "one", description="Step precision if nothing was generated: 1, as in the public script, or 0."
    )


class Gen(Task):
    name = "bioprobench.gen"
    description = "BioProBench, protocol generation (REA-GEN too): words, keywords and steps shared with the truth."
    record = GenRecord
    options = GenOptions
    metrics = (
        Metric("bleu", "BLEU", "Sentence BLEU-2 with smoothing method 1 over NLTK's words.", percent=True),
        METEOR_METRIC,
        *ROUGE_METRICS,
        Metric("keyword_precision", "KW P", "Share of the response's 64 best keywords that are among the truth's."),
        Metric("keyword_recall", "KW R", "Share of the truth's 64 best keywords that are among the response's."),
        Metric("keyword_f1", "KW F1", "Harmonic mean of keyword precision and recall."),
        Metric("step_recall", "SR", "Share of true steps that a generated step matches (equation 1)."),
        Metric("step_precision", "SP", "Share of generated steps that match a true step (equation 2)."),
        Metric("failed", "Failed", "Share of records without a response.", percent=True, less_is_better=True),
        *(
            Metric(name, title, text, percent=True, profiles=(EVALUATOR,))
            for name, title, text in (
                ("exact_match", "EM", "Share of responses whose trimmed text equals the truth's."),
                ("token_precision", "Token P", "Share of the response's words that the truth has, each as often."),
                ("token_recall", "Token R", "Share of the truth's words that the response has, each as often."),
                ("token_f1", "Token F1", "Harmonic mean of token precision and recall."),
            )
        ),
    )
    failures = UNREAD
    libraries: ClassVar[Mapping[str, tuple[str, ...]]] = LIBRARIES | {"bleu": ("nltk",)}

    def offered(self, options: Any) -> tuple[Metric, ...]:
        """Return the metrics that the profile has; of the evaluator's, those without models are the usual ones."""
        metrics = super().offered(options)
        if options.profile != EVALUATOR:
            return metrics
        return tuple([replace(metric, default=metric.name in (*CORE, "failed")) for metric in metrics])

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        columns = {metric.name: np.full(len(records), np.nan) for metric in self.metrics}
        by_evaluator = options.profile == EVALUATOR
        sides = list(map(texts_by_evaluator if by_evaluator else texts_by_script, records))
        pairs, failed = comparable(sides, NOT_TEXT)
        if by_evaluator:
            fill_core(columns, sides, advance)
            failed = [failure._replace(reason=reason_of(failure, records)) for failure in failed]
        else:
            pairs = [pair._replace(generated=generated_text(pair.generated)) for pair in pairs]
        columns["failed"][:] = 0.0
        columns["failed"][[failure.record for failure in failed if failure.reason in (NOT_TEXT, LIST_NOT_TEXT)]] = 1.0
        dependencies = OptionalDependencies(self, options)
        if by_evaluator and dependencies.requested <= {*CORE, "failed"}:  # which have no limit of length
            failed = [failure for failure in failed if failure.reason != TOO_LONG]
        texts = TextPairs(pairs, columns, dependencies, advance)
        texts.fill_nltk(options.nltk)
        texts.fill_rouge()
        failed += texts.fill_keywords(options, 0.0 if by_evaluator else EPSILON)
        warnings = keyword_warnings(failed, len(records))
        load = partial(embedder_of, options, "Step recall and precision need", "all-mpnet-base-v2")
        embedder = dependencies.load(load, *STEP)
        if embedder is not None:
            columns |= step_columns(records, pairs, embedder, options, advance)
            warnings += empty_responses(pairs, options) if dependencies.wants("step_precision") else []
        advance(len(records))
        return Evaluation(columns, sorted(failed), unavailable=dependencies.unavailable, warnings=warnings)


def texts_by_script(record: Mapping[str, Any]) -> tuple[str, str | None]:
    output, response = record["output"], record["generated_response"]
    return output if isinstance(output, str) else " ".join(output), response if isinstance(response, str) else None


def texts_by_evaluator(record: Mapping[str, Any]) -> tuple[str, str | None]:
    output, response = record["output"], record["generated_response"]
    reference = output if isinstance(output, str) else "\n".join(output)
    if isinstance(response, str):
        text = answer_in(response).rpartition("</Structure>")[2].strip()
        block = last_block(text)
        return reference, text if block is None else block
    is_steps = isinstance(response, list) and all(isinstance(step, str) for step in response)
    return reference, "\n".join(response) if is_steps else None


def fill_core(columns: Mapping[str, np.ndarray], sides: Iterable[tuple[str, str | None]], advance: Advance) -> None:
    reference_words = cache(words_of)  # many responses share a reference
    for row, (reference, generated) in enumerate(sides):
        if generated is not None:
            overlaps = token_overlap(reference_words(reference), words_of(generated))
            for name, value in zip(CORE, (float(generated.strip() == reference.strip()), *overlaps), strict=True):
                columns[name][row] = value
            advance(row)


def reason_of(failure: RecordFailure, records: Records) -> str:
    is_list = failure.reason == NOT_TEXT and isinstance(records[failure.record]["generated_response"], list)
    return LIST_NOT_TEXT if is_list else failure.reason


def words_of(text: str) -> Counter[str]:
    return Counter(word[0] for word in WORD.finditer(text.lower()))


def token_overlap(reference: Counter[str], generated: Counter[str]) -> tuple[float, float, float]:
    """Return precision, recall and F1 of multisets of words."""
    if not reference or not generated:
        return (float(reference == generated),) * 3
    return precision_and_recall((reference & generated).total(), generated.total(), reference.total())


def step_columns(
    records: Records, pairs: Sequence[TextPair], embedder: Embedder, options: GenOptions, advance: Advance
) -> dict[str, np.ndarray]:
    of_nothing = float(options.empty_step_precision == "one")
    steps = {pair.row: (records[pair.row]["output"], steps_of(records[pair.row], pair, options)) for pair in pairs}
    steps = {row: sides for row, sides in steps.items() if isinstance(sides[0], list)}
    vectors = embedded(
        embedder, [step for sides in steps.values() for side in sides for step in side], "options.embedder"
    )
    deltas = [options.delta, *options.delta_sweep]
    shares = np.full((len(STEP), len(deltas), len(records)), np.nan)
    for row, (reference, generated) in steps.items():
        advance(row)
        near_reference, near_generated = matched(reference, generated, vectors, deltas)
        shares[0, :, row] = near_reference / len(reference) if reference else 1.0
        shares[1, :, row] = near_generated / len(generated) if generated else of_nothing
    columns = dict(zip(STEP, shares[:, 0], strict=True))
    for k, delta in enumerate(options.delta_sweep, start=1):
        columns |= {f"{name}@{delta}": share for name, share in zip(STEP, shares[:, k], strict=True)}
    return columns


def steps_of(record: Mapping[str, Any], pair: TextPair, options: GenOptions) -> list[str]:
    if options.profile != EVALUATOR:
        return generated_steps(pair.generated)
    response = record["generated_response"]
    lines = response if isinstance(response, list) else pair.generated.splitlines()
    return [line.strip() for line in lines if line.strip()]


def generated_steps(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def matched(
    reference: Sequence[str], generated: Sequence[str], vectors: Mapping[str, np.ndarray], deltas: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Count the reference and the generated steps with a cosine of at least delta to the other side, int64."""
    if not reference or not generated:
        return np.zeros(len(deltas), np.int64), np.zeros(len(deltas), np.int64)
    theirs = np.array([vectors[step] for step in generated])
    nearest, nearest_generated = np.empty(len(reference)), np.full(len(generated), -np.inf)
    rows = max(1, CELLS // len(generated))
    for begin in range(0, len(reference), rows):
        cosines = np.array([vectors[step] for step in reference[begin : begin + rows]]) @ theirs.T
        nearest[begin : begin + rows] = cosines.max(axis=1)
        np.maximum(nearest_generated, cosines.max(axis=0), out=nearest_generated)
    least = np.array(deltas)[:, None]
    return (nearest >= least).sum(axis=1), (nearest_generated >= least).sum(axis=1)


def empty_responses(pairs: Sequence[TextPair], options: GenOptions) -> list[Notice]:
    empty = sum(not generated_steps(pair.generated) for pair in pairs)
    if not empty or options.empty_step_precision != "one":
        return []
    has = "response is empty and has" if empty == 1 else "responses are empty and have"
    rule = "as in the public script; empty_step_precision=zero makes it 0."
    return [Notice(f"{empty:,} {has} step precision 1, {rule}")]


TASK = Gen()
