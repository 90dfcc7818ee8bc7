"""BLEU, ROUGE and METEOR of two lists of words, written from their definitions."""

import math
from collections.abc import Callable, Sequence

from .lcs import lcs_length


def grams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[k : k + n]) for k in range(len(words) - n + 1)]


def common(ours: list, theirs: list) -> int:
    """Return the size of the intersection of two multisets."""
    left = list(theirs)
    count = 0
    for gram in ours:
        if gram in left:
            left.remove(gram)
            count += 1
    return count


def bleu(reference: Sequence[str], hypothesis: Sequence[str], order: int, smoothing: float) -> float:
    """Return the geometric mean of the clipped precisions and the brevity penalty; `smoothing` replaces counts of 0."""
    product = 1.0
    for n in range(1, order + 1):
        matches = common(grams(hypothesis, n), grams(reference, n))
        if n == 1 and matches == 0:
            return 0.0
        total = max(1, len(grams(hypothesis, n)))
        precision = matches / total if matches else smoothing / total or 2.2250738585072014e-308
        product *= precision ** (1 / order)
    shorter = len(hypothesis) <= len(reference)
    return product * (math.exp(1 - len(reference) / len(hypothesis)) if shorter else 1.0)


def f_measure(matches: int, ours: int, theirs: int) -> float:
    return 2 * matches / (ours + theirs) if matches else 0.0


def rouge_n(reference: Sequence[str], hypothesis: Sequence[str], n: int) -> float:
    ours, theirs = grams(hypothesis, n), grams(reference, n)
    return f_measure(common(ours, theirs), len(ours), len(theirs))


def rouge_l(reference: Sequence[str], hypothesis: Sequence[str]) -> float:
    return f_measure(lcs_length(reference, hypothesis), len(hypothesis), len(reference))


def meteor(
    reference: Sequence[str],
    hypothesis: Sequence[str],
    stem: Callable[[str], str],
    synonyms: Callable[[str], set[str] | frozenset[str]],
) -> float:
    """Match in three stages over all pairs of free words, from the end of both texts; NLTK's α, β and γ."""
    ours, theirs = dict(enumerate(hypothesis)), dict(enumerate(reference))
    pairs: dict[int, int] = {}

    def stage(fits: Callable[[str, str], bool]) -> None:
        for i in sorted(ours, reverse=True):
            for j in sorted(theirs, reverse=True):
                if fits(ours[i], theirs[j]):
                    pairs[i] = j
                    del ours[i], theirs[j]
                    break

    stage(lambda a, b: a == b)
    for side in (ours, theirs):
        side.update({k: stem(word) for k, word in side.items()})
    stage(lambda a, b: a == b)
    stage(lambda a, b: b in synonyms(a))
    if not pairs:
        return 0.0
    precision, recall = len(pairs) / len(hypothesis), len(pairs) / len(reference)
    chunks = sum(pairs.get(i - 1, -2) != j - 1 for i, j in pairs.items())
    return (1 - 0.5 * (chunks / len(pairs)) ** 3) * precision * recall / (0.9 * precision + 0.1 * recall)
