"""Metrics of a generated text beside a reference, filled into columns: what several tasks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from ..optional_dependencies import OptionalDependencies
from ..task import Advance, Failure
from .bleu import sentence_bleu
from .embedders import Embedder
from .keywords import keywords, overlap
from .meteor import meteor_scorer
from .rouge import rouge_l, rouge_n, rouge_words
from .sequences import pieces
from .word_tokens import NltkRules, porter_stemmer, word_tokenizer

__all__ = [
    "ADVANCE_EVERY",
    "KEYWORD",
    "KEYWORDS_NEED_MODEL",
    "MAX_LENGTH",
    "ROUGE",
    "TOO_LONG",
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

Columns = Mapping[str, np.ndarray]


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
    pairs: Sequence[Pair], columns: Columns, embedder: Embedder | None, advance: Advance
) -> list[Failure]:
    """Fill the three metrics of keywords; return the rows that lack them because there is no embedder."""
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
