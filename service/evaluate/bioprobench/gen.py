"""Protocol generation: how near a generated protocol comes to the true one, in words, keywords and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ..optional_dependencies import OptionalDependencies
from ..task import Advance, Evaluation, Metric, Record, Records, Task
from ..text.embedders import Embedder, EmbedderOption, embedded, embedder_of
from ..text.text_pairs import FAILURES as PAIR_FAILURES
from ..text.text_pairs import (
    LIBRARIES,
    METEOR_METRIC,
    ROUGE_METRICS,
    KeywordOptions,
    Pair,
    TextPairs,
    comparable,
)
from ..text.word_tokens import NltkRules
from .answers import FAILURES, NOT_TEXT, generated_text

__all__ = ["TASK", "generated_steps", "matched"]

STEP = ("step_recall", "step_precision")
THRESHOLD = 0.7
CELLS = 1 << 22
"""Cosines computed at once, to limit memory."""

UNREAD = {NOT_TEXT: FAILURES[NOT_TEXT], **PAIR_FAILURES}

STEPS_NEED = (
    "Step recall and precision need vectors of steps: set embedding_model (published: all-mpnet-base-v2), "
    "or embedder = hashed_words, which is not comparable with published values"
)


class GenRecord(Record):
    """One protocol of BioProBench's GEN with a model's response."""

    output: str | list[str] = Field(description="The true protocol: its steps, or a text, which has no step metrics.")
    generated_response: str | None = Field(description="The model's response; null counts as failed.")


class GenOptions(KeywordOptions):
    """What GEN may be asked."""

    nltk: NltkRules = Field(
        "3.9", description="Whose rules split words: NLTK 3.8 and 3.9 as when published, or 3.10's, whatever is here."
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
        json_schema_extra={"local": True},
    )
    empty_step_precision: Literal["one", "zero"] = Field(
        "one", description="Step precision where nothing was generated: 1, as the public script has it, or 0."
    )


class Gen(Task):
    """Protocol generation."""

    name = "bioprobench.gen"
    description = "BioProBench, protocol generation (REA-GEN too): words, keywords and steps shared with the truth."
    record = GenRecord
    options = GenOptions
    metrics = (
        Metric("bleu", "BLEU", "Sentence BLEU-2 with smoothing method 1 over NLTK's words.", percent=True),
        METEOR_METRIC,
        *ROUGE_METRICS,
        Metric("keyword_precision", "KW P", "Of the response's 64 best keywords, the share that the truth has."),
        Metric("keyword_recall", "KW R", "Of the truth's 64 best keywords, the share that the response has."),
        Metric("keyword_f1", "KW F1", "Harmonic mean of the precision and the recall of keywords."),
        Metric("step_recall", "SR", "Share of true steps that a generated step comes near (equation 1)."),
        Metric("step_precision", "SP", "Share of generated steps that come near a true one (equation 2)."),
        Metric("failed", "Failed", "Share of records without a response.", percent=True, less_is_better=True),
    )
    failures = UNREAD
    libraries: ClassVar[Mapping[str, tuple[str, ...]]] = LIBRARIES | {"bleu": ("nltk",)}

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        columns = {metric.name: np.full(len(records), np.nan) for metric in self.metrics}
        pairs, failed = comparable(map(texts_of, records), NOT_TEXT)
        pairs = [pair._replace(generated=generated_text(pair.generated)) for pair in pairs]
        columns["failed"][:] = 0.0
        columns["failed"][[failure.record for failure in failed if failure.reason == NOT_TEXT]] = 1.0
        dependencies = OptionalDependencies(self, options)
        texts = TextPairs(pairs, columns, dependencies, advance)
        texts.fill_nltk(options.nltk)
        texts.fill_rouge()
        failed += texts.fill_keywords(options)
        embedder = dependencies.load(partial(embedder_of, options, STEPS_NEED), *STEP)
        if embedder is not None:
            fill_steps(records, pairs, columns, embedder, float(options.empty_step_precision == "one"), advance)
        advance(len(records))
        return Evaluation(columns, sorted(failed), unavailable=dependencies.require_any())


def texts_of(record: Mapping[str, Any]) -> tuple[str, str | None]:
    output = record["output"]
    return output if isinstance(output, str) else " ".join(output), record["generated_response"]


def fill_steps(
    records: Records,
    pairs: Sequence[Pair],
    columns: Mapping[str, np.ndarray],
    embedder: Embedder,
    of_nothing: float,
    advance: Advance,
) -> None:
    """Fill `step_recall` and `step_precision` of the records whose reference has steps."""
    steps = {pair.row: (records[pair.row]["output"], generated_steps(pair.generated)) for pair in pairs}
    steps = {row: sides for row, sides in steps.items() if isinstance(sides[0], list)}
    vectors = embedded(
        embedder, [step for sides in steps.values() for side in sides for step in side], "options.embedder"
    )
    for row, (reference, generated) in steps.items():
        advance(row)
        near_reference, near_generated = matched(reference, generated, vectors)
        columns["step_recall"][row] = near_reference / len(reference) if reference else 1.0
        columns["step_precision"][row] = near_generated / len(generated) if generated else of_nothing


def generated_steps(text: str) -> list[str]:
    """Return the non-blank lines of a generated protocol, stripped; numbers and bullets stay."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def matched(reference: Sequence[str], generated: Sequence[str], vectors: Mapping[str, np.ndarray]) -> tuple[int, int]:
    """Count the reference steps, and the generated ones, with a cosine of 0.7 or more to one on the other side."""
    if not reference or not generated:
        return 0, 0
    theirs = np.array([vectors[step] for step in generated])
    found, near = 0, np.zeros(len(generated), bool)
    rows = max(1, CELLS // len(generated))
    for begin in range(0, len(reference), rows):
        close = np.array([vectors[step] for step in reference[begin : begin + rows]]) @ theirs.T >= THRESHOLD
        found += int(close.any(axis=1).sum())
        near |= close.any(axis=0)
    return found, int(near.sum())


TASK = Gen()
