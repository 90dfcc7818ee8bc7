"""Short protocols to learn, and the answers of a policy that knows them but is careless.

The vocabulary is that of ../vocabulary.json, which ../rollouts.py reads; it makes no scientific sense. The same seed
gives the same text on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rollouts import VOCABULARY, Dice, Parameter, Step, key_line

__all__ = ["Protocol", "careless_answer", "new_protocols", "right_answer"]

ACTIONS, OBJECTS = VOCABULARY["actions"][:12], [name for name in VOCABULARY["objects"] if name.isascii()][:12]
AMOUNTS = [Parameter(text, text) for text in ("5 ml", "20 min", "4 °C", "300 x g", "2 h", "50 mM", "12 mg", "37 °C")]


class Protocol(NamedTuple):
    """The goal of a prompt, and the steps of the right answer."""

    goal: str
    steps: list[Step]

    @property
    def prompt(self) -> str:
        return f"Write a laboratory protocol to {self.goal}.\n"


def new_step(dice: Dice) -> Step:
    return Step(dice.pick(ACTIONS), [dice.pick(OBJECTS)], [dice.pick(AMOUNTS)])


def new_protocols(seed: int) -> list[Protocol]:
    """Return a protocol of three or four steps for each goal of the vocabulary."""
    dice = Dice(f"protocols/{seed}")
    return [Protocol(goal, [new_step(dice) for _ in range(3 + dice.below(2))]) for goal in VOCABULARY["goals"]]


def prose(number: int, step: Step) -> str:
    details = "".join(f" at {parameter.prose}" for parameter in step.parameters)
    return f"Step {number}: {step.action.capitalize()} the {' and the '.join(step.objects)}{details}."


def written(steps: list[Step], said: list[Step]) -> str:
    """Return a Sketch-and-Fill answer with these key steps and prose steps."""
    key = "\n".join(key_line(number, step) for number, step in enumerate(steps, 1))
    orc = "\n".join(prose(number, step) for number, step in enumerate(said, 1))
    think = f"It takes {len(steps)} steps."
    return f"<think>{think}</think>\n<key>\n{key}\n</key>\n<orc>\n{orc}\n</orc>\n<note>None.</note>"


def right_answer(protocol: Protocol) -> str:
    """Return the answer that gets the full reward."""
    return written(protocol.steps, protocol.steps)


def swapped(dice: Dice, steps: list[Step]) -> None:
    i = dice.below(len(steps) - 1)
    steps[i], steps[i + 1] = steps[i + 1], steps[i]


def dropped(dice: Dice, steps: list[Step]) -> None:
    if len(steps) > 2:
        steps.pop(dice.below(len(steps)))


def repeated(dice: Dice, steps: list[Step]) -> None:
    i = dice.below(len(steps))
    steps.insert(i, steps[i])


def other_object(dice: Dice, steps: list[Step]) -> None:
    i = dice.below(len(steps))
    steps[i] = steps[i]._replace(objects=[dice.pick(OBJECTS)])


def other_amount(dice: Dice, steps: list[Step]) -> None:
    i = dice.below(len(steps))
    steps[i] = steps[i]._replace(parameters=[dice.pick(AMOUNTS)])


def other_action(dice: Dice, steps: list[Step]) -> None:
    i = dice.below(len(steps))
    steps[i] = steps[i]._replace(action=dice.pick(ACTIONS))


Mistake = Callable[[Dice, list[Step]], None]

MISTAKES: list[Mistake] = [
    swapped,
    dropped,
    repeated,
    other_object,
    other_amount,
    other_action,
]
"""Mistakes in the protocol cost part of the reward; only in the prose, `other_…` fail the consistency gate."""


def careless_answer(dice: Dice, protocol: Protocol) -> str:
    """Return an answer with up to three mistakes, some of them only in its prose."""
    steps = list(protocol.steps)
    for _ in range(dice.below(4)):
        dice.pick(MISTAKES)(dice, steps)
    said = list(steps)
    if dice.chance(0.25):
        dice.pick([other_object, other_amount, dropped])(dice, said)
    return written(steps, said)
