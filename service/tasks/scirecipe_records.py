"""Records of SciRecipe: their parts, the rules of the data set, and the library of actions that a record allows.

A record is what the data set publishes (`question` or `exp_goal`, `think`, `key`, `orc`, `note`, `action`,
`action_new`, `type`, `level`), or a training row made of it (`query`, `reference`): only this module reads either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..scoring.labels import read_label
from .thoth import sections_in

SECTIONS = ("think", "key", "orc", "note")
TYPES = ("overview", "specific", "retrieval", "planning", "troubleshooting", "constraint", "scaling", "safety")
SCRIPT_TYPES = {"overview_qa": "overview", "specific_step_qa": "specific"}
TAGGED = {name: re.compile(rf"\s*<{name}>(.*)</{name}>\s*", re.IGNORECASE | re.DOTALL) for name in SECTIONS}
LIBRARY_FIELDS = ("action_new", "action_library", "action", "actions")
"""Fields that may hold the library as a list; `action_new` is `action` with distractors."""

PROMPT_FIELDS = ("query", "question", "prompt", "exp_goal", "actions_prompt_tail")

RECORD_FIELDS = (*SECTIONS, *LIBRARY_FIELDS, *PROMPT_FIELDS, "level", "type")
LIBRARY_SENTENCE = re.compile("only use the following actions:", re.IGNORECASE)
REQUEST = re.compile(r"please provide the experimental protocol[^.?!\n]*[.?!]?\s*\Z", re.IGNORECASE)
QUOTED = re.compile(r'\s*,?\s*"([^"]*)"')
FIRST_OF_LEVEL_2 = 4  # steps or actions
KEY_LINE = re.compile(r"\s*step[ \t]+(\d+)[ \t]*:[ \t]*(\{.*\})\s*", re.IGNORECASE)
ORC_LINE = re.compile(r"\s*step[ \t]+(\d+)[ \t]*:(.*)", re.IGNORECASE)
NAMES = {"action", "objects", "parameters"}


class Violation(NamedTuple):
    rule: str
    detail: str


def type_named(name: str) -> str:
    lower = name.strip().lower()
    return SCRIPT_TYPES.get(lower, lower)


def without_tags(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record whose sections are not in their tags, as in a field `key` with `<key>…</key>`."""
    matches = {name: TAGGED[name].fullmatch(record[name]) for name in SECTIONS if isinstance(record.get(name), str)}
    return {**record, **{name: match[1].strip() for name, match in matches.items() if match}}


def level_of(size: int) -> int:
    """Return the level of a reference by its number of steps, or as the paper has it of distinct actions."""
    return 2 if size >= FIRST_OF_LEVEL_2 else 1


def reference_of(record: Mapping[str, Any]) -> Any:
    """Return the reference of a record, or its published key, as scorers take it."""
    reference = record["reference"] if "reference" in record else record.get("key")
    return read_label(reference).reference if isinstance(reference, (str, dict)) else reference


def orc_of(record: Mapping[str, Any]) -> str | None:
    """Return the prose: the published `orc`, or that section of the answer in `reference`; None without one."""
    if isinstance(record.get("orc"), str):
        return str(record["orc"])
    reference = record.get("reference")
    sections = sections_in(reference) if isinstance(reference, str) else None
    return sections.orc if sections else None


def answer_of(record: Mapping[str, Any]) -> str | None:
    """Return the gold answer of a published record, its four sections in their tags; None unless it has all four."""
    sections = [record.get(name) for name in SECTIONS]
    if not all(isinstance(text, str) for text in sections):
        return None
    return "\n\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in zip(SECTIONS, sections, strict=True))


def prompt_text(prompt: Any) -> str:
    if isinstance(prompt, list):
        contents = [message.get("content") for message in prompt if isinstance(message, dict)]
        return "\n".join(content for content in contents if isinstance(content, str))
    return prompt if isinstance(prompt, str) else ""


