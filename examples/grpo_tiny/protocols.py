"""Rows of `assay prepare --trainer trl`, and the answers of a policy that knows their protocols but is careless.

The same seed gives the same answers on every machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rollouts import Dice, key_line

__all__ = [
    *("Protocol", "Step", "careless_answer", "phrases_of", "protocols_of", "read_rows", "right_answer", "right_doses")
]


class Step(NamedTuple):
    """A step of a reference."""

    action: str
    objects: list[str]
    parameters: list[str]


class Protocol(NamedTuple):
    """What is asked, and the steps of the right answer."""

    prompt: str
    steps: list[Step]
    others: Sequence[Step]
    """Steps of all protocols: wrong answers have actions, objects and parameters of these."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows, with their prompts as text; raise ValueError if one is not for the task `score`."""
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        if row["task"] != "score":
            raise ValueError(f"{path}: row {row['id']} is of the task {row['task']}; this example learns only `score`")
        row["prompt"] = prompt_text(row["prompt"])
    return rows


def prompt_text(messages: list[dict[str, str]]) -> str:
    """Return what the user asks: a model that has read nothing gains nothing from the instructions to all prompts."""
    return "".join(message["content"] + "\n" for message in messages if message["role"] == "user")


def protocols_of(rows: list[dict[str, Any]]) -> list[Protocol]:
    """Return the protocol of each row."""
    steps = [steps_of(row["reference"]) for row in rows]
    others = [step for protocol in steps for step in protocol]
    return [Protocol(row["prompt"], own, others) for row, own in zip(rows, steps, strict=True)]


def steps_of(reference: str) -> list[Step]:
    """Return the steps of a reference, which has a line `Step N: {…}` for each."""
    return [Step(**json.loads(line.partition(":")[2])) for line in reference.split("\n")]


def phrases_of(protocol: Protocol) -> list[str]:
    """Return what answers to the prompt repeat: the lines of the prompt, and what the steps name."""
    words = [[step.action, step.action.capitalize(), *step.objects, *step.parameters] for step in protocol.steps]
    return [*filter(None, protocol.prompt.split("\n")), *(word for step in words for word in step)]


def prose(number: int, step: Step) -> str:
    named = f"{step.action.capitalize()} {', '.join(step.objects)}"
    return f"Step {number}: {': '.join([named, ', '.join(step.parameters)]) if step.parameters else named}."


def written(steps: list[Step], said: list[Step]) -> str:
    """Return a Sketch-and-Fill answer with these key steps and prose steps."""
    key = "\n".join(key_line(number, *step) for number, step in enumerate(steps, 1))
    orc = "\n".join(prose(number, step) for number, step in enumerate(said, 1))
    sections = {"think": f"It takes {len(steps)} steps.", "key": key, "orc": orc, "note": "None."}
    return "\n".join(f"<{tag}>\n{text}\n</{tag}>" for tag, text in sections.items())


def right_answer(protocol: Protocol) -> str:
    """Return the answer that gets the full reward."""
    return written(protocol.steps, protocol.steps)


Mistake = Callable[[Dice, list[Step], Sequence[Step]], None]
"""Changes the steps of an answer; the last argument has steps of all protocols."""


def swapped(dice: Dice, steps: list[Step], others: Sequence[Step]) -> None:
    i = dice.below(len(steps) - 1)
    steps[i : i + 2] = steps[i : i + 2][::-1]


def dropped(dice: Dice, steps: list[Step], others: Sequence[Step]) -> None:
    if len(steps) > 2:
        steps.pop(dice.below(len(steps)))


def repeated(dice: Dice, steps: list[Step], others: Sequence[Step]) -> None:
    i = dice.below(len(steps))
    steps.insert(i, steps[i])


def other_action(dice: Dice, steps: list[Step], others: Sequence[Step]) -> None:
    i = dice.below(len(steps))
    steps[i] = steps[i]._replace(action=dice.pick(others).action)


def other_objects(dice: Dice, steps: list[Step], others: Sequence[Step]) -> None:
    i = dice.below(len(steps))
    steps[i] = steps[i]._replace(objects=dice.pick(others).objects)


def other_parameters(dice: Dice, steps: list[Step], others: Sequence[Step]) -> None:
    i = dice.below(len(steps))
    steps[i] = steps[i]._replace(parameters=dice.pick(others).parameters)


MISTAKES: list[Mistake] = [swapped, dropped, repeated, other_action, other_objects, other_parameters]
"""Mistakes in the protocol cost part of the reward; only in the prose, `other_…` fail the consistency gate."""


def other_dose(dice: Dice, dose: str, others: Sequence[Step]) -> str:
    """Return another amount in the same unit, if the steps of all protocols have one."""
    unit = re.sub(r"[\d.,]+", "", dose)
    amounts = {text for step in others for text in step.parameters if re.sub(r"[\d.,]+", "", text) == unit}
    return dice.pick(sorted(amounts - {dose}) or [dose])


def careless_answer(dice: Dice, protocol: Protocol, wrong_doses: float = 0.0) -> str:
    """Return an answer with up to three mistakes, some of them only in its prose.

    wrong_doses: the share of steps whose doses are wrong in addition.
    """
    steps = list(protocol.steps)
    for _ in range(dice.below(4)):
        dice.pick(MISTAKES)(dice, steps, protocol.others)
    if wrong_doses:
        for i, step in enumerate(steps):
            if dice.chance(wrong_doses):
                doses = [other_dose(dice, dose, protocol.others) for dose in step.parameters]
                steps[i] = step._replace(parameters=doses)
    said = list(steps)
    if dice.chance(0.25):
        dice.pick([other_objects, other_parameters, dropped])(dice, said, protocol.others)
    return written(steps, said)


KEY_LINE = re.compile(r"^Step \d+: (\{.*\})$", re.MULTILINE)


def right_doses(answer: str, reference: str) -> float | None:
    """Return the share of steps with the reference's parameters, among those with its action and objects.

    None if there is no such step.
    """
    expected: dict[tuple[Any, ...], list[list[str]]] = {}
    for step in steps_of(reference):
        expected.setdefault((step.action, *step.objects), []).append(step.parameters)
    right = []
    for line in KEY_LINE.findall(answer.partition("<orc>")[0]):
        try:
            step = Step(**json.loads(line))
            doses = expected[step.action, *step.objects]
        except (ValueError, TypeError, KeyError):  # no step, or no step of the reference
            continue
        right.append(step.parameters in doses)
    return sum(right) / len(right) if right else None
