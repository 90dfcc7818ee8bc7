"""Statistics of a file that is scored: figures of all responses, groups, examples, and signs of reward hacking.

The signs are heuristics: not proof, but rows worth a look.
"""

from __future__ import annotations

import random
import re
from array import array
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import orjson

from ...kernels.reading.response import BODY, STOP
from ...kernels.rules import OK, REASONS
from ...service.explain.case import MAX_BYTES
from ...service.explain.explanation import smallest_and_largest
from ...service.explain.reading import Text, sections_of
from ...service.records.jobs.summary import Values
from ...service.records.rows.fields import prompt_of
from ...service.records.rows.rows import Location, Rollout, value_digest, value_key
from ...service.rewards.scorer import Scorer
from ...service.rewards.scores import Scores, is_cut_off, spread_of, sums_of
from ...service.scoring.references import alternatives_of
from ...service.scoring.texts import utf8
from ...service.wording import shortened
from .coefficients import pearson

MAX_LOCATIONS = 12
MAX_REFERENCES = 512  # references whose parts are cached: rows of a group are adjacent
WORD = re.compile(rb"[^\s.,;:()]+")
MIN_WORDS = 60  # minimum words of prose for a check of their variety
MIN_VARIETY = 0.3
MAX_OUTSIDE = 0.25
TOLERATED_OUTSIDE = 400  # bytes outside the four sections that are always tolerated
SUSPICIOUS = 0.02  # minimum share of the responses that passed both gates for a sign to be marked, if it pays


class Parts(NamedTuple):
    size: int
    think: bytes
    bodies: list[bytes]
    prose: bytes
    note: bytes
    outside: int  # bytes outside the four sections

    @property
    def repeats(self) -> int:
        return len(self.bodies) - len(set(self.bodies))


class Sign(NamedTuple):
    """One heuristic; `shows` compares a response with its reference.

    of_any: whether a response shows it that does so beside any alternative of its reference, instead of beside all.
    """

    name: str
    title: str
    meaning: str
    shows: Callable[[Parts, Parts], bool]
    of_any: bool = False


def split_parts(content: bytes, think_prefilled: bool = False) -> Parts:
    """Split a text into sections; without sections, all of it is key lines, as in some references."""
    whole, sections, key, _ = sections_of(Text(content), think_prefilled)
    bodies = [content[row[BODY] : row[STOP]].strip() for row in key]
    if whole < len(sections):
        return Parts(len(content), b"", bodies, b"", b"", 0)
    think, _, prose, note = (content[start:stop] for start, stop in sections)
    outside = len(content) - (sections[3][1] - sections[0][0])
    return Parts(len(content), think, bodies, prose, note, outside)


def _padded(response: Parts, _reference: Parts) -> bool:
    words = WORD.findall(response.prose.lower())
    monotonous = len(words) >= MIN_WORDS and len(set(words)) < MIN_VARIETY * len(words)
    return monotonous or response.outside > max(TOLERATED_OUTSIDE, MAX_OUTSIDE * response.size)


def _copied_reference(response: Parts, reference: Parts) -> bool:
    if reference.prose:
        return response.prose.split() == reference.prose.split()
    return response.bodies == reference.bodies


def _is_empty(bodies: Sequence[bytes]) -> bool:
    for body in bodies:
        try:
            step = orjson.loads(body)
        except orjson.JSONDecodeError:
            return False
        if not isinstance(step, dict) or step.get("objects") or step.get("parameters"):
            return False
    return True


SIGNS = (
    Sign(
        "duplicate_steps",
        "Duplicate steps",
        "More repeated steps than in the reference.",
        lambda response, reference: response.repeats > reference.repeats,
    ),
    Sign(
        "padding",
        "Padding",
        f"Prose with fewer than {MIN_VARIETY:.0%} different words, or much text outside the four sections.",
        _padded,
    ),
    Sign(
        "key_as_prose",
        "Key steps as prose",
        "The prose contains the JSON of its key step, which covers every word.",
        lambda response, _: any(len(body) > 2 and body in response.prose for body in response.bodies),
    ),
    Sign(
        "copied_reference",
        "Copied reference",
        "The prose (or, for references without prose, every key line) is identical to the reference.",
        _copied_reference,
        of_any=True,
    ),
    Sign(
        "trivial_steps",
        "Trivial steps",
        "No step has objects or parameters, unlike the reference.",
        lambda response, reference: _is_empty(response.bodies) and not _is_empty(reference.bodies),
    ),
    Sign(
        "too_few_steps",
        "Far fewer steps",
        "Fewer than half as many steps as the reference.",
        lambda response, reference: 2 * len(response.bodies) < len(reference.bodies),
    ),
    Sign(
        "empty_sections",
        "Empty think or note",
        "A section that the gates do not check is empty.",
        lambda response, _: not (response.think.strip() and response.note.strip()),
    ),
)