def library_of(record: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the distinct actions that a record or the end of its prompt allows; None if they name none."""
    for name in LIBRARY_FIELDS:
        listed = record.get(name)
        if isinstance(listed, list):
            return distinct([action for action in listed if isinstance(action, str)])
    for name in PROMPT_FIELDS:
        if name in record and (named := library_in(prompt_text(record[name]), whole=name == "actions_prompt_tail")):
            return named
    return None


def library_in(prompt: str, whole: bool = False) -> tuple[str, ...]:
    """Return the quoted actions after the last LIBRARY_SENTENCE of a prompt, or with `whole` at its beginning."""
    return quoted_at(prompt, 0 if whole else last_sentence(prompt)[1])[0]


def last_sentence(prompt: str) -> tuple[int, int]:
    *_, last = [None, *LIBRARY_SENTENCE.finditer(prompt)]
    return last.span() if last is not None else (len(prompt), len(prompt))


def quoted_at(prompt: str, pos: int) -> tuple[tuple[str, ...], int]:
    actions = []
    while (quoted := QUOTED.match(prompt, pos)) is not None:
        actions.append(quoted[1])
        pos = quoted.end()
    return distinct(actions), pos


def without_instructions(prompt: str) -> str:
    """Return the question of a published record, without the library and the request that training rows add."""
    begin, end = last_sentence(prompt)
    actions, end = quoted_at(prompt, end)
    if actions:
        begin = 1 + max(prompt.rfind(mark, 0, begin) for mark in ".?!\n")
        prompt = prompt[:begin].rstrip() + prompt[end:].removeprefix(".")
    request = list(REQUEST.finditer(prompt))
    return (prompt[: request[-1].start()] if request else prompt).strip()


def distinct(actions: Iterator[str] | Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(action.strip() for action in actions if action.strip()))


def violations(record: Mapping[str, Any]) -> list[Violation]:
    """Return every rule of the data set that the record breaks, in the order of its text.

    Beyond the authors' check, the library must hold every action, and level and type must be the data set's.
    """
    sections = sections_of(record)
    broken = [Violation("missing_section", f"<{name}> is missing or empty") for name in SECTIONS if not sections[name]]
    key = list(key_violations(sections["key"])) if sections["key"] else []
    orc = list(orc_violations(sections["orc"])) if sections["orc"] else []
    broken += key + orc
    key_steps, orc_steps = count_steps(sections["key"], KEY_LINE), count_steps(sections["orc"], ORC_LINE)
    if sections["key"] and sections["orc"] and key_steps != orc_steps:
        broken.append(Violation("step_count", f"<key> has {key_steps} steps and <orc> has {orc_steps}"))
    return broken + list(label_violations(record, sections["key"], key_steps))


def sections_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the four sections, trimmed; an answer in `reference` without them counts as a key block."""
    reference = record.get("reference")
    if isinstance(reference, str):
        sections = sections_in(reference)
        if sections is None:
            return {**dict.fromkeys(SECTIONS, ""), "key": reference.strip()}
        return {name: text.strip() for name, text in sections._asdict().items()}
    return {name: text.strip() if isinstance(text := record.get(name), str) else "" for name in SECTIONS}


def count_steps(block: str, form: re.Pattern[str]) -> int:
    return sum(form.fullmatch(line) is not None for line in block.splitlines())


def key_violations(block: str) -> Iterator[Violation]:
    numbers = []
    for place, line in enumerate(filter(str.strip, block.splitlines()), 1):
        form = KEY_LINE.fullmatch(line)
        if form is None:
            yield Violation("key_line", f"line {place} of <key> is not of the form 'Step N: {{...}}'")
            continue
        numbers.append(int(form[1]) if len(form[1]) < 10 else -1)
        try:
            fields = json.loads(form[2])
        except (ValueError, RecursionError):
            yield Violation("key_json", f"line {place} of <key> holds no valid JSON object")
            continue
        yield from field_violations(fields, f"line {place} of <key>")
    if numbers != list(range(1, len(numbers) + 1)):
        yield Violation("key_numbering", "the steps of <key> are not numbered 1, 2, 3, …")


def field_violations(fields: Any, place: str) -> Iterator[Violation]:
    if not isinstance(fields, dict) or set(fields) != NAMES:
        yield Violation("names", f"{place} must have exactly the names action, objects and parameters")
        return
    if not isinstance(fields["action"], str) or not fields["action"].strip():
        yield Violation("action", f"the action in {place} is not text, or is empty")
    elif not is_lower(fields["action"]):
        yield Violation("lower_case", f"the action in {place} is not in lower case")
    for name in ("objects", "parameters"):
        elements = fields[name]
        if not isinstance(elements, list) or not all(isinstance(element, str) for element in elements):
            yield Violation("elements", f"the {name} in {place} are not a list of strings")
        elif not all(map(is_lower, elements)):
            yield Violation("lower_case", f"the {name} in {place} are not in lower case")


def is_lower(text: str) -> bool:
    letters = "".join(filter(str.isalpha, text))
    return letters == letters.lower()


def orc_violations(block: str) -> Iterator[Violation]:
    forms = filter(None, (ORC_LINE.fullmatch(line) for line in block.splitlines()))
    numbers = [int(form[1]) if len(form[1]) < 10 else -1 for form in forms]
    if not numbers:
        yield Violation("orc_line", "<orc> has no line 'Step N: …'")
    elif numbers != list(range(1, len(numbers) + 1)):
        yield Violation("orc_numbering", "the steps of <orc> are not numbered 1, 2, 3, …")


def label_violations(record: Mapping[str, Any], key: str, steps: int) -> Iterator[Violation]:
    library = library_of(record)
    if library is not None:
        allowed = {action.lower() for action in library}
        outside = sum(action not in allowed for action in actions_of(key))
        if outside:
            yield Violation("library", f"{outside} actions of <key> are not in the record's library of actions")
    level = record.get("level")
    actions = len(actions_of(key))
    levels = sorted({str(level_of(steps)), str(level_of(actions))})
    if steps and level is not None and str(level).strip().lower().removeprefix("level").strip() not in levels:
        counts = f"{steps} steps" if len(levels) == 1 else f"{steps} steps with {actions} actions"
        yield Violation("level", f"the level of {counts} must be {' or '.join(levels)}")
    kind = record.get("type")
    if kind is not None and (not isinstance(kind, str) or type_named(kind) not in TYPES):
        yield Violation("type", "the type is not one of the data set's")


def actions_of(key: str) -> list[str]:
    actions: dict[str, None] = {}
    for line in key.splitlines():
        form = KEY_LINE.fullmatch(line)
        try:
            fields = json.loads(form[2]) if form else None
        except (ValueError, RecursionError):
            continue
        if isinstance(fields, dict) and isinstance(fields.get("action"), str):
            actions[fields["action"].strip().lower()] = None
    return list(actions)
