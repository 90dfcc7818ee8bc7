"""Changes of a protocol: some destroy what it means, others are other words for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from ...service.explain.reading import Text, read_response
from ...service.scoring.texts import utf8
from .policies import DOSE, RATIO, converted, limited, multiplied, reversed_ratios


class Step(NamedTuple):
    action: str
    objects: tuple[str, ...]
    parameters: tuple[str, ...]
    prose: str


class Answer(NamedTuple):
    """before: what the prose has before its first step."""

    steps: tuple[Step, ...]
    before: str = ""
    think: str = "Plan first."
    note: str = "Wear gloves."

    @property
    def text(self) -> str:
        key, prose = [], [self.before] if self.before else []
        for number, step in enumerate(self.steps, 1):
            fields = {"action": step.action, "objects": step.objects, "parameters": step.parameters}
            key.append(f"Step {number}: {json.dumps(fields, ensure_ascii=False)}")
            prose.append(f"Step {number}: {step.prose}")
        sections = {"think": self.think, "key": "\n".join(key), "orc": "\n".join(prose), "note": self.note}
        return "\n".join(f"<{tag}>\n{text}\n</{tag}>" for tag, text in sections.items())


Change = Callable[[Answer], Answer]
"""Returns the answer itself if there is nothing to change."""


def answer_in(response: str) -> Answer | None:
    """Return the steps of a whole answer; None without steps, or if plan and prose have different numbers of them."""
    reading = read_response(Text(utf8(response)), think_prefilled=False)
    if not reading.valid or not len(reading.valid) == len(reading.lines) == len(reading.prose):
        return None
    steps = []
    for line, prose in zip(reading.lines, reading.prose, strict=True):
        objects, parameters = (tuple(phrase.text for phrase in of) for of in (line.objects, line.parameters))
        steps.append(Step(line.action.text, objects, parameters, reading.text.part(prose.body, prose.end).strip()))
    return Answer(tuple(steps))


def replaced(prose: str, text: str, other: str) -> str:
    return re.sub(rf"(?<![\w.:]){re.escape(text)}(?!\w)", lambda _: other, prose, count=1)


def in_step(change: Callable[[Step], Step], first: bool = True) -> Change:
    """Return a change of the first step that it changes, or of all."""

    def changed(answer: Answer) -> Answer:
        steps = list(answer.steps)
        for i, step in enumerate(steps):
            steps[i] = change(step)
            if first and steps[i] != step:
                break
        return answer._replace(steps=tuple(steps))

    return changed


def in_parameters(change: Callable[[str], str], first: bool = False) -> Change:
    """Return a change of parameters, in the plan and in the prose: of all, or of the first that it changes."""

    def changed(step: Step) -> Step:
        for k, text in enumerate(step.parameters):
            other = change(text)
            if other != text:
                parameters = (*step.parameters[:k], other, *step.parameters[k + 1 :])
                step = step._replace(parameters=parameters, prose=replaced(step.prose, text, other))
                if first:
                    break
        return step

    return in_step(changed, first)


def in_doses(change: Callable[[re.Match[str]], str], first: bool = False) -> Change:
    return in_parameters(lambda text: DOSE.sub(change, text), first)


def in_prose(change: Callable[[str], str], first: bool = False) -> Change:
    return in_step(lambda step: step._replace(prose=change(step.prose)), first)


OTHER_UNITS = {"µl": "ml", "ml": "µl", "µg": "mg", "mg": "µg", "ng": "µg", "mM": "M", "µM": "mM"}


def other_unit(dose: re.Match[str]) -> str:
    return dose[0].removesuffix(dose[5]) + OTHER_UNITS.get(dose[5], dose[5])


def hours(text: str) -> str:
    return re.sub(r"\bmin$", "h", text)


def negative(text: str) -> str:
    return f"-{text}" if re.match(r"\d+ °C$", text) else text


def as_range(dose: re.Match[str]) -> str:
    return f"{dose[2]}-{multiplied(dose)}" if dose[3] is None else dose[0]


def without_dose(step: Step) -> Step:
    for text in filter(DOSE.search, step.parameters):
        prose = " ".join(replaced(step.prose, text, "").split())
        return step._replace(parameters=tuple(other for other in step.parameters if other != text), prose=prose)
    return step


def with_dose(step: Step) -> Step:
    if any("°C" in text for text in step.parameters):
        return step
    return step._replace(parameters=(*step.parameters, "95 °C"), prose=f"{step.prose[:-1]} at 95 °C.")


def listed(step: Step) -> Step:
    return step._replace(prose=f"{step.action.capitalize()} {', '.join((*step.objects, *step.parameters))}.")


def doses_of_two_steps(answer: Answer) -> Answer:
    if len(answer.steps) < 2:
        return answer
    first, second, *others = answer.steps
    first, second = first._replace(parameters=second.parameters), second._replace(parameters=first.parameters)
    return answer._replace(steps=(listed(first), listed(second), *others))


def other_object(answer: Answer) -> Answer:
    """Put an object of the last step into the first."""
    first, last = answer.steps[0], answer.steps[-1]
    if not first.objects or not last.objects:
        return answer
    text, other = first.objects[0], last.objects[0]
    objects = (other, *first.objects[1:])
    changed = first._replace(objects=objects, prose=replaced(first.prose, text, other))
    return answer._replace(steps=(changed, *answer.steps[1:])) if other not in first.objects else answer


def swapped(prose: str, first: str, second: str) -> str:
    """Return prose in which the places of two texts are exchanged, if it has both."""
    if replaced(prose, first, "") == prose or replaced(prose, second, "") == prose:
        return prose
    return replaced(replaced(replaced(prose, first, "\0"), second, first), "\0", second).replace("\0", second)


def objects_swapped(step: Step) -> Step:
    if len(step.objects) < 2:
        return step
    first, second, *others = step.objects
    prose = swapped(step.prose, first, second)
    return step._replace(objects=(second, first, *others), prose=prose) if prose != step.prose else step


def doses_swapped(step: Step) -> Step:
    """Exchange the places of two doses in the prose, such as those of two objects."""
    doses = [text for text in step.parameters if DOSE.fullmatch(text)]
    return step if len(doses) < 2 else step._replace(prose=swapped(step.prose, *doses[:2]))


def two_steps(answer: Answer) -> Answer:
    first_two, others = answer.steps[:2], answer.steps[2:]
    return answer._replace(steps=(*reversed(first_two), *others))


def without_step(answer: Answer) -> Answer:
    return answer._replace(steps=(answer.steps[0], *answer.steps[2:]))


def with_step(answer: Answer) -> Answer:
    boil = Step("boil", answer.steps[0].objects, ("95 °C", "3 h"), "")
    return answer._replace(steps=(answer.steps[0], listed(boil), *answer.steps[1:]))


def next_prose(answer: Answer) -> Answer:
    following = (*answer.steps[1:], answer.steps[0])
    pairs = zip(answer.steps, following, strict=True)
    return answer._replace(steps=tuple(step._replace(prose=f"{step.prose} {after.prose}") for step, after in pairs))


def prose_dose(step: Step) -> Step:
    for text in filter(DOSE.search, step.parameters):
        return step._replace(prose=replaced(step.prose, text, DOSE.sub(multiplied, text)))
    return step


def lower(prose: str) -> str:
    return prose[:1].lower() + prose[1:]


def with_text(text: str) -> Change:
    """Return a change that ends the sentence of the first step with more text."""
    return in_prose(lambda prose: f"{prose[:-1]}{text}.", first=True)


DESTROYING_BY_KIND: dict[str, dict[str, Change]] = {
    "parameter": {
        "one dose × 100": in_doses(multiplied, first=True),
        "a unit a thousand times too large or too small": in_doses(other_unit, first=True),
        "a temperature below zero: `-37 °C`": in_parameters(negative, first=True),
        "hours for minutes": in_parameters(hours, first=True),
        "a ratio reversed: `1000:1`": in_parameters(reversed_ratios, first=True),
        "a limit for a dose: `<5 ml`": in_doses(limited, first=True),
        "a range for a dose: `5-500 ml`": in_doses(as_range, first=True),
        "a dose left out": in_step(without_dose),
        "a dose added: `95 °C`": in_step(with_dose),
        "the doses of two steps exchanged": doses_of_two_steps,
    },
    "reagent": {
        "an object of another step": other_object,
        "two objects of a step exchanged": in_step(objects_swapped),
    },
    "operation": {
        "two steps in the other order": two_steps,
        "a step left out": without_step,
        "a step added: boil at 95 °C for 3 h": with_step,
    },
    "prose": {
        "prose: two doses of a step exchanged": in_step(doses_swapped),
        "prose: one dose × 100": in_step(prose_dose),
        "prose: `not` before every action": in_prose(lambda prose: f"Do not {lower(prose)}"),
        "prose: `never` in one step": in_prose(lambda prose: f"Never {lower(prose)}", first=True),
        "prose: one step to omit": in_prose(lambda prose: f"Omit this: {lower(prose)}", first=True),
        "prose: `, then 95 °C for 3 h`": with_text(", then 95 °C for 3 h"),
        "prose: `, then a 95-min boil`": with_text(", then a 95-min boil"),
        "prose: `, then at ٩٥ °C`": with_text(", then at ٩٥ °C"),
        "prose: `, as in step 95 °C`": with_text(", as in step 95 °C"),
        "prose: the next step in every step": next_prose,
        "prose: a line before the first step, `Boil everything at 95 °C.`": lambda answer: answer._replace(
            before="Boil everything at 95 °C."
        ),
        "prose: a number in words, `, then for ninety hours`": with_text(", then for ninety hours"),
        "prose: two more words, `, then discard everything`": with_text(", then discard everything"),
    },
    "free text": {
        "wrong advice in `<think>`": lambda answer: answer._replace(think="Boil everything at 95 °C for 3 h."),
        "wrong advice in `<note>`": lambda answer: answer._replace(note="Never incubate. Boil at 95 °C instead."),
    },
}
"""Changes that make an answer wrong, by kind of error. BioProBench's ERR has the first three kinds."""

