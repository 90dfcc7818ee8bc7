"""Trivial policies and their rewards, with doses in other amounts and other units."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np

from ...kernels.text.quantities import MAX_DIGITS
from ...kernels.text.words import UNITS
from ...service.explain.quantities import KINDS
from ...service.explain.reading import ReadStep, canons
from ...service.rewards.scorer import Scorer
from ...service.rewards.scores import NO_SPREAD
from ...service.tasks.scirecipe_records import library_of
from ..reports.inference import standard_error
from .gold import Option
from .rows import CheckedRow

SEED = 0  # seed of the shuffles: one generator for all references, in their order


class WrittenStep(NamedTuple):
    key: str
    prose: str


class PolicySource(NamedTuple):
    steps: Sequence[ReadStep]
    library: Sequence[str] | None
    generator: random.Random


class Policy(NamedTuple):
    """One policy; `remedy` says what keeps it from being rewarded, or that nothing in the reward does.

    right: whether its answers are right ones, which may earn as much as the gold answers.
    """

    name: str
    title: str
    construction: str
    remedy: str
    answer: Callable[[PolicySource], Iterable[WrittenStep] | None]
    right: bool = False


def listed(steps: Iterable[ReadStep]) -> list[WrittenStep]:
    return [WrittenStep(step.text, step.listed) for step in steps]


def shuffled(source: PolicySource) -> list[WrittenStep]:
    steps = list(source.steps)
    source.generator.shuffle(steps)
    return listed(steps)


def all_objects(source: PolicySource) -> list[WrittenStep]:
    objects = tuple(dict.fromkeys(text for step in source.steps for text in step.objects))
    return listed(step._replace(objects=objects) for step in source.steps)


def library_order(source: PolicySource) -> list[WrittenStep] | None:
    return None if source.library is None else listed(map(ReadStep, source.library))


def with_numbers(step: ReadStep) -> WrittenStep:
    """Add to the prose of a step two numbers that the step does not have."""
    degrees, hours = (next(n for n in count(first) if str(n) not in step.listed) for first in (95, 3))
    return WrittenStep(step.text, f"{step.listed}, then {degrees} °C for {hours} h")


UNSEEN = "reward the prose as well (task lexical with section=orc), or judge it"

POLICIES = (
    Policy(
        "key_as_prose",
        "JSON pasted as prose",
        "The reference's steps; the prose of each is its JSON.",
        "No setting tells pasted JSON from prose. assay score --html counts such rollouts (sign key_as_prose): "
        f"leave them out of training, or {UNSEEN}.",
        lambda source: [WrittenStep(step.text, step.text) for step in source.steps],
    ),
    Policy(
        "words_as_prose",
        "words listed as prose",
        "The reference's steps; the prose of each lists its action, objects and parameters, separated by commas.",
        f"No setting and no sign of the report tells a list of words from prose: {UNSEEN}.",
        lambda source: listed(source.steps),
    ),
    Policy(
        "actions_only",
        "actions without objects",
        "The reference's actions without objects and parameters.",
        "semantics=product pays nothing for the order of actions without their objects.",
        lambda source: listed(ReadStep(step.action) for step in source.steps),
    ),
    Policy(
        "shuffled",
        "steps shuffled",
        f"The reference's steps in a random order (seed {SEED}, one shuffle per record).",
        "semantics=product with order=strict pays nothing for steps in another order.",
        shuffled,
    ),
    Policy(
        "all_objects",
        "all objects in every step",
        "The reference's steps, each with the objects of all steps.",
        "No setting limits the objects of a step; semantics=product pays less, and max_mean_words less for long lists.",
        all_objects,
    ),
    Policy(
        "library_order",
        "library in its order",
        "The record's library of actions, a step for each, without objects and parameters.",
        "semantics=product pays nothing for the order of actions without their objects.",
        library_order,
    ),
    Policy(
        "half",
        "half of the steps",
        "The first half of the reference's steps, rounded up.",
        "content_denominator=max_len divides content by the number of steps, and use_step_gap lowers the scale.",
        lambda source: listed(source.steps[: (len(source.steps) + 1) // 2]),
    ),
    Policy(
        "doses_multiplied",
        "doses × 100",
        "The reference's steps; in parameters, each number with a unit is a hundred times as large.",
        "parameter_similarity=quantities pays only for equal amounts.",
        lambda source: listed(with_doses(source.steps, multiplied)),
    ),
    Policy(
        "doses_converted",
        "doses in other units",
        "The reference's steps; in parameters, each number with a unit is the same amount in another unit.",
        "These answers are right.",
        lambda source: listed(with_doses(source.steps, converted)),
        right=True,
    ),
    Policy(
        "prose_negated",
        "prose negated",
        "The reference's steps; the prose of each says not to do it.",
        f"No setting and no sign of the report tells what prose denies: {UNSEEN}.",
        lambda source: [WrittenStep(step.text, f"Do not {step.listed}") for step in source.steps],
    ),
    Policy(
        "numbers_added",
        "numbers added to the prose",
        "The reference's steps; the prose of each also has a temperature and a time that the step does not have.",
        "max_added_numbers=0 closes the consistency gate on numbers that only the prose has.",
        lambda source: [with_numbers(step) for step in source.steps],
    ),
)
"""Every policy. Unless a policy says otherwise, the prose of a step lists its words, so that it covers them."""


def answers_of(steps: Sequence[ReadStep], library: Sequence[str] | None, generator: random.Random) -> list[str]:
    source = PolicySource(steps, library, generator)
    answers = (policy.answer(source) for policy in POLICIES)  # None without the library that a policy needs
    return ["" if steps is None else answer_with(steps) for steps in answers]


def answer_with(steps: Iterable[WrittenStep]) -> str:
    steps = list(steps)
    key = "\n".join(f"Step {number}: {step.key}" for number, step in enumerate(steps, 1))
    prose = "\n".join(f"Step {number}: {step.prose}" for number, step in enumerate(steps, 1))
    return f"<think>\n…\n</think>\n<key>\n{key}\n</key>\n<orc>\n{prose}\n</orc>\n<note>\n…\n</note>"


GOLD = Policy("gold", "gold answers", "The gold answers themselves.", "", lambda source: None)


class Sums:
    def __init__(self) -> None:
        self.number = 0
        self._sum = self._squares = 0.0
        self._least, self._largest = math.inf, -math.inf

    def add(self, rewards: np.ndarray) -> None:
        self.number += len(rewards)
        self._sum += math.fsum(rewards)
        self._squares += math.fsum(rewards * rewards)
        self._least = min(self._least, float(rewards.min(initial=math.inf)))
        self._largest = max(self._largest, float(rewards.max(initial=-math.inf)))

    @property
    def mean(self) -> float | None:
        return self._sum / self.number if self.number else None

    @property
    def standard_error(self) -> float | None:
        if self.number < 2:
            return None
        variance = max(self._squares - self._sum**2 / self.number, 0.0) / (self.number - 1)
        return standard_error(self.number, math.sqrt(variance), self._least, self._largest)


class Earned(NamedTuple):
    policy: Policy
    rewards: Sums
    passed: int  # answers that pass both gates
    answered: int  # records that the policy has an answer to; the others get the reward of an empty response
    mean_of_answered: float | None
    gold_difference: float | None  # mean reward less the gold answers', over the records that have one
    by_option: Mapping[str, float | None]  # mean rewards by the name of an option

    @property
    def beats_gold(self) -> bool:
        return self.gold_difference is not None and self.gold_difference > NO_SPREAD and not self.policy.right

    @property
    def equals_gold(self) -> bool:
        difference = self.gold_difference
        return difference is not None and abs(difference) <= NO_SPREAD and not self.policy.right

    def document(self) -> dict[str, Any]:
        return {
            "name": self.policy.name,
            "construction": self.policy.construction,
            "records": self.rewards.number,
            "mean_reward": self.rewards.mean,
            "standard_error": self.rewards.standard_error,
            "passed": self.passed,
            "answered": self.answered,
            "mean_reward_of_answered": self.mean_of_answered,
            "gold_difference": self.gold_difference,
            "beats_gold": self.beats_gold,
            "mean_reward_by_option": self.by_option,
        }


class Earnings:
    """What the gold answers and every policy earn, under the configuration at hand and under each of the `options`."""

    def __init__(self, scorer: Scorer, options: Sequence[Option]) -> None:
        self._scorer, self._options = scorer, options
        self._generator = random.Random(SEED)
        self._gold, self._passed_gold = Sums(), 0
        self._rewards = [Sums() for _ in POLICIES]
        self._of_answered = [Sums() for _ in POLICIES]
        self._beside_gold = [Sums() for _ in POLICIES]
        self._passed = [0] * len(POLICIES)
        self._gold_by_option = {option.name: Sums() for option in options}
        self._by_option = [{option.name: Sums() for option in options} for _ in POLICIES]

    def add(
        self,
        rows: Sequence[CheckedRow],
        steps: Sequence[Sequence[ReadStep]],
        gold: np.ndarray,
        gold_by_option: Mapping[str, np.ndarray],
        passed: np.ndarray,
    ) -> None:
        """Let every policy answer rows whose references have these steps; `gold` is NaN where a row has none."""
        if not rows:
            return
        libraries = [None if row.record is None else library_of(row.record) for row in rows]
        answers = [answers_of(*source, self._generator) for source in zip(steps, libraries, strict=True)]
        responses = [answer for of_row in answers for answer in of_row]
        index = np.repeat(np.arange(len(rows)), len(POLICIES))
        references = [row.rollout.reference for row in rows]
        configs = [{}, *(option.overrides for option in self._options)]
        scores, *others = self._scorer.score_configs(configs, responses, references, index)
        rewards = scores.rewards.reshape(len(rows), len(POLICIES))
        passing = (scores.reasons == "ok").reshape(rewards.shape)
        answered = np.array([bool(answer) for answer in responses]).reshape(rewards.shape)
        has_gold = ~np.isnan(gold)
        self._gold.add(gold[has_gold])
        self._passed_gold += int(passed[has_gold].sum())
        for k in range(len(POLICIES)):
            self._rewards[k].add(rewards[:, k])
            self._of_answered[k].add(rewards[answered[:, k], k])
            self._beside_gold[k].add(rewards[has_gold, k])
            self._passed[k] += int(passing[:, k].sum())
        for option, other in zip(self._options, others, strict=True):
            self._gold_by_option[option.name].add(gold_by_option[option.name][has_gold])
            for k, column in enumerate(other.rewards.reshape(rewards.shape).T):
                self._by_option[k][option.name].add(column)

    def rows(self) -> Iterator[Earned]:
        gold = self._gold
        by_option = {name: sums.mean for name, sums in self._gold_by_option.items()}
        yield Earned(GOLD, gold, self._passed_gold, gold.number, gold.mean, None, by_option)
        for k, policy in enumerate(POLICIES):
            beside, answered = self._beside_gold[k].mean, self._of_answered[k]
            if not answered.number:
                yield Earned(policy, Sums(), 0, 0, None, None, dict.fromkeys(by_option))
                continue
            difference = None if beside is None or gold.mean is None else beside - gold.mean
            by_option = {name: sums.mean for name, sums in self._by_option[k].items()}
            yield Earned(
                policy, self._rewards[k], self._passed[k], answered.number, answered.mean, difference, by_option
            )


VALUE = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
RANGE = re.compile(rf"{VALUE.pattern}(?:-[0-9]+(?:\.[0-9]+)?)?")
Dose = tuple[str, str]
"""A value or a range, and its unit, as canonical words."""


def with_doses(steps: Sequence[ReadStep], change: Callable[[str, str], Dose]) -> list[ReadStep]:
    """Return steps whose parameters have other doses; a parameter without a dose that changes stays as it is."""
    texts = iter(canons([text for step in steps for text in step.parameters]))
    changed = []
    for step in steps:
        canonical = islice(texts, len(step.parameters))
        parameters = (changed_text(*pair, change) for pair in zip(step.parameters, canonical, strict=True))
        changed.append(step._replace(parameters=tuple(parameters)))
    return changed


def changed_text(text: str, canon: str, change: Callable[[str, str], Dose]) -> str:
    words, same = canon.split(" "), True
    for k in range(len(words) - 1):
        if words[k + 1] in UNITS and RANGE.fullmatch(words[k]):
            dose = change(words[k], words[k + 1])
            same = same and dose == (words[k], words[k + 1])
            words[k], words[k + 1] = dose
    return text if same else " ".join(words)


def multiplied(value: str, unit: str) -> Dose:
    """Multiply a value, or both ends of a range, by 100."""
    return re.sub(r"[0-9]+(?:\.[0-9]+)?", lambda number: plain(100 * Decimal(number[0])), value), unit


def converted(value: str, unit: str) -> Dose:
    """Write a value in the next smaller unit, or else in a larger one; ranges and other doses stay as they are."""
    if VALUE.fullmatch(value) and unit in KINDS and digits(value) <= MAX_DIGITS:
        kind, factor = KINDS[unit]
        for other in by_closeness(kind, factor):
            number = exact(Fraction(value) * factor / KINDS[other][1])
            if digits(number) in range(1, MAX_DIGITS + 1):
                return number, other
    return value, unit


def by_closeness(kind: int | str, factor: int) -> Iterable[str]:
    """Return the other units of a kind: smaller ones first, the closest of them first, then larger ones."""
    others = [(other_factor, name) for name, (other, other_factor) in KINDS.items() if other == kind]
    smaller = sorted(((size, name) for size, name in others if size < factor), reverse=True)
    return [name for _, name in (*smaller, *sorted((size, name) for size, name in others if size > factor))]


def exact(number: Fraction) -> str:
    """Return a number as a decimal, or an empty text if it has no finite one."""
    quotient = number.denominator
    for prime in (2, 5):
        while quotient % prime == 0:
            quotient //= prime
    return plain(Decimal(number.numerator) / Decimal(number.denominator)) if quotient == 1 else ""


def plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def digits(value: str) -> int:
    """Return the number of significant digits of a value; 1 of zero, and 0 of an empty text."""
    return len(value.lstrip("-").replace(".", "").strip("0")) or bool(value)
