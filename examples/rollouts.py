"""Seeded rollouts: references and GRPO-like responses with every kind of fault.

    python examples/rollouts.py --prompts 4 --samples 5 --seed 0 -o examples/rollouts.jsonl

One JSON object per line: id, prompt, reference, response. The laboratory vocabulary is in vocabulary.json and makes no
scientific sense. The same arguments give the same bytes with every Python version and platform.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
VOCABULARY = json.loads((Path(__file__).parent / "vocabulary.json").read_text(encoding="utf-8"))


class Dice:
    """Choices made with random() only, the one method whose sequence no Python version may change."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed).random

    def below(self, n: int) -> int:
        return int(self.random() * n)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def few(self, choices: Sequence[T], count: int) -> list[T]:
        rest = list(choices)
        return [rest.pop(self.below(len(rest))) for _ in range(count)]

    def chance(self, share: float) -> bool:
        return self.random() < share

    def weighted(self, choices: dict[T, int]) -> T:
        return self.pick([choice for choice, weight in choices.items() for _ in range(weight)])


class Parameter(NamedTuple):
    key: str
    prose: str


class Step(NamedTuple):
    action: str
    objects: list[str]
    parameters: list[Parameter]


class Draft(NamedTuple):
    """An answer before its sections are joined: key and orc are lists of lines."""

    think: str
    key: list[str]
    orc: list[str]
    note: str


# The protocol


def new_parameter(dice: Dice) -> Parameter:
    key, prose, values = dice.pick(VOCABULARY["parameters"])
    value = dice.pick(values)
    return Parameter(key.format(value), prose.format(value))


def new_step(dice: Dice) -> Step:
    objects = dice.few(VOCABULARY["objects"], 1 + dice.below(3))
    return Step(dice.pick(VOCABULARY["actions"]), objects, [new_parameter(dice) for _ in range(dice.below(4))])


def new_protocol(dice: Dice) -> list[Step]:
    return [new_step(dice) for _ in range(3 + dice.below(3) + dice.below(4))]


def prompt_for(goal: str, steps: list[Step]) -> str:
    actions = ", ".join(f'"{action}"' for action in dict.fromkeys(step.action for step in steps))
    return (
        f"Write a laboratory protocol to {goal}. Answer with <think>, <key>, <orc> and <note>, each step of <key> "
        f"being one JSON object with action, objects and parameters. Use only these actions: {actions}."
    )


# Mistakes in the protocol: the response passes the gates, the reward is lower


def swap_steps(dice: Dice, steps: list[Step]) -> list[Step]:
    i, j = sorted(dice.few(range(len(steps)), 2))
    return [*steps[:i], steps[j], *steps[i + 1 : j], steps[i], *steps[j + 1 :]]


def miss_step(dice: Dice, steps: list[Step]) -> list[Step]:
    i = dice.below(len(steps))
    return steps[:i] + steps[i + 1 :]


def add_step(dice: Dice, steps: list[Step]) -> list[Step]:
    i = dice.below(len(steps) + 1)
    return [*steps[:i], new_step(dice), *steps[i:]]


def repeat_step(dice: Dice, steps: list[Step]) -> list[Step]:
    i = dice.below(len(steps))
    return steps[: i + 1] + steps[i:]


def change_step(dice: Dice, steps: list[Step]) -> list[Step]:
    i = dice.below(len(steps))
    step, other = steps[i], new_step(dice)
    changes: list[dict[str, Any]] = [
        {"action": other.action},
        {"objects": step.objects[1:] + other.objects[:1]},
        {"parameters": step.parameters[1:]},
        {"parameters": [*step.parameters[1:], new_parameter(dice)]},
    ]
    return [*steps[:i], step._replace(**dice.pick(changes)), *steps[i + 1 :]]


MISTAKES = {change_step: 10, swap_steps: 2, miss_step: 3, add_step: 3, repeat_step: 2}


# Writing it down


def key_line(number: int, step: Step, ascii_only: bool = False) -> str:
    fields = {"action": step.action, "objects": step.objects, "parameters": [p.key for p in step.parameters]}
    return f"Step {number}: {json.dumps(fields, ensure_ascii=ascii_only)}"


