"""Metrics of a generated text beside a reference, filled into columns: what several tasks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from ..optional_dependencies import OptionalDependencies
from ..task import Advance, Failure, Metric, Options
from .bleu import sentence_bleu
from .embedders import Embedder, chosen_embedder
from .keywords import keywords, overlap
from .meteor import meteor_scorer
from .rouge import rouge_l, rouge_n, rouge_words
from .sequences import pieces
from .word_tokens import NltkRules, porter_stemmer, word_tokenizer

__all__ = [
    "ADVANCE_EVERY",
    "FAILURES",
    "KEYWORD",
    "KEYWORDS_NEED_MODEL",
    "MAX_LENGTH",
    "METEOR_METRIC",
    "ROUGE",
    "ROUGE_METRICS",
    "TOO_LONG",
    "KeywordOptions",
    "Pair",
    "fill_keywords",
    "fill_nltk",
    "fill_rouge",
]

MAX_LENGTH = 262_144
"""Characters of a text that is compared."""
TOO_LONG = "too_long"
KEYWORDS_NEED_MODEL = "keywords_need_model"
ROUGE = ("rouge_1", "rouge_2", "rouge_l")
KEYWORD = ("keyword_precision", "keyword_recall", "keyword_f1")
ADVANCE_EVERY = 64
MAX_CACHED_REFERENCES = 32
"""References whose words are cached: responses to one are mostly adjacent, and words take ten times the memory of
their text."""
MAX_CHARACTERS = 1 << 20
"""Characters of the pairs in one call of the kernel of subsequences: words take ten times as much memory."""

FAILURES = {
    TOO_LONG: f"A text has more than {MAX_LENGTH:,} characters.",
    KEYWORDS_NEED_MODEL: "A text has more than 64 candidates for keywords, and no model was named that ranks them.",
}
"""Why pairs lack metrics, for `Task.failures`."""
METEOR_METRIC = Metric("meteor", "METEOR", "METEOR with Porter's stems and WordNet's synonyms.", percent=True)
ROUGE_METRICS = (
    Metric("rouge_1", "R-1", "F-measure of stemmed words.", percent=True),
    Metric("rouge_2", "R-2", "F-measure of pairs of stemmed words.", percent=True),
    Metric("rouge_l", "R-L", "F-measure of the longest common subsequence of stemmed words.", percent=True),
)

Columns = Mapping[str, np.ndarray]


class KeywordOptions(Options):
    """Which embedder ranks keywords."""

    keyword_embedder: Literal["hashed_words"] | SkipJsonSchema[Embedder] | None = Field(
        None,
        description="For keywords of texts with more than 64 candidates: `hashed_words`, or in Python any function of "
        "texts to vectors.",
    )
    keyword_model: str | None = Field(
        None,
        description="For the same: a model of Sentence Transformers by name or folder; the public scripts': "
        "all-MiniLM-L6-v2.",
        json_schema_extra={"local": True},
    )


class Pair(NamedTuple):
    """One generated text with its row and its reference."""

    row: int
    reference: str
    generated: str


def fill_nltk(
    pairs: Sequence[Pair], columns: Columns, dependencies: OptionalDependencies, rules: NltkRules, advance: Advance
) -> None:
    """Fill `bleu` (BLEU-2, smoothing method 1) and `meteor`, over words of the lower-cased texts by NLTK's rules."""
    split = dependencies.load(partial(word_tokenizer, rules), "bleu", "meteor")
    meteor = dependencies.load(meteor_scorer, "meteor")
    if split is None:
        return
    words = lru_cache(MAX_CACHED_REFERENCES)(lambda text: split(text.lower()))
    for done, (row, reference, generated) in enumerate(pairs, start=1):
        theirs, ours = words(reference), split(generated.lower())
        if dependencies.wants("bleu"):
            columns["bleu"][row] = sentence_bleu(theirs, ours)
        if meteor is not None and dependencies.wants("meteor"):
            columns["meteor"][row] = meteor(theirs, ours)
        if done % ADVANCE_EVERY == 0:
            advance(row)


def fill_rouge(pairs: Sequence[Pair], columns: Columns, dependencies: OptionalDependencies, advance: Advance) -> None:
    """Fill `rouge_1`, `rouge_2` and `rouge_l`."""
    stem = dependencies.load(porter_stemmer, *ROUGE)
    if stem is None:
        return
    words = lru_cache(MAX_CACHED_REFERENCES)(lambda text: rouge_words(text, stem))
    for piece in pieces([len(pair.reference) + len(pair.generated) for pair in pairs], MAX_CHARACTERS):
        some = pairs[piece]
        rows = [pair.row for pair in some]
        split = [(words(pair.reference), rouge_words(pair.generated, stem)) for pair in some]
        for n in (1, 2):
            columns[f"rouge_{n}"][rows] = [rouge_n(theirs, ours, n) for theirs, ours in split]
        columns["rouge_l"][rows] = rouge_l(split)
        advance(piece.stop)


def fill_keywords(
    pairs: Sequence[Pair],
    columns: Columns,
    dependencies: OptionalDependencies,
    options: KeywordOptions,
    advance: Advance,
) -> list[Failure]:
    """Fill the three metrics of keywords; return the rows that lack them because there is no embedder."""
    if not dependencies.wants(*KEYWORD):
        return []
    embedder = chosen_embedder(options.keyword_model, options.keyword_embedder, "options.keyword_model")
    found = lru_cache(MAX_CACHED_REFERENCES)(lambda text: keywords(text, embedder))
    failed = []
    for done, (row, reference, generated) in enumerate(pairs, start=1):
        if done % ADVANCE_EVERY == 0:
            advance(row)
        theirs, ours = found(reference), keywords(generated, embedder)
        if theirs is None or ours is None:
            failed.append(Failure(row, KEYWORDS_NEED_MODEL))
            continue
        for name, value in zip(KEYWORD, overlap(theirs, ours), strict=True):
            columns[name][row] = value
    return failed
