"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004), the F-measures of the package rouge-score with stemming.

Most of that package's time goes into the longest common subsequence; here a kernel computes it for all records at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from ....kernels.similarity.lcs import lcs_lengths
from .bleu import ngrams
from .sequences import compare_sequences

__all__ = ["f_measure", "rouge_l", "rouge_n", "rouge_words"]

WORD = re.compile(r"[a-z0-9]+")
MAX_UNSTEMMED = 3


def rouge_words(text: str, stem: Callable[[str], str]) -> list[str]:
    """Return the runs of ASCII letters and digits of the lower-cased text, those over three characters stemmed."""
    return [stem(word) if len(word) > MAX_UNSTEMMED else word for word in WORD.findall(text.lower())]


def f_measure(common: int, predicted: int, true: int) -> float:
    """Return the harmonic mean of common / predicted and common / true; 0 if either is 0."""
    precision, recall = common / max(predicted, 1), common / max(true, 1)
    return 2 * precision * recall / (precision + recall) if common else 0.0


def rouge_n(reference: Sequence[str], hypothesis: Sequence[str], n: int) -> float:
    """Return the F-measure of the n-grams, each counted at most as often as in the other text."""
    ours, theirs = ngrams(hypothesis, n), ngrams(reference, n)
    return f_measure((ours & theirs).total(), ours.total(), theirs.total())


def rouge_l(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> np.ndarray:
    """Return the F-measure of the longest common subsequence of each pair (reference, hypothesis): float64 (n,)."""
    lengths = compare_sequences(lcs_lengths, pairs)
    return np.array(
        [
            f_measure(common, len(hypothesis), len(reference))
            for common, (reference, hypothesis) in zip(lengths.tolist(), pairs, strict=True)
        ]
    )
