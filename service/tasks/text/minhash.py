"""Shingles of words, and the Jaccard similarity of texts by them, exact and estimated by MinHash.

MinHash: Broder, On the resemblance and containment of documents, 1997. datasketch is an optional extra.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ...wording import install_command
from ..task import not_installed

SHINGLE_WORDS = 3
PERMUTATIONS = 128
MARGIN = 0.1
"""Candidates are looked for at a similarity that is lower by this."""

NEIGHBORS = 8  # texts that each one is compared with in each band
SAMPLE_TEXTS = 1_000
TEMPLATE_SHARE = 0.5
MIN_TEXTS = 10

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Shingler:
    """Hashes the shingles of texts, 8 bytes each; `number` gives a word its number, below 2^64."""

    def __init__(self, number: Callable[[str], int] | None = None) -> None:
        self._number = number
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> np.ndarray:
        """Return the distinct shingles of canonical words, uint64, sorted."""
        words = np.array([self._number_of(word) for word in text.split(" ")], np.uint64)
        width = min(SHINGLE_WORDS, len(words))
        hashes = np.zeros(len(words) - width + 1, np.uint64)
        for k in range(width):
            hashes = (hashes + words[k : len(words) - width + 1 + k] + np.uint64(1)) * MULTIPLIER
            hashes ^= hashes >> np.uint64(29)
        return np.unique(hashes)

    def _number_of(self, word: str) -> int:
        number = self._numbers.get(word)
        if number is None:
            number = len(self._numbers) if self._number is None else self._number(word)
            self._numbers[word] = number
        return number


class MinHash:
    """Sketches of texts; raises NotInstalled without datasketch, with what to do `instead` of installing it."""

    def __init__(self, similarity: float, instead: str = "") -> None:
        self.similarity = similarity
        try:
            self._library = import_module("datasketch")
        except ImportError as error:
            remedy = f"{install_command('prepare')}.{instead}"
            raise not_installed("similarity", "Finding near-duplicates needs datasketch", remedy) from error

    @property
    def recall(self) -> float:
        index = self.index()
        return float(1.0 - (1.0 - self.similarity**index.r) ** index.b)

    def index(self) -> Any:
        threshold = max(self.similarity - MARGIN, 0.05)
        return self._library.MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS, weights=(0.1, 0.9))

    def sketches(self, texts: Iterable[np.ndarray]) -> Iterator[Any]:
        """Yield the sketch of each text, given by its shingles; its `hashvalues` have shape (PERMUTATIONS,)."""
        lists = ((shingles >> np.uint64(32)).tolist() for shingles in texts)
        yield from self._library.MinHash.generator(lists, num_perm=PERMUTATIONS, hashfunc=int)

    def similar(self, texts: Sequence[np.ndarray]) -> Iterator[tuple[int, int]]:
        """Yield pairs of indices of texts, given by their shingles, by which all that are similar are connected.

        Each text is compared with the next NEIGHBORS that are equal in a band, so that the cost is linear in the number
        of texts (Bawa, Condie and Ganesan, LSH Forest, 2005).
        """
        if len(texts) < 2:
            return
        sketches = np.array([sketch.hashvalues for sketch in self.sketches(texts)])
        index = self.index()
        seen: set[tuple[int, int]] = set()
        for start in range(0, index.b * index.r, index.r):
            rolled = np.roll(sketches, -start, axis=1)
            order = np.lexsort(rolled.T[::-1])
            for width in range(1, min(NEIGHBORS, len(order) - 1) + 1):
                a, b = order[:-width], order[width:]
                equal = (rolled[a, : index.r] == rolled[b, : index.r]).all(axis=1)
                pairs = np.sort(np.stack([a[equal], b[equal]], axis=1), axis=1)
                for first, second in map(tuple, pairs.tolist()):
                    if (first, second) not in seen:
                        seen.add((first, second))
                        if jaccard(texts[first], texts[second]) >= self.similarity:
                            yield first, second


def template_shingles(texts: Sequence[np.ndarray]) -> np.ndarray:
    sample = texts[:: max(1, len(texts) // SAMPLE_TEXTS)]
    if not sample:
        return np.zeros(0, np.uint64)
    shingles, counts = np.unique(np.concatenate(sample), return_counts=True)
    common: np.ndarray = shingles[counts > max(TEMPLATE_SHARE * len(sample), MIN_TEXTS)]
    return common


def without(shingles: np.ndarray, template: np.ndarray) -> np.ndarray:
    remaining: np.ndarray = np.setdiff1d(shingles, template, assume_unique=True) if len(template) else shingles
    return remaining if len(remaining) else shingles


def jaccard(a: np.ndarray, b: np.ndarray) -> float:
    common = len(np.intersect1d(a, b, assume_unique=True))
    return common / (len(a) + len(b) - common)
