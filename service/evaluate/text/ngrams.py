"""BLEU (Papineni et al. 2002) as NLTK computes it, and ROUGE (Lin 2004) as the package rouge-score does, with stems.

NLTK is slower; a kernel computes the longest common subsequences of all records at once.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence

from ....kernels.similarity.lcs import lcs_lengths
from .sequences import compare_sequences

__all__ = ["METHOD_1", "NO_SMOOTHING", "rouge_l", "rouge_n", "rouge_words", "sentence_bleu"]

NO_SMOOTHING = 0.0
"""Without a match of some order, NLTK uses the smallest positive float as its precision: about 1e-154 for BLEU-2."""
METHOD_1 = 0.1
WORD = re.compile(r"[a-z0-9]+")
MAX_UNSTEMMED = 3


def ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[k:] for k in range(n)), strict=False))


def sentence_bleu(
    reference: Sequence[str], hypothesis: Sequence[str], order: int = 2, smoothing: float = METHOD_1
) -> float:
    """Return BLEU with equal weights for the orders 1 to `order`; 0 without a word in common."""
    logarithms = []
    for n in range(1, order + 1):
        ours, theirs = ngrams(hypothesis, n), ngrams(reference, n)
        matches = sum(min(count, theirs[gram]) for gram, count in ours.items())
        if n == 1 and not matches:
            return 0.0
        precision = (matches or smoothing) / max(1, len(hypothesis) - n + 1)
        logarithms.append(math.log(precision or sys.float_info.min) / order)
    is_shorter = len(hypothesis) <= len(reference)
    brevity_penalty = math.exp(1 - len(reference) / len(hypothesis)) if is_shorter else 1.0
    return brevity_penalty * math.exp(math.fsum(logarithms))


def rouge_words(text: str, stem: Callable[[str], str]) -> list[str]:
    return [stem(word) if len(word) > MAX_UNSTEMMED else word for word in WORD.findall(text.lower())]


def f_measure(common: int, predicted: int, true: int) -> float:
    precision, recall = common / max(predicted, 1), common / max(true, 1)
    return 2 * precision * recall / (precision + recall) if common else 0.0


def rouge_n(reference: Sequence[str], hypothesis: Sequence[str], n: int) -> float:
    ours, theirs = ngrams(hypothesis, n), ngrams(reference, n)
    return f_measure((ours & theirs).total(), ours.total(), theirs.total())


def rouge_l(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[float]:
    lengths = compare_sequences(lcs_lengths, pairs).tolist()
    return [
        f_measure(common, len(hypothesis), len(reference))
        for common, (reference, hypothesis) in zip(lengths, pairs, strict=True)
    ]
