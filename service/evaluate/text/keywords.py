"""Keyword overlap as BioProBench measures it: the 64 words of each text that KeyBERT ranks highest, compared as sets.

KeyBERT's candidates are all words except stop words, and it ranks them by the cosine of their vectors with the text's.
A text with 64 candidates or fewer keeps them all, so it needs no model.
"""

from __future__ import annotations

import re

import numpy as np

from .embedders import Embedder, embedded
from .stop_words import STOP_WORDS

__all__ = ["MAX_KEYWORDS", "candidates", "keywords", "overlap"]

MAX_KEYWORDS = 64
WORD = re.compile(r"\b\w\w+\b")
EPSILON = 1e-8
"""A term of the public script's denominator of F1: equal sets have 0.999999995."""


def candidates(text: str) -> list[str]:
    """Return the distinct words of two or more characters that are not stop words, lower case, sorted."""
    return sorted(set(WORD.findall(text.lower())) - STOP_WORDS)


def keywords(text: str, embedder: Embedder | None, path: str = "options.keyword_embedder") -> set[str] | None:
    """Return the keywords of a text; None if it has more than 64 candidates and there is no embedder to rank them."""
    words = candidates(text)
    if len(words) <= MAX_KEYWORDS:
        return set(words)
    if embedder is None:
        return None
    vectors = embedded(embedder, [text, *words], path)
    ranks = np.array([vectors[word] for word in words]) @ vectors[text]
    return {words[k] for k in ranks.argsort()[-MAX_KEYWORDS:]}


def overlap(reference: set[str], generated: set[str]) -> tuple[float, float, float]:
    """Return precision, recall and F1 of the generated keywords, all 0 if a side is empty."""
    if not reference or not generated:
        return 0.0, 0.0, 0.0
    common = len(reference & generated)
    precision, recall = common / len(generated), common / len(reference)
    return precision, recall, 2 * precision * recall / (precision + recall + EPSILON)
