"""Trivial policies: what a model could answer without writing a protocol, made from the reference itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..explain.reading import Step

__all__ = ["POLICIES", "Policy", "answers_of"]

SEED = 0  # seed of the shuffles: one generator for all references, in their order


class Written(NamedTuple):
    key: str
    prose: str


class Source(NamedTuple):
    steps: Sequence[Step]
    library: Sequence[str] | None
    generator: random.Random


class Policy(NamedTuple):
    """One policy; `remedy` says what keeps it from being rewarded, or that nothing in the reward does."""

    name: str
    title: str
    construction: str
    remedy: str
    answer: Callable[[Source], Iterable[Written] | None]


def listed(steps: Iterable[Step]) -> list[Written]:
    return [Written(step.text, step.listed) for step in steps]


def shuffled(source: Source) -> list[Written]:
    steps = list(source.steps)
    source.generator.shuffle(steps)
    return listed(steps)


def all_objects(source: Source) -> list[Written]:
    objects = tuple(dict.fromkeys(text for step in source.steps for text in step.objects))
    return listed(step._replace(objects=objects) for step in source.steps)


def library_order(source: Source) -> list[Written] | None:
    return None if source.library is None else listed(map(Step, source.library))


UNSEEN = "reward the prose as well (task lexical with section=orc), or judge it"

POLICIES = (
    Policy(
        "key_as_prose",
        "JSON pasted as prose",
        "The reference's steps; the prose of each is its JSON.",
        "No setting tells pasted JSON from prose. assay score --report counts such rollouts (sign key_as_prose): "
        f"leave them out of training, or {UNSEEN}.",
        lambda source: [Written(step.text, step.text) for step in source.steps],
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
        lambda source: listed(Step(step.action) for step in source.steps),
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
)
"""Every policy. Unless a policy says otherwise, the prose of a step lists its words, so that it covers them."""


def answers_of(steps: Sequence[Step], library: Sequence[str] | None, generator: random.Random) -> list[str]:
    source = Source(steps, library, generator)
    answers = (policy.answer(source) for policy in POLICIES)  # None without the library that a policy needs
    return ["" if steps is None else answer_with(steps) for steps in answers]


def answer_with(steps: Iterable[Written]) -> str:
    steps = list(steps)
    key = "\n".join(f"Step {number}: {step.key}" for number, step in enumerate(steps, 1))
    prose = "\n".join(f"Step {number}: {step.prose}" for number, step in enumerate(steps, 1))
    return f"<think>\n…\n</think>\n<key>\n{key}\n</key>\n<orc>\n{prose}\n</orc>\n<note>\n…\n</note>"
