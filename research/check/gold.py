"""Gold answers: their rewards, and contradictions among them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from ...service.explain.explanation import smallest_and_largest
from ...service.explain.prose import coverages
from ...service.explain.reading import ReadStep, Text, canons, read_response
from ...service.records.rows.rows import RowPlace
from ...service.rewards.scorer import Scorer
from ...service.rewards.scores import NO_SPREAD
from ...service.scoring.texts import utf8
from ...service.settings import PAPER_OPTIONS, ScoreSettings
from ...service.wording import format_number
from .rows import CheckedRow

NO_ANSWER = ("missing_sections", "think_not_opened")  # reasons of references that are steps only
COVERAGES = (0.95, 0.90, 0.85, 0.80, 0.75, 0.70, 0.65, 0.60, 0.55, 0.50)
ENOUGH = 0.95  # the suggested min_coverage is the largest at which at least this share of the gold answers pass


PAPER, ALL = "paper", "all"


class Option(NamedTuple):
    """Options that are on, by the settings of all of them; `reason` is that of gates that one of them closes."""

    name: str
    title: str
    overrides: Mapping[str, Any]
    reason: str = ""

    @property
    def changes(self) -> str:
        """The settings that turn them on: `max_added_numbers=0`."""
        return ", ".join(f"{name}={value}" for name, value in self.overrides.items() if value != PAPER_OPTIONS[name])


def options_of(settings: ScoreSettings) -> list[Option]:
    """Return none of the options, each, and all; limits and factor are those of the settings, or 0, 2 and 0.5."""
    factor = settings.quantity_error_factor if settings.quantity_error_factor < 1 else 0.5
    numbers = settings.max_added_numbers or 0
    words = 2 if settings.max_added_words is None else settings.max_added_words
    single = [
        Option("quantities", "quantities", {"parameter_similarity": "quantities"}),
        Option("quantity_errors", f"factor {format_number(factor)}", {"quantity_error_factor": factor}),
        Option("word_coverage", "by words", {"coverage": "words"}, "low_coverage"),
        Option("added_numbers", f"numbers {numbers}", {"max_added_numbers": numbers}, "added_numbers"),
        Option("added_words", f"words {words}", {"max_added_words": words}, "added_words"),
    ]
    everything = {name: value for option in single for name, value in option.overrides.items()}
    off = [option._replace(overrides={**PAPER_OPTIONS, **option.overrides}) for option in single]
    return [Option(PAPER, "paper", PAPER_OPTIONS), *off, Option(ALL, "all", everything)]


class AtCoverage(NamedTuple):
    min_coverage: float
    passed: int
    mean_reward: float


class GoldAnswers:
    def __init__(self, scorer: Scorer) -> None:
        self.number = 0
        self.reasons: Counter[str] = Counter()
        self.words: Counter[str] = Counter()  # answers by the word that their steps below min_coverage leave out
        self.first: dict[str, RowPlace] = {}  # the first answer that leaves a word out
        self.longest = 0.0  # the largest mean of words per prose step of answers that reach the coverage check
        self.too_wordy = 0  # answers with more than max_mean_words
        self.covered = 0  # answers that pass every check, except perhaps coverage
        self.changed: Counter[str] = Counter()  # answers whose reward an option changes, by its name
        self.lower: Counter[str] = Counter()  # answers that earn less with an option
        self._settings = scorer.settings
        self._without_coverage = scorer.with_overrides({"min_coverage": 0.0})
        self._lowest, _ = smallest_and_largest(scorer.settings)
        self._levels = sorted({*COVERAGES, scorer.settings.min_coverage}, reverse=True)
        self._passed = dict.fromkeys(self._levels, 0)
        self._rewards = dict.fromkeys(self._levels, 0.0)

    def add(self, rows: Sequence[CheckedRow], reasons: Sequence[str]) -> None:
        """Count the gold answers among rows with valid references; `reasons` has one for each response."""
        gold = [(row, reason) for row, reason in zip(rows, reasons, strict=True) if reason not in NO_ANSWER]
        if not gold:
            return
        self.number += len(gold)
        self.reasons.update(reason for _, reason in gold)
        for row, reason in gold:
            if reason == "low_coverage":
                self._count_words(row)
        responses, references = ([getattr(row.rollout, name) for row, _ in gold] for name in ("response", "reference"))
        scores = self._without_coverage.score(responses, references, range(len(gold)))
        readable = scores.reasons == "ok"
        coverage = np.where(readable, scores.components["coverage"], -1.0)
        for level in self._levels:
            passing = coverage >= level
            self._passed[level] += int(passing.sum())
            self._rewards[level] += math.fsum(np.where(passing, scores.rewards, self._lowest))
        self.covered += int(readable.sum())
        words = scores.components["mean_words"][readable]
        self.too_wordy += int((words > self._settings.max_mean_words).sum())
        self.longest = max(self.longest, float(words.max(initial=0.0)))

    def compare(self, option: Option, off: np.ndarray, rewards: np.ndarray) -> np.ndarray:
        """Return which answers earn less with an option, bool (n,).

        off: the rewards without options. rewards: those with the option. Both float64 (n,), NaN without an answer.
        """
        lower: np.ndarray = rewards < off - NO_SPREAD
        self.lower[option.name] += int(lower.sum())
        self.changed[option.name] += int((abs(rewards - off) > NO_SPREAD).sum())
        return lower

    def _count_words(self, row: CheckedRow) -> None:
        reading = read_response(Text(utf8(row.rollout.response)), self._settings.think_prefilled)
        steps = coverages(reading, self._settings)
        for word in {word for step in steps if step is not None and not step.enough for word in step.uncovered}:
            self.words[word] += 1
            self.first.setdefault(word, row.place)

    @property
    def penalized(self) -> int:
        """The number of answers whose length lowers their reward, if they pass the gates."""
        return self.too_wordy if self._settings.use_length else 0

    @property
    def failed(self) -> int:
        return self.number - self.reasons["ok"]

    def levels(self) -> list[AtCoverage]:
        """Return the levels from the largest min_coverage, without lower ones at which no more answers pass."""
        levels: list[AtCoverage] = []
        for level in self._levels if self.number else ():
            levels.append(AtCoverage(level, self._passed[level], self._rewards[level] / self.number))
            if self._passed[level] == self.covered and level <= self._settings.min_coverage:
                break
        return levels

    def suggested(self) -> AtCoverage | None:
        """Return the largest of COVERAGES at which enough answers pass the check of coverage; None if there is none."""
        levels = (level for level in self.levels() if level.min_coverage in COVERAGES)
        return next((level for level in levels if level.passed >= ENOUGH * self.covered > 0), None)

    def failing_words(self) -> list[tuple[str, int, RowPlace]]:
        ordered = sorted(self.words.items(), key=lambda item: (-item[1], item[0]))
        return [(word, count, self.first[word]) for word, count in ordered]

    def document(self) -> dict[str, Any]:
        suggested = self.suggested()
        return {
            "answers": self.number,
            "reasons": dict(self.reasons.most_common()),
            "by_min_coverage": [level._asdict() for level in self.levels()],
            "suggested_min_coverage": None if suggested is None else suggested.min_coverage,
            "failing_words": [
                {"word": word, "answers": count, "first": place.document()}
                for word, count, place in self.failing_words()
            ],
            "over_max_mean_words": self.too_wordy,
            "largest_mean_words": self.longest,
            "changed_by_option": dict(self.changed),
            "lower_by_option": dict(self.lower),
        }


class GoldPrompts:
    """Collects prompts and references by digests of their canonical words: less than 1 KB a row."""

    def __init__(self) -> None:
        self._seen: dict[bytes, dict[bytes, list[RowPlace]]] = {}

    def add(
        self, prompts: Sequence[str], references: Sequence[Sequence[Sequence[ReadStep]]], places: Sequence[RowPlace]
    ) -> None:
        """Add rows: canonical prompts (`canon` of docs/rules.md, Words), and the steps of each alternative.

        The order of alternatives does not matter.
        """
        digests = iter(step_digests(list(chain.from_iterable(references))))
        for prompt, alternatives, place in zip(prompts, references, places, strict=True):
            by_steps = self._seen.setdefault(digest([prompt]), {})
            steps = b"".join(sorted(set(islice(digests, len(alternatives)))))
            by_steps.setdefault(steps, []).append(place)

    def contradictions(self) -> list[list[list[RowPlace]]]:
        """Return the prompts with several references: for each distinct reference, the rows that have it."""
        return [list(by_steps.values()) for by_steps in self._seen.values() if len(by_steps) > 1]


def step_digests(references: Sequence[Sequence[ReadStep]]) -> list[bytes]:
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