def orc_line(dice: Dice, number: int, step: Step, wordy: bool) -> str:
    details = [dice.pick(parameter) if dice.chance(0.3) else parameter.prose for parameter in step.parameters]
    clause = " ".join(dice.few(VOCABULARY["purposes"], 3)) if wordy else dice.pick(VOCABULARY["purposes"])
    tail = f", {clause}" if wordy or dice.chance(0.35) else ""
    break_line = "\n   " if dice.chance(0.03) else " "
    objects = " and the ".join(step.objects)
    return (
        f"Step {number}: {step.action.capitalize()} the {objects}{break_line}{', '.join(details)}".rstrip() + f"{tail}."
    )


def thinking(dice: Dice, goal: str, steps: list[Step]) -> str:
    sentences = []
    for template in [VOCABULARY["reasoning"][0], *dice.few(VOCABULARY["reasoning"][1:], 3 + dice.below(6))]:
        step = dice.pick(steps)
        sentences.append(template.format(goal=goal, action=step.action, object=dice.pick(step.objects)))
    return " ".join(sentences)


def draft(dice: Dice, goal: str, steps: list[Step]) -> Draft:
    ascii_only, wordy = dice.chance(0.12), dice.chance(0.12)
    return Draft(
        thinking(dice, goal, steps),
        [key_line(i, step, ascii_only) for i, step in enumerate(steps, 1)],
        [orc_line(dice, i, step, wordy) for i, step in enumerate(steps, 1)],
        " ".join(dice.few(VOCABULARY["notes"], 2 + dice.below(2))),
    )


def written(answer: Draft) -> str:
    think, key, orc, note = answer.think, "\n".join(answer.key), "  \n".join(answer.orc), answer.note
    return f"<think>\n{think}\n</think>\n\n<key>\n{key}\n</key>\n\n<orc>\n{orc}\n</orc>\n\n<note>\n{note}\n</note>"


# Faults that fail a gate, named after their reason. Each edits the draft's lines or the text


def edit_one(dice: Dice, lines: list[str], edits: list[Callable[[str], str]]) -> None:
    i = dice.below(len(lines))
    lines[i] = dice.pick(edits)(lines[i])


def too_long(dice: Dice, answer: Draft) -> None:
    """Repeat the same words until the token budget is spent, as sampling may."""
    last = len(answer.orc)
    answer.orc.extend(f"Step {i}: Rinse." for i in range(last + 1, last + 1025 + dice.below(80)))


def no_steps(dice: Dice, answer: Draft) -> None:
    answer.key[:] = dice.pick([[], ["", "  "]])


def bad_step_line(dice: Dice, answer: Draft) -> None:
    edits = [lambda s: f"- {s}", lambda s: s + ",", lambda s: s.replace("Step ", "", 1), lambda s: s[:-1]]
    edit_one(dice, answer.key, edits)


def bad_step_json(dice: Dice, answer: Draft) -> None:
    edits = [
        lambda s: s.replace('"', "'"),
        lambda s: s[:-1] + ",}",
        lambda s: s.replace('"objects":', "objects:"),
        lambda s: s.replace("]}", "}"),
        lambda s: s.replace('"action": "', '"action": "\\ud83d'),
    ]
    edit_one(dice, answer.key, edits)


def bad_step_schema(dice: Dice, answer: Draft) -> None:
    edits = [
        lambda s: s.replace('"objects"', '"object"'),
        lambda s: s[:-1] + ', "comment": null}',
        lambda s: s.replace('"parameters": [', '"parameters": [5, ').replace(", ]", "]"),
        lambda s: s.replace('"action": "', '"action": "…", "verb": "'),
    ]
    edit_one(dice, answer.key, edits)


def renumber(dice: Dice, lines: list[str]) -> None:
    i = dice.below(len(lines))
    lines[i] = lines[i].replace(f"Step {i + 1}", f"Step {dice.pick([0, i, i + 2, 11 * (i + 1)])}", 1)


def key_numbering(dice: Dice, answer: Draft) -> None:
    renumber(dice, answer.key)


def orc_numbering(dice: Dice, answer: Draft) -> None:
    renumber(dice, answer.orc)


def step_count(dice: Dice, answer: Draft) -> None:
    answer.orc.pop()
    if dice.chance(0.5):
        answer.key.pop()
        answer.key.pop()


