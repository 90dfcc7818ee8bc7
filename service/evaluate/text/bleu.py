"""Sentence BLEU (Papineni et al. 2002) of one hypothesis and one reference, as NLTK computes it.

Other benchmarks use `nltk.translate.bleu_score.sentence_bleu`; this gives its values without its fractions and
warnings, in the time of counting n-grams.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence

__all__ = ["METHOD_1", "NO_SMOOTHING", "sentence_bleu"]

NO_SMOOTHING = 0.0
"""Without a match of some order, NLTK uses the smallest positive float as its precision: about 1e-154 for BLEU-2."""
METHOD_1 = 0.1
"""The count that NLTK's `SmoothingFunction().method1` uses in place of 0."""


def sentence_bleu(
    reference: Sequence[str], hypothesis: Sequence[str], order: int = 2, smoothing: float = METHOD_1
) -> float:
    """Return BLEU with equal weights for the orders 1 to `order`; 0 without a word in common."""
    logarithms = []
    for n in range(1, order + 1):
        matches, total = clipped(reference, hypothesis, n)
        if n == 1 and not matches:
            return 0.0
        precision = (matches or smoothing) / total
        logarithms.append(math.log(precision or sys.float_info.min) / order)
    return brevity_penalty(len(reference), len(hypothesis)) * math.exp(math.fsum(logarithms))


def clipped(reference: Sequence[str], hypothesis: Sequence[str], n: int) -> tuple[int, int]:
    """Return how many of the hypothesis's n-grams the reference has, clipped, and how many there are, at least 1."""
    ours, theirs = ngrams(hypothesis, n), ngrams(reference, n)
    return sum(min(count, theirs[gram]) for gram, count in ours.items()), max(1, len(hypothesis) - n + 1)


def ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[k:] for k in range(n)), strict=False))


def brevity_penalty(reference: int, hypothesis: int) -> float:
    return 1.0 if hypothesis > reference else math.exp(1 - reference / hypothesis)
