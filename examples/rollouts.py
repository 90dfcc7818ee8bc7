"""Seeded rollouts: references and GRPO-like responses with every kind of fault.

    python examples/rollouts.py --prompts 4 --samples 5 --seed 0 -o examples/rollouts.jsonl

One JSON object per line: id, prompt, reference, response, made from the laboratory protocols in protocols.toml.
The same arguments give the same bytes with every Python version and platform.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
TEMPLATES = tomllib.loads((Path(__file__).parent / "protocols.toml").read_text(encoding="utf-8"))
ANSWERS = TEMPLATES["answers"]
MARKED = re.compile(r"(<[^>]*>|\[[^\]]*\])")
"""An object or a parameter in a step of protocols.toml."""


class Dice:
    """Choices made with random() only, the one method whose sequence no Python version may change."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed).random

    def below(self, n: int) -> int:
        return int(self.random() * n)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def few(self, choices: Sequence[T], count: int) -> list[T]:
        remaining = list(choices)
        return [remaining.pop(self.below(len(remaining))) for _ in range(min(count, len(remaining)))]

    def chance(self, share: float) -> bool:
        return self.random() < share

    def weighted(self, choices: Mapping[T, int]) -> T:
        return self.pick([choice for choice, weight in choices.items() for _ in range(weight)])


class Part(NamedTuple):
    """An object or a parameter where it occurs in the prose of a step."""

    text: str
    is_object: bool
    wrong: list[str]
    """Texts that wrong answers have instead."""
    in_key: bool = True


class Step(NamedTuple):
    action: str
    sentence: list[str | Part]
    """The text after the action."""
    aside: str

    @property
    def parts(self) -> list[Part]:
        return [piece for piece in self.sentence if isinstance(piece, Part) and piece.in_key]

    @property
    def objects(self) -> list[str]:
        return [part.text for part in self.parts if part.is_object]

    @property
    def parameters(self) -> list[str]:
        return [part.text for part in self.parts if not part.is_object]

    def with_part(self, old: Part, new: Part) -> Step:
        return self._replace(sentence=[new if piece is old else piece for piece in self.sentence])


class Protocol(NamedTuple):
    goal: str
    steps: list[Step]
    extra: list[Step]
    think: list[str]
    notes: list[str]

    @property
    def materials(self) -> list[str]:
        return list(dict.fromkeys(name for step in self.steps + self.extra for name in step.objects))


class Draft(NamedTuple):
    """An answer before its sections are joined: key and orc are lists of lines."""

    steps: list[Step]
    think: str
    key: list[str]
    orc: list[str]
    note: str


# The protocol


def new_part(dice: Dice, marked: str, vary: dict[str, list[str]], values: dict[str, str]) -> Part:
    right, _, wrong = marked[1:-1].partition("!")
    choices = right.split("|")
    text = dice.pick(choices)
    alternatives = [choice for choice in [*choices, *filter(None, wrong.split("|"))] if choice != text]
    for name in re.findall(r"\{(\w+)\}", text):
        alternatives += [text.format_map({**values, name: value}) for value in vary[name] if value != values[name]]
    return Part(text.format_map(values), marked[0] == "<", [choice.format_map(values) for choice in alternatives])


def new_step(dice: Dice, line: str, vary: dict[str, list[str]], values: dict[str, str]) -> Step:
    instruction, _, aside = line.removeprefix("? ").partition("; ")
    action, _, details = instruction.partition(" ")
    sentence = [
        new_part(dice, piece, vary, values) if MARKED.match(piece) else piece.format_map(values)
        for piece in MARKED.split(f" {details}")
    ]
    return Step(action.lower(), sentence, aside.format_map(values))


def new_protocol(dice: Dice, template: dict[str, Any]) -> Protocol:
    """Return the protocol with one of its values for everything that may vary."""
    vary = template["vary"]
    values = {name: dice.pick(choices) for name, choices in vary.items()}
    lines = [line for line in template["steps"].splitlines() if not line.startswith("?") or dice.chance(0.25)]
    return Protocol(
        template["goal"].format_map(values),
        [new_step(dice, line, vary, values) for line in lines],
        [new_step(dice, line, vary, values) for line in template["extra"].splitlines()],
        template["think"].format_map(values).splitlines(),
        template["notes"].splitlines(),
    )


