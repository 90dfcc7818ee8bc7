"""Trivial policies and their rewards, with doses in other amounts and other units."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from ...kernels.text.words import CANONICAL
from ...service.explain.reading import ReadStep
from ...service.rewards.scorer import Scorer
from ...service.rewards.scores import NO_SPREAD
from ...service.tasks.scirecipe_records import library_of
from ..reports.inference import standard_error
from .gold import Option
from .rows import CheckedRow

SEED = 0  # seed of the shuffles: one generator for all references, in their order


class WrittenStep(NamedTuple):
    """before: lines of prose before that of the step."""

    key: str
    prose: str
    before: str = ""


class PolicySource(NamedTuple):
    steps: Sequence[ReadStep]
    library: Sequence[str] | None
    generator: random.Random


class Policy(NamedTuple):
    """One policy; `remedy` says what keeps it from being rewarded, or that nothing in the reward does.

    answer: returns None if it does not apply to a record, such as reversed ratios where there are none.
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


def new_number(step: ReadStep, first: int) -> int:
    """Return the first number from `first` on whose digits the step does not have."""
    return next(n for n in count(first) if str(n) not in step.listed)


def with_numbers(step: ReadStep) -> WrittenStep:
    """Add to the prose of a step two numbers that the step does not have."""
    return WrittenStep(step.text, f"{step.listed}, then {new_number(step, 95)} °C for {new_number(step, 3)} h")


def with_line_before(source: PolicySource) -> list[WrittenStep]:
    steps = listed(source.steps)
    degrees = new_number(source.steps[0], 95)
    return [steps[0]._replace(before=f"First, boil everything at {degrees} °C.\n"), *steps[1:]]


def with_next_words(source: PolicySource) -> list[WrittenStep] | None:
    """Add to the prose of a step that of the next step, and to the last that of the first; None for a single step."""
    steps = source.steps
    following = [*steps[1:], *steps[:1]]
    if len(steps) < 2:
        return None
    return [
        WrittenStep(step.text, f"{step.listed}, {after.listed}") for step, after in zip(steps, following, strict=True)
    ]


WRONG_QUANTITY = (
    "parameter_similarity=quantities pays only for equal amounts, and quantity_error_factor=0.5 halves the reward "
    "for each wrong one."
)
ADDED_NUMBER = "max_added_numbers=0 closes the consistency gate on numbers that only the prose has."
UNSEEN = "reward the prose as well (task lexical with section=orc), or judge it"

POLICIES = (
    Policy(
        "key_as_prose",
        "JSON pasted as prose",
        "The reference's steps; the prose of each is its JSON.",
        "max_added_words=2 closes the consistency gate on the names of the JSON's fields. assay score --html counts "
        f"such rollouts (sign key_as_prose): leave them out of training, or {UNSEEN}.",
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
        WRONG_QUANTITY,
        lambda source: with_doses(source.steps, multiplied),
    ),
    Policy(
        "one_dose_multiplied",
        "one dose × 100",
        "The reference's steps; in parameters, the first number with a unit is a hundred times as large.",
        WRONG_QUANTITY,
        lambda source: with_doses(source.steps, multiplied, only_first=True),
    ),
    Policy(
        "doses_as_limits",
        "doses as limits",
        "The reference's steps; in parameters, each number with a unit has a < before it.",
        WRONG_QUANTITY,
        lambda source: with_doses(source.steps, limited),
    ),
    Policy(
        "ratios_reversed",
        "ratios reversed",
        "The reference's steps; in parameters, each ratio is reversed: 1000:1 for 1:1000.",
        WRONG_QUANTITY,
        lambda source: with_parameters(source.steps, reversed_ratios),
    ),
    Policy(
        "doses_converted",
        "doses in other units",
        "The reference's steps; in parameters, each number with a unit is the same amount in another unit.",
        "These answers are right.",
        lambda source: with_doses(source.steps, converted),
        right=True,
    ),
    Policy(
        "prose_negated",
        "prose negated",
        "The reference's steps; the prose of each says not to do it.",
        "max_added_words closes the consistency gate on negations that only the prose has.",
        lambda source: [WrittenStep(step.text, f"Do not {step.listed}") for step in source.steps],
    ),
    Policy(
        "next_words",
        "words of the next step",
        "The reference's steps; the prose of each also lists the words of the next step, or in the last of the first.",
        "max_added_words closes the consistency gate on words that only the prose has.",
        with_next_words,
    ),
    Policy(
        "numbers_added",
        "numbers added to the prose",
        "The reference's steps; the prose of each also has a temperature and a time that the step does not have.",
        ADDED_NUMBER,
        lambda source: [with_numbers(step) for step in source.steps],
    ),
    Policy(
        "numbers_hyphened",
        "hyphened numbers added",
        "The reference's steps; the prose of each also has a time such as 95-min that the step does not have.",
        ADDED_NUMBER,
        lambda source: [WrittenStep(step.text, f"{step.listed}, {new_number(step, 95)}-min") for step in source.steps],
    ),
    Policy(
        "line_before",
        "line before the first step",
        "The reference's steps; before the prose of the first one is a line with another temperature.",
        ADDED_NUMBER,
        with_line_before,
    ),
)
"""Every policy. Unless a policy says otherwise, the prose of a step lists its words, so that it covers them."""


def answers_of(steps: Sequence[ReadStep], library: Sequence[str] | None, generator: random.Random) -> list[str]:
    source = PolicySource(steps, library, generator)
    answers = (policy.answer(source) for policy in POLICIES)
    return ["" if steps is None else answer_with(steps) for steps in answers]