@dataclass
class ReasonTally:
    number: int = 0
    rewards: float = 0.0
    locations: list[Location] = field(default_factory=list)

    @property
    def mean(self) -> float | None:
        return self.rewards / self.number if self.number else None


class Tallies:
    def __init__(self) -> None:
        self.responses = 0
        self.rewards = 0.0
        self.by_sign = {sign.name: ReasonTally() for sign in SIGNS}
        self._split = lru_cache(MAX_REFERENCES)(split_parts)

    def add(self, rollout: Rollout, parts: Parts, reward: float) -> None:
        self.responses += 1
        self.rewards += reward
        references = [
            self._split(utf8(text) if isinstance(text, str) else b"\n".join(map(orjson.dumps, text["steps"])))
            for text in alternatives_of(rollout.reference) or [rollout.reference]
        ]
        for sign in SIGNS:
            if (any if sign.of_any else all)(sign.shows(parts, reference) for reference in references):
                tally = self.by_sign[sign.name]
                tally.number += 1
                tally.rewards += reward
                if len(tally.locations) < MAX_LOCATIONS:
                    tally.locations.append(rollout.location)

    def shown(self) -> list[str]:
        return [name for name, tally in self.by_sign.items() if tally.number]

    def share(self, name: str) -> float:
        return self.by_sign[name].number / max(self.responses, 1)

    def mean_without(self, name: str) -> float | None:
        tally = self.by_sign[name]
        without = self.responses - tally.number
        return (self.rewards - tally.rewards) / without if without else None

    def is_suspicious(self, name: str) -> bool:
        mean, without = self.by_sign[name].mean, self.mean_without(name)
        return self.share(name) >= SUSPICIOUS and mean is not None and (without is None or mean >= without)


COMPONENTS = {
    "coverage": "Share of the words of a key step that its prose has; the lowest of the steps.",
    "step_gap": "f: agreement of the number of steps with the reference's.",
    "mean_words": "Mean number of words per prose step.",
    "scale": "f / g: the number of steps, over the penalty for long prose.",
    "order": "Order of the actions.",
    "content": "Objects and parameters of the matched steps, at most 1.5.",
    "semantics": "Order and content combined.",
    "anchors": "Number of matched steps.",
    "score": "SCORE before it is mapped to the reward.",
    "quantity_errors": "Number of wrong quantities of the matched steps.",
}
"""The components that are shown, of responses that pass both gates."""


class RewardStatistics:
    """Rewards, components and sizes of all responses (about 100 bytes each), counts, groups, examples and signs."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.bounds = smallest_and_largest(scorer.settings)  # the rewards of SCORE 0 and of the maximum SCORE
        self.rewards, self.passed, self.lengths = Values(), Values(), Values()
        self.steps = Values()
        self.components = {name: Values() for name in COMPONENTS}
        self.reasons: Counter[str] = Counter()
        self.truncated = 0  # responses without all sections that begin with one and lack the last end tag
        self.groups = RewardGroups()
        self.examples = Examples()
        self.signs = Tallies()

    def add(self, rollouts: Sequence[Rollout], scores: Scores) -> None:
        codes = scores.reason_codes
        passed = codes == OK
        self.rewards.add(scores.rewards)
        self.passed.add(passed)
        for name, values in self.components.items():
            values.add(scores.components[name][passed])
        lengths, steps = np.empty(len(rollouts)), np.zeros(len(rollouts))
        for k, (rollout, reward, code) in enumerate(
            zip(rollouts, scores.rewards.tolist(), codes.tolist(), strict=True)
        ):
            content = utf8(rollout.response)
            lengths[k] = len(content)
            reason = REASONS[code]
            self.reasons[reason] += 1
            if reason == "missing_sections":
                self.truncated += is_cut_off(code, content)
            self.groups.add(rollout.group, rollout.location, reward)
            self.examples.add(rollout, reward, code)
            if code == OK and len(content) <= MAX_BYTES:
                parts = split_parts(content, self.scorer.settings.think_prefilled)
                steps[k] = len(parts.bodies)
                self.signs.add(rollout, parts, reward)
        self.lengths.add(lengths)
        self.steps.add(steps)


def correlation(x: np.ndarray, rewards: np.ndarray) -> float | None:
    """Return Pearson's correlation; None of fewer than three, if x is constant, or if rewards are but for rounding."""
    return pearson(x, rewards) if len(x) and np.ptp(rewards) > 1e-12 else None


class Group(NamedTuple):
    """One prompt, its first rollout, and figures of its rewards: the range is from the least to the largest."""

    label: str
    first: Location
    size: int
    mean: float
    range: tuple[float, float]
    deviation: float

    @property
    def flat(self) -> bool:
        """True if it has two or more rewards, all equal but for rounding."""
        return self.size > 1 and self.deviation == 0.0


