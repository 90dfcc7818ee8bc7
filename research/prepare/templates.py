"""Templates of prompts: texts with places that are filled with the parts of a record.

In a text, `{question}` is a place, `{record[NAME]}` a field of the record, and `{{` and `}}` are braces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from string import Formatter
from typing import Any, NamedTuple

from ...service.rewards.registry import SCORE
from .examples import DESCRIPTIONS, Example
from .prompts import (
    REASONED,
    bulleted,
    context_of,
    indexed,
    quoted,
    reference_fields,
    signatures_in,
)

MAX_SIZE = 1 << 18  # characters and places of a template
MAX_FILLED = 1 << 24  # characters of a prompt, whose record may be long

FIELD = re.compile(r"record\[([^\[\]{}]+)\]")


class TemplatePlace(NamedTuple):
    """A place that is filled with a part of the record; a list is written as the place writes it, or joined."""

    name: str
    separator: str | None = None

    def __str__(self) -> str:
        return f"{{{self.name}}}"


class Field(NamedTuple):
    """A place that is filled with a field of the record, as Python's `str` writes it."""

    name: str

    def __str__(self) -> str:
        return f"{{record[{self.name}]}}"


class TemplateChoice(NamedTuple):
    """One of two fields of the record, by the truth of a field."""

    field: str
    if_true: str
    otherwise: str


Template = tuple["str | TemplatePlace | Field | TemplateChoice", ...]


class Lacking(Exception):
    """The record has nothing for a place; the message is the place."""


class PromptTooLong(Exception):
    """The prompt of a record would have more than MAX_FILLED characters."""


class BadTemplate(ValueError):
    """A text whose braces are not places."""


class TooLong(BadTemplate):
    """A template that would be longer than MAX_SIZE."""

    def __init__(self) -> None:
        super().__init__(f"the text has more than {MAX_SIZE:,} characters")


def size_of(template: Template) -> int:
    """Return the number of characters and places of a template."""
    return sum(len(part) if isinstance(part, str) else 1 for part in template)


def parse(text: str) -> Template:
    """Return the template of a text; raises BadTemplate."""
    parts: list[str | TemplatePlace | Field | TemplateChoice] = []
    try:
        for literal, name, form, conversion in Formatter().parse(text):
            parts.append(literal)
            if name is None:
                continue
            if form or conversion or not name.strip():
                raise BadTemplate(f"{{{name}{'!' + conversion if conversion else ''}{':' + form if form else ''}}}")
            field = FIELD.fullmatch(name)
            parts.append(Field(field[1]) if field else TemplatePlace(name))
    except ValueError as error:
        raise BadTemplate(str(error)) from None
    return join_templates(tuple(parts))


def join_templates(*templates: Template) -> Template:
    """Return templates one after the other, as one without empty texts and without two texts side by side.

    Raises TooLong, before it adds them up.
    """
    if sum(map(size_of, templates)) > MAX_SIZE:
        raise TooLong
    parts: list[str | TemplatePlace | Field | TemplateChoice] = []
    for part in (part for template in templates for part in template if part != ""):
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts.append(part)
    return tuple(parts)


def in_places(template: Template, others: Mapping[str, Template]) -> Template:
    """Return a template with others in places of their names."""
    parts: list[Template] = []
    for part in template:
        inner = others.get(part.name) if isinstance(part, TemplatePlace) else None
        if inner is None:
            parts.append((part,))
        elif isinstance(part, TemplatePlace) and part.separator is not None and isinstance(inner[0], TemplatePlace):
            parts.append((inner[0]._replace(separator=part.separator), *inner[1:]))
        else:
            parts.append(inner)
    return join_templates(*parts)


def in_texts(template: Template, text: str, other: Template) -> Template:
    """Return a template with another one wherever its literal texts have this one."""
    parts: list[Template] = []
    for part in template:
        if isinstance(part, str):
            if part.count(text) * size_of(other) > MAX_SIZE:
                raise TooLong
            first, *following = part.split(text)
            parts += [(first,), *(join_templates(other, (piece,)) for piece in following)]
        else:
            parts.append((part,))
    return join_templates(*parts)


def places_in(template: Template) -> Iterator[TemplatePlace | Field]:
    """Yield the places of a template, also every field of a choice."""
    for part in template:
        if isinstance(part, TemplateChoice):
            yield from map(Field, part)
        elif not isinstance(part, str):
            yield part


