"""METEOR (Banerjee and Lavie 2005) of one hypothesis and one reference, with the choices of NLTK's implementation.

Words are matched in three stages: exactly, by their stems, and by synonyms of the remaining stems. Each stage goes
through the hypothesis from its end and takes the last free reference word that matches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from .wordnet import Synonyms

__all__ = ["meteor"]

ALPHA = 0.9
"""Weight of recall against precision."""
BETA = 3.0
GAMMA = 0.5
"""Penalty of γ (chunks / matches)^β."""

Unmatched = tuple[int, str]
"""Number and form of a word that is not matched yet."""


def meteor(
    reference: Sequence[str], hypothesis: Sequence[str], stem: Callable[[str], str], synonyms: Synonyms
) -> float:
    """Return METEOR of two lists of lower-case words; 0 without a match. Equal texts have 1 - 0.5 / words³, not 1."""
    pairs: list[tuple[int, int]] = []
    ours, theirs = matched(list(enumerate(hypothesis)), list(enumerate(reference)), only_itself, pairs)
    stems = [(k, stem(word)) for k, word in ours], [(k, stem(word)) for k, word in theirs]
    ours, theirs = matched(*stems, only_itself, pairs)
    matched(ours, theirs, synonyms, pairs)
    if not pairs:
        return 0.0
    precision, recall = len(pairs) / len(hypothesis), len(pairs) / len(reference)
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return (1 - GAMMA * (chunks(sorted(pairs)) / len(pairs)) ** BETA) * mean


def only_itself(word: str) -> Iterable[str]:
    return (word,)


def matched(
    hypothesis: list[Unmatched],
    reference: list[Unmatched],
    forms_of: Callable[[str], Iterable[str]],
    pairs: list[tuple[int, int]],
) -> tuple[list[Unmatched], list[Unmatched]]:
    """Add the pairs of one stage, (hypothesis, reference) word numbers, and return the unmatched words of both."""
    free: defaultdict[str, list[int]] = defaultdict(list)
    for k, word in reference:
        free[word].append(k)
    left = []
    taken = set()
    for k, word in reversed(hypothesis):
        found = max((free[form][-1] for form in forms_of(word) if free.get(form)), default=None)
        if found is None:
            left.append((k, word))
            continue
        taken.add(found)
        pairs.append((k, found))
        for form in forms_of(word):
            if free.get(form) and free[form][-1] == found:
                free[form].pop()
    return left[::-1], [(k, word) for k, word in reference if k not in taken]


def chunks(pairs: Sequence[tuple[int, int]]) -> int:
    """Count the runs of pairs that are consecutive in both texts."""
    return 1 + sum((b - a, d - c) != (1, 1) for (a, c), (b, d) in pairwise(pairs))
