"""The expected score Σ s · p(s) of a judge's samples, or of its log-probabilities."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

__all__ = ["SCORES", "expected_by_logprobs", "expected_by_samples", "geval_mean", "geval_score", "stated_score"]

SCORES = range(1, 6)
NUMBER = re.compile(r"^ ?([\d.]{1,400})(?![\d.])")
"""G-Eval's pattern, at the beginning of a text; longer numbers are ignored."""


def geval_score(text: str) -> float:
    """Return the number at the beginning of the text, as G-Eval's parser reads it; 0 if missing."""
    match = NUMBER.match(text)
    try:
        return float(match[1]) if match else 0.0
    except ValueError:  # 1.2.3
        return 0.0


def without_criterion(text: str, criterion: str) -> str:
    remainder = text.lstrip().removeprefix("-").lstrip()
    if not criterion or not remainder.lower().startswith(criterion.lower()):
        return text
    remainder = remainder[len(criterion) :].lstrip()
    return remainder[1:].lstrip() if remainder.startswith(":") else text


def stated_score(text: str, criterion: str = "") -> int | None:
    """Return the score from 1 to 5 that a text states, perhaps as `- Coherence: 4`; None for anything else."""
    score = geval_score(without_criterion(text, criterion))
    return int(score) if score in SCORES else None


def expected_by_samples(texts: Sequence[str], criterion: str = "") -> tuple[float | None, int]:
    """Return Σ s · p(s), with p the frequency among the samples that state a score, or None; and how many do."""
    scores = [score for text in texts if (score := stated_score(text, criterion)) is not None]
    return (sum(scores) / len(scores) if scores else None), len(scores)


def geval_mean(texts: Sequence[str]) -> float:
    return math.fsum(map(geval_score, texts)) / len(texts)


def expected_by_logprobs(logprobs: Mapping[str, float]) -> tuple[float | None, float, float]:
    """Return Σ s · p(s) with p normalized over the five scores, or None, the same not normalized, and Σ p."""
    p = dict.fromkeys(SCORES, 0.0)
    for token, value in logprobs.items():
        if token.strip() in ("1", "2", "3", "4", "5"):
            p[int(token.strip())] += math.exp(min(value, 0.0))
    mass = math.fsum(p.values())
    expected = math.fsum(score * share for score, share in p.items())
    return (expected / mass if mass > 0 else None), expected, mass
