"""Prompts that occur more than once, with references whose steps differ."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice

from ..explain.reading import Step
from ..explain.text import canons
from ..records.rows import Place

__all__ = ["Prompts"]


class Prompts:
    """Collects prompts and references by digests of their canonical words: less than 1 KB a row."""

    def __init__(self) -> None:
        self._seen: dict[bytes, dict[bytes, list[Place]]] = {}

    def add(self, prompts: Sequence[str], references: Sequence[Sequence[Step]], places: Sequence[Place]) -> None:
        """Add rows: canonical prompts (`canon` of docs/rules.md, Words), and the steps of their references."""
        for prompt, steps, place in zip(prompts, step_digests(references), places, strict=True):
            by_steps = self._seen.setdefault(digest([prompt]), {})
            by_steps.setdefault(steps, []).append(place)

    def contradictions(self) -> list[list[list[Place]]]:
        """Return the prompts with several references: for each distinct reference, the rows that have it."""
        return [list(by_steps.values()) for by_steps in self._seen.values() if len(by_steps) > 1]


def step_digests(references: Sequence[Sequence[Step]]) -> list[bytes]:
    """Return a digest of each reference: of its canonical actions and, in any order, objects and parameters."""
    steps = [step for reference in references for step in reference]
    words = iter(canons([text for step in steps for text in (step.action, *step.objects, *step.parameters)]))
    digests = []
    for reference in references:
        parts = []
        for step in reference:
            action = next(words)
            objects = sorted(filter(None, islice(words, len(step.objects))))
            parameters = sorted(filter(None, islice(words, len(step.parameters))))
            parts.append("\n".join([action, *objects, "", *parameters]))
        digests.append(digest(parts))
    return digests


def digest(parts: Sequence[str]) -> bytes:
    return blake2b("\0".join(parts).encode(), digest_size=16).digest()