def prompt_for(protocol: Protocol) -> str:
    """Return the task and the form of the answer, as a policy is asked for it."""
    actions = ", ".join(sorted({step.action for step in protocol.steps}))
    return (
        f"Write a laboratory protocol to {protocol.goal}. Use only these actions: {actions}.\n\n"
        "Answer in four sections, each with its closing tag:\n"
        "<think> your reasoning\n"
        '<key> a line for each step, such as Step 1: {"action": "…", "objects": ["…"], "parameters": ["…"]}\n'
        "<orc> the same steps in prose, such as Step 1: …, with every word of the step's line in <key>\n"
        "<note> safety and quality control"
    )


# Mistakes in the protocol: the response passes the gates, the reward is lower


def swap_steps(dice: Dice, protocol: Protocol, steps: list[Step]) -> list[Step]:
    i = dice.below(len(steps) - 1)
    return [*steps[:i], steps[i + 1], steps[i], *steps[i + 2 :]]


def miss_step(dice: Dice, protocol: Protocol, steps: list[Step]) -> list[Step]:
    i = dice.below(len(steps))
    return steps[:i] + steps[i + 1 :]


def add_step(dice: Dice, protocol: Protocol, steps: list[Step]) -> list[Step]:
    i = dice.below(len(steps) + 1)
    return [*steps[:i], dice.pick(protocol.extra), *steps[i:]]


def repeat_step(dice: Dice, protocol: Protocol, steps: list[Step]) -> list[Step]:
    i = dice.below(len(steps))
    return steps[: i + 1] + steps[i:]


def change_action(dice: Dice, protocol: Protocol, step: Step) -> Step:
    return step._replace(action=dice.pick(ANSWERS["synonyms"].get(step.action, ["prepare"])))


def change_object(dice: Dice, protocol: Protocol, step: Step) -> Step:
    part = dice.pick([part for part in step.parts if part.is_object])
    wrong = part.wrong or [name for name in protocol.materials if name not in step.objects]
    return step.with_part(part, part._replace(text=dice.pick(wrong)))


def change_parameter(dice: Dice, protocol: Protocol, step: Step) -> Step:
    changeable = [part for part in step.parts if not part.is_object and part.wrong]
    if not changeable:
        return change_action(dice, protocol, step)
    part = dice.pick(changeable)
    return step.with_part(part, part._replace(text=dice.pick(part.wrong)))


def drop_parameter(dice: Dice, protocol: Protocol, step: Step) -> Step:
    """Leave a parameter out of the key step; the prose keeps it."""
    parameters = [part for part in step.parts if not part.is_object]
    if not parameters:
        return change_object(dice, protocol, step)
    part = dice.pick(parameters)
    return step.with_part(part, part._replace(in_key=False))


def change_step(dice: Dice, protocol: Protocol, steps: list[Step]) -> list[Step]:
    i = dice.below(len(steps))
    change = dice.pick([change_action, change_object, change_parameter, drop_parameter])
    return [*steps[:i], change(dice, protocol, steps[i]), *steps[i + 1 :]]


MISTAKES = {change_step: 10, swap_steps: 2, miss_step: 3, add_step: 3, repeat_step: 2}


# Writing it down

ASIDE_SHARE = 0.65
"""Share of the prose steps that say more than the key step."""


def spelled(text: str, spellings: dict[str, str]) -> str:
    """Return a parameter with its unit as in `spellings`, except in the singular."""
    for unit, spelling in spellings.items():
        if text.endswith(unit) and text != f"1{unit}":
            return text.removesuffix(unit) + spelling
    return text


def key_line(number: int, action: str, objects: list[str], parameters: list[str], ascii_only: bool = False) -> str:
    fields = {"action": action, "objects": objects, "parameters": parameters}
    return f"Step {number}: {json.dumps(fields, ensure_ascii=ascii_only)}"


def key_lines(dice: Dice, steps: list[Step]) -> list[str]:
    ascii_only, notations = dice.chance(0.12), ANSWERS["notations"] if dice.chance(0.25) else {}
    return [
        key_line(number, step.action, step.objects, [spelled(p, notations) for p in step.parameters], ascii_only)
        for number, step in enumerate(steps, 1)
    ]


