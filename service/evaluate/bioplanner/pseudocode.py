"""The task: predicted pseudocode beside the true one, its metrics and its reward."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ....kernels.similarity.levenshtein import levenshtein_distances
from ..optional_dependencies import OptionalDependencies
from ..python_source import Unreadable
from ..task import (
    COMMON_REASONS,
    LOCAL,
    OK,
    Advance,
    Evaluation,
    Failure,
    Metric,
    Options,
    Record,
    Records,
    Rewards,
    Task,
    reporting,
)
from ..text.embedders import Embedder, EmbedderOption, cls_model, embedded, embedder_of
from ..text.sequences import compare_sequences
from .calls import Program
from .reading import ProgramReading, mean, read, read_order

__all__ = ["TASK"]

BEYOND = (
    "more than 262,144 characters, 131,072 words and signs, 50 levels of brackets or 100 combining marks in a row; "
    "with f-strings, more than 2,000 opening braces; with imports, a dotted name of more than 100 names"
)
FAILURES = {
    "syntax_error": "The text, or a definition in it, is not Python.",
    "too_large": f"The text has {BEYOND}; or its calls have arguments that are too deep or too long to be written out.",
    "attribute_call": "The text calls something that is not a plain name, which the script cannot read.",
    "too_many_functions": "More than 51 functions are defined: the script has no letters for more.",
}
PUBLISHED_MODEL = "allenai/scibert_scivocab_uncased"
NO_CALLS = "no_calls"
REASONS = {
    OK: "The program was read.",
    "syntax_error": "The program is not Python.",
    "too_large": f"The program has {BEYOND}.",
    NO_CALLS: "The program calls nothing.",
    **COMMON_REASONS,
}


class PseudocodeRecord(Record):
    """One protocol as pseudocode, true and predicted, in the form that BioPlanner's script evaluates."""

    ground_truth: str = Field(description="The true program, with the definitions of its functions.")
    prediction_code: str = Field(description="The predicted program.")
    prediction_functions: str = Field("", description="Definitions of the functions that it may call.")


class PseudocodeOptions(Options):
    """Options of BioPlanner's metrics."""

    mode: Literal["upstream", "fixed"] = Field(
        "upstream",
        description="`upstream` computes what the public script does; `fixed` reads programs by Python's grammar: "
        "calls in the order of the text without those in definitions, each counted, prediction against truth.",
    )
    embedder: EmbedderOption = Field(
        None,
        description="For scibert_score: `hashed_words` needs no weights but is not comparable with published values; "
        "in Python, any function of texts to vectors.",
    )
    embedding_model: str | None = Field(
        None,
        description="For scibert_score: a model of Transformers whose first vector counts, by name or folder; "
        "published: allenai/scibert_scivocab_uncased.",
        json_schema_extra=LOCAL,
    )
    reward: Literal["order", "function_f1"] = Field(
        "order",
        description="Rewards, from 0 to 1: 1 - levenshtein_normalized, or the harmonic mean of the precision and "
        "recall of called functions; both by Python's grammar.",
    )