def as_json(template: Template) -> list[Any]:
    """Return a template for JSON, from which its digest is made."""
    return [
        part
        if isinstance(part, str)
        else {"if": part.field, "then": [{"field": part.if_true}], "else": [{"field": part.otherwise}]}
        if isinstance(part, TemplateChoice)
        else {"field": part.name}
        if isinstance(part, Field)
        else {"place": part.name, "separator": part.separator}
        for part in template
    ]


def fill(template: Template, prompt: str, example: Example, actions: Sequence[str] | None) -> str:
    """Return the text of a template for a record; raises Lacking, PromptTooLong and InvalidReference.

    prompt: the name in PROMPTS of the prompt that the template is of.
    """
    texts: list[str] = []
    length = 0
    for part in template:
        if isinstance(part, TemplatePlace):
            value = PLACES[prompt][part.name](example, actions)
            if value is None:
                raise Lacking(str(part))
            if not isinstance(value, str):
                value = LISTS[part.name](value) if part.separator is None else part.separator.join(value)
            texts.append(value)
        elif isinstance(part, str):
            texts.append(part)
        else:
            if isinstance(part, TemplateChoice):
                if part.field not in example.record:
                    raise Lacking(str(Field(part.field)))
                part = Field(part.if_true if example.record[part.field] else part.otherwise)
            if (value := example.record.get(part.name)) is None:
                raise Lacking(str(part))
            texts.append(str(value))
        length += len(texts[-1])
        if length > MAX_FILLED:
            raise PromptTooLong
    return "".join(texts)


Part = Callable[[Example, Sequence[str] | None], str | Sequence[str] | None]


def text_field(*names: str) -> Part:
    """Return a part that is the first of these fields of the record that holds a text."""
    return lambda example, _: next(
        (value.strip() for name in names if isinstance(value := example.record.get(name), str)), None
    )


def question(example: Example, _: Sequence[str] | None) -> str:
    return example.question


def choices(example: Example, _: Sequence[str] | None) -> Sequence[str] | None:
    listed = example.record.get("choices")
    return listed if isinstance(listed, list) else None


def shown_steps(example: Example, _: Sequence[str] | None) -> Sequence[str]:
    steps: Sequence[str] = reference_fields(example)["wrong_steps"]
    return steps


def of_context(name: str) -> Part:
    def part(example: Example, _: Sequence[str] | None) -> str | None:
        context = example.record.get("context")
        value = context.get(name) if isinstance(context, Mapping) else None
        return value if isinstance(value, str) else None

    return part


STEP: dict[str, Part] = {
    "question": question,
    "step": question,
    "context": lambda example, _: context_of(example) or None,
    **{name: of_context(name) for name in ("purpose", "prior_step", "next_step")},
}
PLACES: dict[str, dict[str, Part]] = {
    SCORE: {"question": question, "actions": lambda _, actions: actions},
    "bioprobench.pqa": {"question": question, "choices": choices},
    "bioprobench.ord": {
        "question": question,
        "steps": shown_steps,
        "count": lambda example, actions: str(len(shown_steps(example, actions))),
    },
    "bioprobench.err": STEP,
    REASONED: STEP,
    "lexical": {"question": question, "instruction": text_field("instruction")},
    "bioplanner": {
        "question": question,
        "title": text_field("title"),
        "description": text_field(*DESCRIPTIONS),
        "steps": text_field("steps"),
        "functions": lambda example, _: signatures_in(reference_fields(example)["ground_truth"]),
    },
    "sgi.wet_experiment": {"question": question, "action_pool": text_field("action_pool")},
}
"""The places of each prompt: a text, a list of texts, or None where the record has no such part."""

LISTS: dict[str, Callable[[Sequence[str]], str]] = {
    "actions": quoted,
    "choices": bulleted,
    "steps": indexed,
    "functions": "\n".join,
}
"""How places write lists."""

NEEDED: dict[str, tuple[str, ...]] = {
    SCORE: ("{question}", "{record[question]}"),
    "bioprobench.pqa": ("{choices}", "{record[choices]}"),
    "bioprobench.ord": ("{steps}", "{record[wrong_steps]}"),
    "bioprobench.err": ("{step}", "{question}", "{record[corrupted_text]}"),
    REASONED: ("{step}", "{question}", "{record[corrupted_text]}"),
    "lexical": ("{question}", "{record[input]}"),
    "bioplanner": ("{question}", "{title}", "{record[title]}"),
    "sgi.wet_experiment": ("{question}", "{record[question]}"),
}
"""The places of which a prompt has at least one: without what they show, records cannot be answered."""