DESTROYING = {title: change for changes in DESTROYING_BY_KIND.values() for title, change in changes.items()}

PAST = {"run": "ran", "shake": "shook", "stop": "stopped", "transfer": "transferred"}
SPELLED = {"min": "minutes", "h": "hours", "s": "seconds", "ml": "milliliters", "µl": "microliters", "µg": "micrograms"}


def past(step: Step) -> Step:
    verb = PAST.get(step.action, step.action.removesuffix("e").removesuffix("y"))
    verb = verb if verb in PAST.values() else f"{verb}{'ied' if step.action.endswith('fy') else 'ed'}"
    return step._replace(prose=verb.capitalize() + step.prose.removeprefix(step.action.capitalize()))


def spelled(dose: re.Match[str]) -> str:
    unit = "degrees Celsius" if "°" in dose[4] else SPELLED.get(dose[5], dose[5])
    return f"{dose[0][: dose.start(4) - dose.start()]} {unit}" if unit != dose[5] else dose[0]


def other_order(prose: str) -> str:
    """Begin a sentence with its last part: `At 37 °C, incubate the cells.`"""
    match = re.search(r" (at|with|in|for) ", prose)
    if match is None:
        return prose
    return f"{match[1].capitalize()} {prose[match.end() : -1]}, {lower(prose[: match.start()])}."


