"""Texts of which some are more and more similar, and their similarity, by definition."""

from __future__ import annotations

import random

WORDS = [f"word{n}" for n in range(400)]


def texts(seed: int, count: int = 60, words: int = 60) -> list[str]:
    """Return texts, and copies of them with more and more other words."""
    rng = random.Random(seed)
    originals = [[rng.choice(WORDS) for _ in range(words)] for _ in range(count // 2)]
    copies = []
    for n, text in enumerate(originals):
        replaced = {*rng.sample(range(words), n // 3)}
        copies.append(["other" if k in replaced else word for k, word in enumerate(text)])
    return [" ".join(text) for text in originals + copies]


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.split(" ")
    return {tuple(words[k : k + 3]) for k in range(max(len(words) - 2, 1))}


def jaccard(a: str, b: str) -> float:
    return len(shingles(a) & shingles(b)) / len(shingles(a) | shingles(b))