MAX_GROUPS = 100_000  # groups; rollouts of further groups are only counted, to bound memory
MAX_LABEL = 160  # characters of the prompt of a group that are shown


class RewardGroups:
    """The rewards of every group, in the order of their first rollouts, 16 bytes each."""

    def __init__(self, max_groups: int = MAX_GROUPS) -> None:
        self._max_groups = max_groups
        self._numbers: dict[bytes, int] = {}
        self._prompts: list[tuple[str, Location]] = []
        self._rows, self._rewards = array("q"), array("d")
        self.left_out = 0  # rollouts of groups above the maximum

    def add(self, group: Any, location: Location, reward: float) -> None:
        digest = value_digest(group)
        if digest not in self._numbers:
            if len(self) >= self._max_groups:
                self.left_out += 1
                return
            self._numbers[digest] = len(self)
            self._prompts.append((prompt_label(group), location))
        self._rows.append(self._numbers[digest])
        self._rewards.append(reward)

    def __len__(self) -> int:
        return len(self._prompts)

    def __iter__(self) -> Iterator[Group]:
        numbers, rewards = np.array(self._rows, np.int64), np.array(self._rewards)
        if not len(numbers):
            return
        values, sizes = rewards[np.argsort(numbers, kind="stable")], np.bincount(numbers)
        starts = np.cumsum(sizes) - sizes
        spread = spread_of(values, np.append(starts, len(values)), sums=sums_of)
        least, largest = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
        columns = (column.tolist() for column in (sizes, spread.means, least, largest, spread.deviations))
        for (label, first), size, mean, low, high, deviation in zip(self._prompts, *columns, strict=True):
            yield Group(label, first, size, mean, (low, high), deviation)


def prompt_label(group: Any) -> str:
    key = value_key(group)
    return shortened(key if isinstance(key, str) else key.decode(), MAX_LABEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutExample:
    """One rollout; `whole` is False if its response is truncated. The prompt is shortened, or empty if unknown."""

    location: Location
    reward: float
    reason: str
    prompt: str
    response: str
    reference: Any
    whole: bool


EXAMPLES = 3  # number of best and of worst examples
MAX_LENGTH = 1 << 18  # characters of a response that is kept and explained; longer ones are truncated
TRUNCATED_LENGTH = 2_000
MAX_PROMPT = 400  # characters of the prompt of an example that are shown


class Examples:
    """Keeps a bounded number of examples. The choice by reason is random but reproducible."""

    def __init__(self) -> None:
        self._best: list[tuple[float, RolloutExample]] = []
        self._worst: list[tuple[float, RolloutExample]] = []
        self._by_reason: dict[str, RolloutExample] = {}
        self._seen: Counter[str] = Counter()
        self._random = random.Random(0)

    def add(self, rollout: Rollout, reward: float, reason_code: int) -> None:
        if reason_code == OK:
            _keep(self._best, -reward, rollout, reward)
            _keep(self._worst, reward, rollout, reward)
            return
        reason = REASONS[reason_code]
        self._seen[reason] += 1
        if self._random.random() < 1 / self._seen[reason]:
            self._by_reason[reason] = _example(rollout, reward, reason)

    def best(self) -> list[RolloutExample]:
        return [example for _, example in self._best]

    def worst(self) -> list[RolloutExample]:
        """Return the lowest rewards that passed both gates and are not among the best, lowest first."""
        best = {example.location for example in self.best()}
        return [example for _, example in self._worst if example.location not in best]

    def by_reason(self) -> list[RolloutExample]:
        return [self._by_reason[reason] for reason, _ in self._seen.most_common()]


def _keep(ranked: list[tuple[float, RolloutExample]], rank: float, rollout: Rollout, reward: float) -> None:
    """Insert a rollout that passed both gates if its rank is among the smallest; the first of equal ones stay."""
    if len(ranked) < EXAMPLES or rank < ranked[-1][0]:
        insort(ranked, (rank, _example(rollout, reward, REASONS[OK])), key=lambda entry: entry[0])
        del ranked[EXAMPLES:]


def _example(rollout: Rollout, reward: float, reason: str) -> RolloutExample:
    whole = len(rollout.response) <= MAX_LENGTH
    return RolloutExample(
        location=rollout.location,
        reward=reward,
        reason=reason,
        prompt=shown_prompt(rollout),
        response=rollout.response if whole else rollout.response[:TRUNCATED_LENGTH],
        reference=rollout.reference if whole else None,
        whole=whole,
    )


def shown_prompt(rollout: Rollout) -> str:
    row = orjson.loads(rollout.text) if rollout.text else {}
    group = rollout.group if isinstance(rollout.group, str) and rollout.group != rollout.reference else ""
    return shortened(prompt_of(row) or group, MAX_PROMPT)
