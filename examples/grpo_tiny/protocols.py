"""Short protocols to learn, and the answers of a policy that knows them but is careless.

The same seed gives the same text on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from rollouts import Dice, key_line

__all__ = ["Protocol", "careless_answer", "new_protocols", "right_answer"]

PROTOCOLS = {
    "harvest yeast cells": """\
        centrifuge the culture at 300 x g
        wash the pellet with 5 ml or 10 ml
        resuspend the cells with 5 ml or 10 ml""",
    "start an overnight culture": """\
        thaw the cells at 4 °C
        mix the cells with 5 ml or 10 ml
        incubate the culture at 37 °C""",
    "stain a protein gel": """\
        rinse the gel for 5 min or 20 min
        stain the gel for 20 min or 2 h
        wash the gel with 10 ml or 50 ml
        dry the gel at 37 °C or 60 °C""",
    "lyse bacteria": """\
        resuspend the pellet with 5 ml or 10 ml
        incubate the cells at 4 °C or 37 °C
        centrifuge the lysate for 20 min
        chill the supernatant at 4 °C""",
    "precipitate DNA with ethanol": """\
        mix the ethanol with 5 ml or 10 ml
        chill the DNA for 20 min or 2 h
        centrifuge the DNA for 5 min or 20 min
        dry the pellet at 37 °C""",
    "dissolve a DNA pellet": """\
        dry the pellet for 5 min or 20 min
        resuspend the DNA with 5 ml
        warm the DNA at 37 °C or 60 °C""",
    "purify a protein on a resin": """\
        rinse the resin with 5 ml or 10 ml
        incubate the lysate for 20 min or 2 h
        wash the resin with 10 ml or 50 ml
        elute the protein with 5 ml""",
    "probe a membrane": """\
        rinse the membrane for 5 min
        incubate the antibody for 20 min or 2 h
        wash the membrane with 10 ml or 50 ml
        dry the membrane at 37 °C""",
    "freeze cultured cells": """\
        centrifuge the cells at 300 x g
        resuspend the cells with 5 ml or 10 ml
        chill the cells at 4 °C""",
    "clear a lysate": """\
        thaw the lysate at 4 °C
        centrifuge the lysate for 20 min or 2 h
        rinse the pellet with 5 ml""",
}
"""The steps by goal; each seed takes one of the amounts of a step."""

STEP = re.compile(r"(\w+) the (\w+) (with|for|at) (.+)")
PREPOSITIONS = {"ml": "with", "min": "for", "h": "for"}
"""What precedes an amount with this unit; temperatures and forces have `at`."""


class Step(NamedTuple):
    action: str
    object: str
    amount: str


class Protocol(NamedTuple):
    """The goal of a prompt, and the steps of the right answer."""

    goal: str
    steps: list[Step]

    @property
    def prompt(self) -> str:
        return f"Write a laboratory protocol to {self.goal}.\n"


WORDS = [found.groups() for found in map(STEP.search, "\n".join(PROTOCOLS.values()).splitlines()) if found]
ACTIONS, OBJECTS = sorted({words[0] for words in WORDS}), sorted({words[1] for words in WORDS})
AMOUNTS = sorted({amount for words in WORDS for amount in words[3].split(" or ")})


def new_protocols(seed: int) -> list[Protocol]:
    """Return a protocol for each goal, with amounts that depend on the seed."""
    dice = Dice(f"protocols/{seed}")
    return [
        Protocol(
            goal,
            [Step(action, name, dice.pick(amounts.split(" or "))) for action, name, _, amounts in STEP.findall(steps)],
        )
        for goal, steps in PROTOCOLS.items()
    ]


def prose(number: int, step: Step) -> str:
    preposition = PREPOSITIONS.get(step.amount.split()[1], "at")
    return f"Step {number}: {step.action.capitalize()} the {step.object} {preposition} {step.amount}."


def written(steps: list[Step], said: list[Step]) -> str:
    """Return a Sketch-and-Fill answer with these key steps and prose steps."""
    key = "\n".join(key_line(number, step.action, [step.object], [step.amount]) for number, step in enumerate(steps, 1))
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
    steps[i] = steps[i]._replace(object=dice.pick(OBJECTS))


def other_amount(dice: Dice, steps: list[Step]) -> None:
    i = dice.below(len(steps))
    steps[i] = steps[i]._replace(amount=dice.pick(AMOUNTS))


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