class Pseudocode(Task):
    name = "bioplanner"
    description = "BioPlanner and ProtoMed-LLM: functions, arguments and order of the calls of protocols as pseudocode."
    record = PseudocodeRecord
    options = PseudocodeOptions
    metrics = (
        Metric("function_precision", "Func P", "Share of the predicted functions that the true program calls."),
        Metric("function_recall", "Func R", "Share of the true program's functions that are predicted."),
        Metric("argument_precision", "Arg P", "Of the arguments of matched calls, the share that is right, by name."),
        Metric("argument_recall", "Arg R", "Of the true arguments of matched calls, the share predicted, by name."),
        Metric("argument_bleu", "Arg BLEU", "BLEU-2 of the names and values of the arguments of matched calls."),
        Metric("scibert_score", "SciBERT", "Mean cosine of the embedded values of matched arguments.", low=-1.0),
        Metric(
            "levenshtein",
            "Lev",
            "Levenshtein distance of the called functions; upstream, plus 1 for each undefined one predicted.",
            high=None,
            less_is_better=True,
        ),
        Metric(
            "levenshtein_scaled",
            "Lev / lines",
            "Levenshtein distance of the called functions over the number of lines of the true program.",
            high=None,
            less_is_better=True,
        ),
        Metric(
            "levenshtein_normalized",
            "Lev / calls",
            "Levenshtein distance of the calls in the order of the text over the larger number of calls, in any mode.",
            less_is_better=True,
        ),
        Metric(
            "failed",
            "Failed",
            "Share of records in which something could not be read.",
            percent=True,
            less_is_better=True,
        ),
    )
    failures = FAILURES
    libraries: ClassVar[Mapping[str, tuple[str, ...]]] = {"embedding_model": ("transformers", "torch")}
    response = "prediction_code"
    reward = (
        "1 - the normalized Levenshtein distance of the calls, from 0 to 1 (`reward = function_f1`: F1 of functions)."
    )
    reasons = REASONS
    compares = True
    text_reference = "ground_truth"
    components = ("order_similarity", "function_precision", "function_recall")
    passed_if = ("order_similarity",)

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        readings = [read(record, options.mode == "upstream") for record in reporting(records, advance)]
        columns = {metric.name: column_of(readings, metric.name) for metric in self.metrics}
        columns["levenshtein"] = distances([reading.sequences for reading in readings])
        columns["levenshtein"] += [reading.penalty for reading in readings]
        lines = np.array([record["ground_truth"].count("\n") + 1 for record in records], float)
        columns["levenshtein_scaled"] = columns["levenshtein"] / lines
        columns["levenshtein_normalized"] = normalized_distances(readings)
        columns["failed"] = np.array([reading.failure is not None for reading in readings], float)
        failed = [
            Failure(row, reading.failure[0], of_response=reading.failure[1])
            for row, reading in enumerate(readings)
            if reading.failure is not None
        ]
        dependencies = OptionalDependencies(self, options)
        load = partial(embedder_of, options, "SciBERTScore needs", PUBLISHED_MODEL, cls_model)
        embedder = dependencies.load(load, "scibert_score")
        if embedder is not None:
            columns["scibert_score"] = similarities(readings, embedder)
        return Evaluation(columns, failed, unavailable=dependencies.unavailable)

    def rewards(self, records: Records, options: Any, advance: Advance) -> Rewards:
        names_of = cache(lambda true: Program(true).names())  # each is read once
        readings = [read_order(record, names_of) for record in reporting(records, advance)]
        similarity = np.nan_to_num(1 - normalized_distances(readings), nan=0.0)
        names = ("function_precision", "function_recall")
        precision, recall = (np.nan_to_num(column_of(readings, name), nan=0.0) for name in names)
        total = precision + recall
        f1 = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
        failed = [
            Failure(row, reading.failure[0] if reading.failure else NO_CALLS, of_response=True)
            for row, reading in enumerate(readings)
            if reading.failure or not (reading.in_order and reading.in_order[0])
        ]
        chosen = f1 if options.reward == "function_f1" else similarity
        components = zip(self.components, (similarity, precision, recall), strict=True)
        return Rewards(chosen, failed, dict(components))

    def reference(self, value: Any) -> tuple[Mapping[str, Any] | None, str]:
        record, wrong = super().reference(value)
        if record is None:
            return record, wrong
        try:
            names = Program(record["ground_truth"]).names()
        except Unreadable as error:
            return None, f"ground_truth: {FAILURES[error.reason]}"
        return (record, "") if names else (None, "ground_truth: it calls no function")


def column_of(readings: Sequence[ProgramReading], name: str) -> np.ndarray:
    return np.array([reading.values.get(name, math.nan) for reading in readings], float)


def distances(sequences: Sequence[tuple[list[str], list[str]] | None]) -> np.ndarray:
    rows = [row for row, pair in enumerate(sequences) if pair is not None]
    values = np.full(len(sequences), np.nan)
    values[rows] = compare_sequences(levenshtein_distances, [pair for pair in sequences if pair is not None])
    return values


def normalized_distances(readings: Sequence[ProgramReading]) -> np.ndarray:
    longest = [max(map(len, reading.in_order)) if reading.in_order else 0 for reading in readings]
    return distances([reading.in_order for reading in readings]) / np.maximum(1, longest)


def similarities(readings: Sequence[ProgramReading], embedder: Embedder) -> np.ndarray:
    texts = [text for reading in readings for pair in reading.pairs for text in pair]
    vectors = embedded(embedder, texts, "options.embedder")
    return np.array(
        [mean(float(vectors[ours] @ vectors[theirs]) for ours, theirs in reading.pairs) for reading in readings]
    )


TASK = Pseudocode()
