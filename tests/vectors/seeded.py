"""Protocols and answers drawn with a seed: the same ones on every machine and Python."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Step = dict[str, Any]

ACTIONS = ("add", "Mix", "spin down", "centrifuge", "incubate", "wash", "elute", "vortex", "transfer", "ＰＣＲ")
OBJECTS = (
    "cell pellet",
    "lysis buffer",
    "Lysis Buffer",
    "buffer",
    "PBS",
    "cold PBS",
    "β-actin antibody",
    "10× PBS",
    "RNA",
    "MgCl₂",
    "tube (1.5 ml)",
    "4′,6-diamidino-2-phenylindole",
)
PARAMETERS = (
    "5 min",
    "5 minutes",
    "300 × g",
    "300 xg",
    "12,000 rpm",
    "4 °C",
    "4 ℃",
    "−80 °C",
    "10 µl",
    "10 ul",
    "0.5 mM",
    "3–5 h",
    "70 % ethanol",
    "overnight",
    "1:1000",
)
NOISE = ("x", "…", "7", "<key>", "Step 1", "½", "é", "的", "\t", '"', "\\", "{}", "–", "ﬁ")


class Dice:
    """Draws by `random.random` alone, whose sequence never changes."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def below(self, size: int) -> int:
        return int(self._random.random() * size)

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def one(self, values: Sequence[T]) -> T:
        return values[self.below(len(values))]

    def some(self, values: Sequence[T], most: int) -> list[T]:
        return [self.one(values) for _ in range(self.below(most + 1))]


def step(dice: Dice) -> Step:
    return {
        "action": dice.one(ACTIONS),
        "objects": dice.some(OBJECTS, 3),
        "parameters": dice.some(PARAMETERS, 3),
    }


def protocol(dice: Dice, most: int = 8) -> list[Step]:
    return [step(dice) for _ in range(1 + dice.below(most))]


def revised(dice: Dice, steps: list[Step]) -> list[Step]:
    """Return a prediction of a reference: steps kept, changed, dropped, added and exchanged."""
    found: list[Step] = []
    for one in steps:
        if dice.chance(0.12):
            continue
        kept = {name: value if isinstance(value, str) else list(value) for name, value in one.items()}
        if dice.chance(0.1):
            kept["action"] = dice.one(ACTIONS)
        for name, values in (("objects", OBJECTS), ("parameters", PARAMETERS)):
            if dice.chance(0.25):
                kept[name].append(dice.one(values))
            if kept[name] and dice.chance(0.2):
                kept[name].pop(dice.below(len(kept[name])))
        found.append(kept)
        if dice.chance(0.1):
            found.append(step(dice))
    if len(found) > 1 and dice.chance(0.25):
        k = dice.below(len(found) - 1)
        found[k], found[k + 1] = found[k + 1], found[k]
    return found or [step(dice)]


def prose(dice: Dice, one: Step) -> str:
    words = [one["action"], *one["objects"], *one["parameters"], *dice.some(("carefully", "then", "on ice"), 4)]
    if dice.chance(0.04):
        words.pop(dice.below(len(words)))
    if dice.chance(0.05):
        words += ["so"] * 40
    return " ".join(words)


def key_lines(steps: list[Step]) -> str:
    return "\n".join(f"Step {i}: {json.dumps(one, ensure_ascii=False)}" for i, one in enumerate(steps, 1))


def answer(dice: Dice, steps: list[Step]) -> str:
    """Return an answer that covers its steps, mostly."""
    orc = "\n".join(f"Step {i}: {prose(dice, one)}." for i, one in enumerate(steps, 1))
    sections = {"think": "A plan.", "key": key_lines(steps), "orc": orc, "note": "None."}
    return "\n\n".join(f"<{tag}>\n{text}\n</{tag}>" for tag, text in sections.items())


def damaged(dice: Dice, text: str) -> str:
    """Return the text with up to three characters or words changed, dropped or inserted."""
    for _ in range(1 + dice.below(3)):
        at = dice.below(len(text))
        text = text[:at] + ("" if dice.chance(0.4) else dice.one(NOISE)) + text[at + dice.below(3) :]
    return text


def settings(dice: Dice) -> dict[str, Any]:
    """Return some settings of the reward with values that are not their defaults."""
    known: dict[str, Sequence[Any]] = {
        "order": ("lcs",),
        "semantics": ("product",),
        "total": ("sum",),
        "content_denominator": ("max_len",),
        "length_penalty": ("relative",),
        "reward_scale": ("raw", "double", "shift"),
        "min_coverage": (0.0, 0.5, 0.9, 1.0),
        "max_mean_words": (2.5, 8.0, 12.0),
        "position_decay": (0.5, 1.0, 3.0),
        "use_step_gap": (False,),
        "use_length": (False,),
        "use_position": (False,),
        "use_order": (False,),
    }
    return {name: dice.one(values) for name, values in known.items() if dice.chance(0.3)}