def instruction(step: Step, write: Callable[[str], str]) -> str:
    """Return the step as a sentence without its aside, each parameter as `write` writes it."""
    pieces = (
        piece if isinstance(piece, str) else piece.text if piece.is_object else write(piece.text)
        for piece in step.sentence
    )
    return step.action.capitalize() + "".join(pieces)


def orc_line(dice: Dice, number: int, step: Step, wordy: bool) -> str:
    text = instruction(step, lambda parameter: spelled(parameter, ANSWERS["spellings"] if dice.chance(0.5) else {}))
    if dice.chance(0.03):
        text = text.replace(" for ", "\n   for ", 1)
    asides = [step.aside] if wordy or dice.chance(ASIDE_SHARE) else []
    if wordy:
        asides.append(dice.pick(ANSWERS["phrases"]["wordy"]))
    return f"Step {number}: {', '.join([text, *asides])}."


def thinking(dice: Dice, protocol: Protocol, steps: list[Step]) -> str:
    thoughts = sorted(dice.few(range(1, len(protocol.think)), 5 + dice.below(3)))
    checks = dice.few(ANSWERS["phrases"]["checks"], dice.below(3))
    return " ".join([protocol.think[0], *(protocol.think[k] for k in thoughts), *checks]).format(steps=len(steps))


def draft(dice: Dice, protocol: Protocol, steps: list[Step]) -> Draft:
    wordy = dice.chance(0.12)
    return Draft(
        steps,
        thinking(dice, protocol, steps),
        key_lines(dice, steps),
        [orc_line(dice, number, step, wordy) for number, step in enumerate(steps, 1)],
        " ".join(dice.few(protocol.notes, 2 + dice.below(2))),
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


def vaguely(parameter: str) -> str:
    phrase: str = next(said for pattern, said in ANSWERS["vague"].items() if re.search(pattern, parameter))
    return phrase


def low_coverage(dice: Dice, answer: Draft) -> None:
    i = dice.below(len(answer.orc))
    vague = f"Step {i + 1}: {instruction(answer.steps[i], vaguely)}."
    forgetful = " ".join(answer.orc[i].split()[: 5 + dice.below(3)])
    answer.orc[i] = dice.pick([f"Step {i + 1}: Proceed as above.", forgetful, vague, vague])


def think_not_opened(dice: Dice, text: str) -> str:
    return text.removeprefix("<think>\n")


def missing_sections(dice: Dice, text: str) -> str:
    if dice.chance(0.25):
        tag = dice.pick(["<key>", "</key>", "<orc>", "</orc>", "<note>"])
        return text.replace(tag, dice.pick(["", "##"]), 1)
    return text[: int(len(text) * (0.2 + 0.75 * dice.random()))].removesuffix("</note>")


PASS_SHARE = 0.67
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
        text = dice.pick(ANSWERS["phrases"]["openers"]) + text
    return text + dice.pick(ANSWERS["phrases"]["endings"]) if dice.chance(0.3) else text


def new_response(dice: Dice, protocol: Protocol) -> str:
    steps = protocol.steps
    for _ in range(dice.weighted({0: 4, 1: 6, 2: 4, 3: 2, 5: 1})):
        if len(steps) > 2:
            steps = dice.weighted(MISTAKES)(dice, protocol, steps)
    answer = draft(dice, protocol, steps)
    if dice.chance(PASS_SHARE):
        return dressed(dice, written(answer))
    fault: Any = dice.weighted(IN_LINES | IN_TEXT)
    if fault in IN_TEXT:
        damaged: str = fault(dice, written(answer))
        return damaged
    fault(dice, answer)
    return dressed(dice, written(answer))


# Public functions


def generate(prompts: int, samples: int, seed: int = 0) -> Iterator[dict[str, str]]:
    """Yield `prompts` groups of `samples` rollouts: id, prompt, reference and response, about 2 KB per response.

    A group depends only on the seed and its number. References are valid: complete answers, some only key lines.
    """
    templates = TEMPLATES["protocols"]
    for p in range(prompts):
        dice = Dice(f"{seed}/{p}")
        protocol = new_protocol(dice, templates[p % len(templates)])
        golden = draft(dice, protocol, protocol.steps)
        reference = "\n".join(golden.key) if dice.chance(0.15) else written(golden)
        prompt = prompt_for(protocol)
        for s in range(samples):
            response = new_response(dice, protocol)
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
