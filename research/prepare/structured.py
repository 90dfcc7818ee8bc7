"""The texts of structured protocols: a title, sections, and steps that may be nested."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from ...service.records.rows.fields import has_text
from ...service.records.rows.rows import Fault
from ...service.records.rows.shapes import STEPS_NAMES

TITLES = ("title", "exp_name", "protocol_title", "protocol_name", "name")

SECTIONS = {
    "keywords": "Keywords",
    "description": "Description",
    "abstract": "Abstract",
    "problem": "Problem",
    "method": "Method",
    "innovation": "Innovation",
    "application": "Application",
    "input": "Materials",
    "materials": "Materials",
    "equipments": "Equipment",
    "equipment": "Equipment",
}
"""The sections before the steps, by the names of their fields."""

STEPS, NOTES = "Steps", {"notes": "Notes"}

NO_TEXT = "None"
"""What SciRecipe's records have in a section without a text."""

STEP_TEXTS = ("title", "text", "step", "description")
"""Fields of a step that may hold its text, in the order in which they are tried."""

INNER_STEPS = ("steps", "substeps", "sub_steps", "children")
"""Fields of a step that may hold the steps in it, besides fields that are their numbers."""

STEP_NUMBER = re.compile(r"(?:step\s*)?(\d{1,9}(?:\.\d{1,9})*)\.?", re.IGNORECASE)
HAS_NUMBER = re.compile(r"\s*\d+(\.\d+)*[.)]\s")
MAX_DEPTH = 16  # the published hierarchies have at most four levels


class WrongStep(ValueError):
    """Steps that cannot be read."""


def protocol_text(record: Mapping[str, Any]) -> str | Fault:
    """Return the text of a structured protocol: its title, its sections, and a line for each step with its number."""
    name = next((name for name in STEPS_NAMES if record.get(name)), None)
    if name is None:
        return Fault("no_text", "the protocol has no steps")
    wrong = [repr(other) for other in (*SECTIONS, *NOTES) if not is_section(record.get(other))]
    if wrong:
        return Fault("wrong_type", f"neither a text nor a list of texts: the field {', '.join(wrong)}")
    try:
        steps = "\n".join(step_lines(steps_in(record[name]), ""))
    except WrongStep as error:
        return Fault("wrong_type", f"the field {name!r}: {error}")
    title = next((record[other].strip() for other in TITLES if has_text(record.get(other))), None)
    parts = [*sections_in(record, SECTIONS), f"{STEPS}:\n{steps}", *sections_in(record, NOTES)]
    return "\n\n".join(parts if title is None else [title, *parts])


def is_section(value: Any) -> bool:
    return isinstance(value, str | None) or (isinstance(value, list) and all(map(has_text, value)))


def sections_in(record: Mapping[str, Any], titles: Mapping[str, str]) -> Iterator[str]:
    for name, title in titles.items():
        value = record.get(name) or ""
        text = value.strip() if isinstance(value, str) else ", ".join(value)
        if text and text != NO_TEXT:
            yield f"{title}: {text}"


def steps_in(value: Any) -> Any:
    """Return steps, decoded if they are an object or an array as JSON text, as columns may have them."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def step_lines(value: Any, number: str, depth: int = 0) -> Iterator[str]:
    """Yield the line of a step and of each step in it; number: "" for the whole protocol, which is a text or steps."""
    if depth > MAX_DEPTH:
        raise WrongStep(f"step {number}: more than {MAX_DEPTH} levels")
    if has_text(value):
        yield numbered(value, number)
    elif isinstance(value, list) and value:
        for place, step in enumerate(value, 1):
            yield from step_lines(step, f"{number}.{place}".lstrip("."), depth + 1)
    elif isinstance(value, Mapping) and value:
        fields = {name: part for name, part in value.items() if part is not None}  # columns have every field
        texts = [fields.pop(name).strip() for name in STEP_TEXTS if has_text(fields.get(name))]
        if texts:
            yield numbered(": ".join(texts), number)
        for name, steps in sorted(((key_of(name, number), part) for name, part in fields.items()), key=in_order):
            yield from step_lines(steps, name, depth + 1)
    else:
        raise WrongStep(f"{f'step {number}' if number else 'it'} is not a text, a list or an object, or is empty")


def key_of(name: str, number: str) -> str:
    """Return the whole number of the steps that a field of a step holds."""
    if name in INNER_STEPS:
        return number
    match = STEP_NUMBER.fullmatch(name.strip())
    if match is None:
        raise WrongStep(f"{name!r} is not the number of a step")
    inner = match[1]
    return inner if not number or inner.startswith(f"{number}.") else f"{number}.{inner}"


def in_order(step: tuple[str, Any]) -> list[int]:
    return [int(part) for part in step[0].split(".") if part]


def numbered(text: str, number: str) -> str:
    """Return the text of a step after its number, if it has one and the text does not begin with a number."""
    return text.strip() if not number or HAS_NUMBER.match(text) else f"{number} {text.strip()}"