HARMLESS: dict[str, Change] = {
    "doses in other units: `500 µl` for `0.5 ml`": in_doses(converted),
    "units spelled out: `5 minutes`, `37 degrees Celsius`": in_doses(spelled),
    "`about` before every dose": in_parameters(
        lambda text: text if "at most" in text else DOSE.sub(r"about \g<0>", text)
    ),
    "`10⁶` for `1 × 10^6`, `−20 °C` for `-20 °C`": in_parameters(
        lambda text: text.replace("1 × 10^6", "10⁶").replace("-20", "−20")
    ),
    "`1/100` for `1:100`": in_parameters(lambda text: RATIO.sub(r"\1/\3", text)),
    "prose: hyphens, `5-min`": in_prose(lambda prose: DOSE.sub(lambda dose: dose[0].replace(" ", "-"), prose)),
    "prose: past tense": in_step(past, first=False),
    "prose: no articles": in_prose(lambda prose: re.sub(r"\b(the|an?) ", "", prose)),
    "prose: words in another order": in_prose(other_order),
    "prose: `as in step 2`": with_text(", as in step 2"),
    "prose: two more words, `to remove debris`": with_text(" to remove debris"),
    "prose: four more words, `until foam and bubbles disappear completely`": with_text(
        " until foam and bubbles disappear completely"
    ),
    "prose: a warning, `Do not shake.`": in_prose(lambda prose: f"{prose} Do not shake.", first=True),
    "prose: other units than in the plan": in_prose(lambda prose: DOSE.sub(converted, prose), first=True),
}