def answer_with(steps: Iterable[WrittenStep]) -> str:
    steps = list(steps)
    key = "\n".join(f"Step {number}: {step.key}" for number, step in enumerate(steps, 1))
    prose = "\n".join(f"{step.before}Step {number}: {step.prose}" for number, step in enumerate(steps, 1))
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
    rewards: Sums  # of the records that the policy applies to
    passed: int  # answers that pass both gates
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
        self._beside_gold = [(Sums(), Sums()) for _ in POLICIES]  # policy and gold, of records that have both
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
        applies = np.array([bool(answer) for answer in responses]).reshape(rewards.shape)
        has_gold = ~np.isnan(gold)
        self._gold.add(gold[has_gold])
        self._passed_gold += int(passed[has_gold].sum())
        for k, chosen in enumerate(applies.T):
            self._rewards[k].add(rewards[chosen, k])
            self._passed[k] += int(passing[chosen, k].sum())
            for sums, values in zip(self._beside_gold[k], (rewards[:, k], gold), strict=True):
                sums.add(values[chosen & has_gold])
        for option, other in zip(self._options, others, strict=True):
            self._gold_by_option[option.name].add(gold_by_option[option.name][has_gold])
            by_policy = other.rewards.reshape(rewards.shape).T
            for k, (column, chosen) in enumerate(zip(by_policy, applies.T, strict=True)):
                self._by_option[k][option.name].add(column[chosen])

    def rows(self) -> Iterator[Earned]:
        gold = self._gold
        by_option = {name: sums.mean for name, sums in self._gold_by_option.items()}
        yield Earned(GOLD, gold, self._passed_gold, None, by_option)
        for k, policy in enumerate(POLICIES):
            beside, of_gold = (sums.mean for sums in self._beside_gold[k])
            difference = None if beside is None or of_gold is None else beside - of_gold
            by_option = {name: sums.mean for name, sums in self._by_option[k].items()}
            yield Earned(policy, self._rewards[k], self._passed[k], difference, by_option)


NUMBER = r"[0-9]+(?:,[0-9]{3}(?![0-9]))*(?:\.[0-9]+)?"
DOSE = re.compile(
    rf"(?<![\w.,:/^])([-−]?)({NUMBER})((?:[-–]|\s+to\s+){NUMBER})?"
    rf"([\s°]*)({'|'.join(sorted(map(re.escape, CANONICAL), key=len, reverse=True))}|[x×]\s*g)(?!\w)",
    re.IGNORECASE,
)
"""A sign, a value, perhaps the other end of a range, and a unit."""

RATIO = re.compile(r"(?<![\w.,:/])([0-9]+)(\s*[:/]\s*)([0-9]+)(?![\w:/]|[.,][0-9])")
MAX_DIGITS = 12  # of a value in another unit

SIZES: tuple[dict[str, int], ...] = (
    {"s": 1, "min": 60, "h": 3600, "d": 86400},
    {"nl": 1, "μl": 10**3, "ml": 10**6, "l": 10**9},
    {"ng": 1, "μg": 10**3, "mg": 10**6, "g": 10**9, "kg": 10**12},
    {"nm": 1, "μm": 10**3, "mm": 10**6, "cm": 10**7},
)
"""Units of one kind each, and their sizes."""


def with_parameters(steps: Sequence[ReadStep], change: Callable[[str], str]) -> list[WrittenStep] | None:
    """Return steps with changed parameters, or None if none of them changes."""
    changed = [step._replace(parameters=tuple(map(change, step.parameters))) for step in steps]
    return listed(changed) if changed != list(steps) else None


def with_doses(
    steps: Sequence[ReadStep], change: Callable[[re.Match[str]], str], only_first: bool = False
) -> list[WrittenStep] | None:
    """Return steps with other doses in their parameters, all or only the first, or None if none of them changes."""
    left = count() if not only_first else iter((0,))

    def changed(dose: re.Match[str]) -> str:
        return dose[0] if next(left, None) is None else change(dose)

    return with_parameters(steps, lambda text: DOSE.sub(changed, text))


def multiplied(dose: re.Match[str]) -> str:
    """Multiply a value, or both ends of a range, by 100."""
    value = dose[0][: dose.start(4) - dose.start()]
    return re.sub(NUMBER, lambda number: plain(100 * decimal(number[0])), value) + dose[4] + dose[5]


def limited(dose: re.Match[str]) -> str:
    return f"<{dose[0]}"


def reversed_ratios(text: str) -> str:
    return RATIO.sub(r"\3\2\1", text)


def converted(dose: re.Match[str]) -> str:
    """Write a value in the next smaller unit, or else in a larger one; ranges and other doses stay as they are."""
    sign, value, other_end, _, name = dose.groups()
    unit = CANONICAL.get(name.casefold(), "")
    sizes = next((sizes for sizes in SIZES if unit in sizes), None)
    if sizes is not None and other_end is None and digits(value) <= MAX_DIGITS:
        for other in by_closeness(sizes, unit):
            number = exact(Fraction(decimal(value)) * sizes[unit] / sizes[other])
            if digits(number) in range(1, MAX_DIGITS + 1):
                return f"{sign}{number} {other}"
    return dose[0]


def by_closeness(sizes: Mapping[str, int], unit: str) -> list[str]:
    """Return the other units of a kind: smaller ones first, the closest of them first, then larger ones."""
    names = sorted(sizes, key=lambda name: sizes[name])
    k = names.index(unit)
    return [*names[:k][::-1], *names[k + 1 :]]


def decimal(number: str) -> Decimal:
    return Decimal(number.replace(",", ""))


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
    return len(value.replace(",", "").replace(".", "").strip("0")) or bool(value)
