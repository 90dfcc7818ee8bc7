"""Near-duplicates across splits: MinHash finds candidates, and the Jaccard similarity of their shingles decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from hashlib import blake2b
from itertools import tee
from typing import Any, NamedTuple

import numpy as np

from ...service.records.rows.rows import RowPlace
from ...service.tasks.text.minhash import PERMUTATIONS, MinHash, Shingler, jaccard, template_shingles, without

FEWEST_PROMPTS, FEW_PROMPTS = 3, 20
"""Numbers of prompts from which what all of them have is taken for instructions, and up to which `template_shingles`
does not know yet."""

MAX_COMPARED = 8  # texts of other splits with which each text is at least compared, the most similar by estimate


class DuplicatePair(NamedTuple):
    """Two texts of different splits: the rows that have either, of the split that comes first in the data first."""

    of: str  # `prompt` or `reference`
    similarity: float
    first: list[RowPlace]
    second: list[RowPlace]

    def document(self) -> dict[str, Any]:
        rows = [[place.document() for place in places] for places in (self.first, self.second)]
        return {"of": self.of, "similarity": self.similarity, "rows": rows}


class DistinctTexts(NamedTuple):
    """Distinct texts of one split: their shingles, uint64, sorted, the rows that have them, and numbers by digest."""

    shingles: list[np.ndarray]
    rows: list[list[RowPlace]]
    numbers: dict[bytes, int]


class SplitText(NamedTuple):
    split: str
    rows: list[RowPlace]
    shingles: np.ndarray


class NearDuplicates:
    """Collects the shingles of texts, 8 bytes a word; raises NotInstalled without datasketch."""

    def __init__(self, similarity: float) -> None:
        self.similarity = similarity
        self._minhash = MinHash(similarity)
        self._shingles = Shingler()
        self._texts: dict[str, dict[str, DistinctTexts]] = {}

    def add(self, of: str, texts: Sequence[str], splits: Sequence[str], places: Sequence[RowPlace]) -> None:
        """Add canonical texts (`canon` of docs/rules.md, Words); those without a word are left out."""
        kind = self._texts.setdefault(of, {})
        for text, split, place in zip(texts, splits, places, strict=True):
            of_split = kind.setdefault(split, DistinctTexts([], [], {}))
            if not text:
                continue
            shingles = self._shingles(text)
            digest = blake2b(shingles.tobytes(), digest_size=16).digest()
            number = of_split.numbers.setdefault(digest, len(of_split.shingles))
            if number == len(of_split.shingles):
                of_split.shingles.append(shingles)
                of_split.rows.append([])
            of_split.rows[number].append(place)

    def pairs(self) -> Iterator[DuplicatePair]:
        """Yield pairs of similar texts in different splits; of large clusters, every text but not every pair."""
        for of, splits in self._texts.items():
            yield from self._pairs(of, splits)

    @property
    def splits(self) -> list[str]:
        return list(dict.fromkeys(split for kind in self._texts.values() for split in kind))

    @property
    def recall(self) -> float:
        """The share of the pairs at the threshold that MinHash finds; of more similar pairs it finds more."""
        return self._minhash.recall

    def _pairs(self, of: str, splits: dict[str, DistinctTexts]) -> Iterator[DuplicatePair]:
        template = template_of(of, [shingles for texts in splits.values() for shingles in texts.shingles])
        order = {split: k for k, split in enumerate(splits)}
        smallest_first = sorted(splits, key=lambda split: len(splits[split].shingles))
        candidates = Candidates(self._minhash.index())
        for split in smallest_first:
            is_largest = split == smallest_first[-1]  # it is only looked up
            shingled, hashed = tee(without(shingles, template) for shingles in splits[split].shingles)
            sketches = self._minhash.sketches(hashed)
            added = []
            for rows, shingles, sketch in zip(splits[split].rows, shingled, sketches, strict=True):
                for text in candidates.likeliest(sketch):
                    similarity = jaccard(shingles, text.shingles)
                    if similarity >= self.similarity:
                        sides = sorted([(order[text.split], text.rows), (order[split], rows)], key=lambda side: side[0])
                        yield DuplicatePair(of, similarity, *(side for _, side in sides))
                if not is_largest:
                    added.append((SplitText(split, rows, shingles), sketch))
            candidates.add(added)


def template_of(of: str, texts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the shingles of instructions, sorted: of most texts, and if there are few prompts, of every prompt."""
    template = template_shingles(texts)
    if of != "prompt" or not FEWEST_PROMPTS <= len(texts) <= FEW_PROMPTS:
        return template
    return np.union1d(template, reduce(np.intersect1d, texts))


class Candidates:
    def __init__(self, index: Any) -> None:
        self._index = index
        self._texts: list[SplitText] = []
        self._signatures = np.zeros((0, PERMUTATIONS), np.uint32)
        self._best = np.zeros(0)  # the largest estimated similarity of each text with one of a later split

    def add(self, texts: Sequence[tuple[SplitText, Any]]) -> None:
        for text, sketch in texts:
            self._index.insert(len(self._texts), sketch)
            self._texts.append(text)
        if texts:
            self._signatures = np.concatenate([self._signatures, [sketch.hashvalues for _, sketch in texts]])
            self._best = np.concatenate([self._best, np.zeros(len(texts))])

    def likeliest(self, sketch: Any) -> Iterator[SplitText]:
        """Yield the texts that may be near-duplicates of the text with this sketch.

        They are the MAX_COMPARED most similar ones by estimate, and those to which no text was as similar so far: large
        clusters are not compared text by text, but every text of one is compared with some of the other splits.
        """
        candidates = np.array(sorted(self._index.query(sketch)) if self._texts else (), np.int64)
        estimates = (self._signatures[candidates] == sketch.hashvalues).mean(axis=1)
        chosen = estimates > self._best[candidates]
        chosen[np.argsort(-estimates, kind="stable")[:MAX_COMPARED]] = True
        self._best[candidates] = np.maximum(self._best[candidates], estimates)
        yield from (self._texts[k] for k in candidates[chosen].tolist())