def low_coverage(dice: Dice, answer: Draft) -> None:
    i = dice.below(len(answer.orc))
    forgetful = " ".join(answer.orc[i].split()[: 5 + dice.below(5)])
    answer.orc[i] = dice.pick([f"Step {i + 1}: Proceed as above.", forgetful, forgetful])


def think_not_opened(dice: Dice, text: str) -> str:
    return text.removeprefix("<think>\n")


def missing_sections(dice: Dice, text: str) -> str:
    if dice.chance(0.25):
        tag = dice.pick(["<key>", "</key>", "<orc>", "</orc>", "<note>"])
        return text.replace(tag, dice.pick(["", "##"]), 1)
    return text[: int(len(text) * (0.2 + 0.75 * dice.random()))].removesuffix("</note>")


OPEN_SHARE = 0.67
IN_TEXT = {missing_sections: 9, think_not_opened: 5}
IN_LINES = {low_coverage: 16, step_count: 8, bad_step_json: 8, bad_step_schema: 6, bad_step_line: 5}
IN_LINES |= {key_numbering: 4, orc_numbering: 4, no_steps: 2, too_long: 1}


def dressed(dice: Dice, text: str) -> str:
    """Add harmless variations: capital tags, carriage returns, `step 01`, text before and tokens after the answer."""
    if dice.chance(0.04):
        for tag in ("think", "key", "orc", "note"):
            text = text.replace(f"<{tag}>", f"<{tag.upper()}>").replace(f"</{tag}>", f"</{tag.upper()}>")
    if dice.chance(0.05):
        text = text.replace("\n", "\r\n")
    if dice.chance(0.04):
        text = text.replace("\nStep ", "\nstep 0")
    if dice.chance(0.06):
        text = dice.pick(VOCABULARY["openers"]) + text
    return text + dice.pick(VOCABULARY["endings"]) if dice.chance(0.3) else text


def new_response(dice: Dice, goal: str, protocol: list[Step]) -> str:
    steps = protocol
    for _ in range(dice.weighted({0: 4, 1: 6, 2: 4, 3: 2, 5: 1})):
        if len(steps) > 2:
            steps = dice.weighted(MISTAKES)(dice, steps)
    answer = draft(dice, goal, steps)
    if dice.chance(OPEN_SHARE):
        return dressed(dice, written(answer))
    fault: Any = dice.weighted(IN_LINES | IN_TEXT)
    if fault in IN_TEXT:
        return fault(dice, written(answer))
    fault(dice, answer)
    return dressed(dice, written(answer))


# Public functions


def generate(prompts: int, samples: int, seed: int = 0) -> Iterator[dict[str, str]]:
    """Yield `prompts` groups of `samples` rollouts: id, prompt, reference and response, about 2 KB per response.

    A group depends only on the seed and its number. References are valid: complete answers, some only key lines.
    """
    for p in range(prompts):
        dice = Dice(f"{seed}/{p}")
        goal, protocol = dice.pick(VOCABULARY["goals"]), new_protocol(dice)
        golden = draft(dice, goal, protocol)
        reference = "\n".join(golden.key) if dice.chance(0.15) else written(golden)
        prompt = prompt_for(goal, protocol)
        for s in range(samples):
            response = new_response(dice, goal, protocol)
            yield {"id": f"p{p:04d}-s{s}", "prompt": prompt, "reference": reference, "response": response}


def as_request(rollouts: Iterable[dict[str, str]]) -> dict[str, Any]:
    """Return the body of /v1/score for these rollouts, each distinct reference once."""
    place: dict[str, int] = {}
    responses, index = [], []
    for rollout in rollouts:
        responses.append(rollout["response"])
        index.append(place.setdefault(rollout["reference"], len(place)))
    return {"references": list(place), "responses": responses, "reference_index": index}


def main() -> None:
    parser = argparse.ArgumentParser(description="Write seeded rollouts as JSON lines.")
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--samples", type=int, default=5, help="responses per prompt")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, help="output file (default: standard output)")
    chosen = parser.parse_args()
    lines = (json.dumps(r, ensure_ascii=False) for r in generate(chosen.prompts, chosen.samples, chosen.seed))
    text = "".join(line + "\n" for line in lines).encode()
    if chosen.output:
        chosen.output.write_bytes(text)
    else:
        sys.stdout.buffer.write(text)


if __name__ == "__main__":
    main()
