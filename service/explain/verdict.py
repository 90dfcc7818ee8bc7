"""The gates: which checks were made, which one failed, where, and what would fix it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ...kernels.reading.text_spans import ABSENT
from ..settings import ScoreSettings
from .numbers import first_n, format_number, plural
from .reading import Line, Prose, Reading
from .schema import Check, Coverage, Failure, Place

__all__ = ["checks_of", "failure_of"]

Gate = Literal["format", "consistency"]
Section = Literal["think", "key", "orc", "note"]

CHECKS: tuple[tuple[str, Gate, tuple[str, ...]], ...] = (
    ("size", "format", ("too_long",)),
    ("sections", "format", ("think_not_opened", "missing_sections")),
    ("steps", "format", ("too_long",)),
    ("key_lines", "format", ("no_steps", "bad_step_line", "bad_step_json", "bad_step_schema")),
    ("key_numbering", "consistency", ("key_numbering",)),
    ("orc_numbering", "consistency", ("orc_numbering",)),
    ("step_count", "consistency", ("step_count",)),
    ("coverage", "consistency", ("low_coverage",)),
)
"""Every check with its gate and the reasons that it gives, in order."""

JUNCTIONS: tuple[tuple[Section, str], ...] = (
    ("think", "`</think>` directly before `<key>`"),
    ("key", "`</key>` directly before `<orc>`"),
    ("orc", "`</orc>` directly before `<note>`"),
    ("note", "`</note>`"),
)
"""What ends each section."""

BAD_LINES = {
    "bad_step_line": (
        "is not of the form `Step N: {…}`",
        "Write every line of <key> as `Step N: {…}`, on one line and with nothing behind the closing brace.",
    ),
    "bad_step_json": (
        "has braces that do not hold one valid JSON object",
        "Check quotes, commas and brackets: the braces hold one JSON object.",
    ),
    "bad_step_schema": (
        "is not an action with objects and parameters",
        "Give exactly the fields `action` (a text with at least one word), `objects` and `parameters` (lists of "
        "texts).",
    ),
}


def checks_of(reason: str, reading: Reading | None, coverage: float, settings: ScoreSettings) -> list[Check]:
    """Return the checks as far as they were made; `reading` is None for a response over the limit of bytes."""
    failed = failed_check(reason, reading)
    checks = []
    for k, (name, gate, _) in enumerate(CHECKS):
        passed = None if k > failed else k < failed
        detail = "not checked" if passed is None else _detail(name, reading, coverage, settings)
        checks.append(Check.model_validate({"name": name, "gate": gate, "passed": passed, "detail": detail}))
    return checks


def failed_check(reason: str, reading: Reading | None) -> int:
    """Return the index of the check that failed; the number of checks for `ok`."""
    if reason == "ok":
        return len(CHECKS)
    if reason == "too_long":
        return 0 if reading is None else 2
    return next(k for k, (_, _, reasons) in enumerate(CHECKS) if reason in reasons)


def _detail(name: str, reading: Reading | None, coverage: float, settings: ScoreSettings) -> str:
    if name == "size" or reading is None:
        size, limit = 0 if reading is None else len(reading.text.content), f"{settings.max_response_bytes:,}"
        return f"more than {limit} bytes" if reading is None else f"{size:,} bytes, at most {limit}"
    lines, prose = reading.key_lines, reading.prose_steps
    valid, needed = len(reading.valid), format_number(settings.min_coverage)
    details = {
        "sections": "think, key, orc and note" if reading.whole == len(JUNCTIONS) else "not all four are found",
        "steps": f"{plural(lines, 'key line')} and {plural(prose, 'prose step')}, at most {settings.max_steps:,}",
        "key_lines": f"{plural(valid, 'valid step')} in {plural(lines, 'line')}",
        "key_numbering": f"<key> is numbered {_numbers(reading.lines)}",
        "orc_numbering": f"<orc> is numbered {_numbers(reading.prose)}",
        "step_count": f"{plural(lines, 'step')} in <key>, {prose:,} in <orc>",
        "coverage": f"the least is {format_number(coverage)}, at least {needed} is needed",
    }
    return details[name]


def _numbers(steps: Sequence[Line] | Sequence[Prose]) -> str:
    numbers = [str(step.number) for step in steps]
    if not numbers:
        return "nowhere: it has no step"
    if numbers == [str(k) for k in range(1, len(numbers) + 1)]:
        return f"1 to {len(numbers)}" if len(numbers) > 1 else "1"
    return first_n(numbers, 12)


def failure_of(
    reason: str, reading: Reading | None, coverages: Sequence[Coverage | None], settings: ScoreSettings
) -> Failure | None:
    """Return why the response fails a gate, and where; None for `ok`."""
    if reason == "ok":
        return None
    gate = CHECKS[failed_check(reason, reading)][1]
    if reading is None or reason == "too_long":
        return _too_long(gate, reading, settings)
    if reason in BAD_LINES:
        return _bad_line(reason, gate, reading)
    if reason in ("key_numbering", "orc_numbering"):
        return _numbering(reason, gate, reading)
    if reason == "step_count":
        return _step_count(gate, reading)
    if reason == "low_coverage":
        return _low_coverage(gate, reading, coverages, settings)
    if reason == "no_steps":
        return _failure(reason, gate, "The <key> section holds no step.", "Write one `Step N: {…}` a line.", "key")
    return _missing_sections(reason, gate, reading, settings)


def _failure(
    reason: str,
    gate: Gate,
    message: str,
    remedy: str,
    section: Section | None = None,
    step: int | None = None,
    place: Place | None = None,
) -> Failure:
    return Failure(reason=reason, gate=gate, message=message, remedy=remedy, section=section, step=step, place=place)


def _too_long(gate: Gate, reading: Reading | None, settings: ScoreSettings) -> Failure:
    if reading is None:
        message = f"The response has more than {settings.max_response_bytes:,} bytes of UTF-8."
        return _failure("too_long", gate, message, "Write less; the limit is the setting max_response_bytes.")
    section: Section = "key" if reading.key_lines > settings.max_steps else "orc"
    message = f"The <{section}> section has more than {settings.max_steps:,} steps."
    return _failure("too_long", gate, message, "Write fewer steps; the limit is the setting max_steps.", section)


def _missing_sections(reason: str, gate: Gate, reading: Reading, settings: ScoreSettings) -> Failure:
    if reason == "think_not_opened":
        return _failure(
            reason,
            gate,
            "There is no `<think>`, but with one before the response all four sections would be found.",
            "If the chat template ends the prompt with `<think>`, set think_prefilled; otherwise begin with `<think>`.",
            "think",
            place=reading.text.place(0, 0),
        )
    if reading.sections[0][0] == ABSENT:
        message = "No `<think>` is found."
        remedy = "Write `<think>…</think><key>…</key><orc>…</orc><note>…</note>`."
        return _failure(reason, gate, message, remedy, "think")
    section, ending = JUNCTIONS[reading.whole]
    start = reading.sections[reading.whole][0]
    message = f"No {ending} is found from there on where <{section}> begins."
    if settings.think_prefilled and reading.whole == 0:
        message = f"No {ending} is found."
    remedy = "Close each section and open the next one with nothing but white space between: `</think><key>`."
    return _failure(reason, gate, message, remedy, section, place=reading.text.place(start, start))


def _bad_line(reason: str, gate: Gate, reading: Reading) -> Failure:
    k = next(k for k, line in enumerate(reading.lines) if line.status != "ok")
    what, remedy = BAD_LINES[reason]
    place = reading.text.place(reading.lines[k].start, reading.lines[k].stop)
    return _failure(reason, gate, f"Line {place.line} {what}.", remedy, "key", k + 1, place)


def _numbering(reason: str, gate: Gate, reading: Reading) -> Failure:
    section: Section = "key" if reason == "key_numbering" else "orc"
    steps: list[Line | Prose] = [*(reading.lines if section == "key" else reading.prose)]
    k = next(k for k, step in enumerate(steps) if step.number != k + 1)
    place = reading.text.place(steps[k].start, steps[k].stop)
    message = f"Step {k + 1} of <{section}>, in line {place.line}, has the number {steps[k].number}."
    return _failure(reason, gate, message, f"Number the steps of <{section}> 1, 2, 3, …", section, k + 1, place)


def _step_count(gate: Gate, reading: Reading) -> Failure:
    lines, prose = reading.key_lines, reading.prose_steps
    message = f"<key> has {plural(lines, 'step')}, but <orc> has {prose:,}."
    remedy = "Write one step of <orc> for each step of <key>, each beginning a line with `Step N:`."
    first = min(lines, prose)
    step = reading.lines[first] if lines > prose else reading.prose[first]
    place = reading.text.place(step.start, step.stop)
    return _failure("step_count", gate, message, remedy, "key" if lines > prose else "orc", first + 1, place)


def _low_coverage(
    gate: Gate, reading: Reading, coverages: Sequence[Coverage | None], settings: ScoreSettings
) -> Failure:
    lowest, k = min((found.value, k) for k, found in enumerate(coverages) if found is not None)
    found = coverages[k]
    assert found is not None
    lacking = sum(found is not None and not found.enough for found in coverages)
    message = (
        f"The prose of step {k + 1} has {found.covered:,} of the {plural(found.total, 'word')} of its key step "
        f"({format_number(lowest)}; at least {format_number(settings.min_coverage)} is needed). "
        f"It lacks {first_n(found.uncovered, 8)}."
    )
    if lacking > 1:
        message += f" {plural(lacking, 'step')} lack words."
    remedy = "Say in each prose step every action, object and parameter of its key step, in the same words."
    place = reading.text.place(reading.prose[k].start, reading.prose[k].stop)
    return _failure("low_coverage", gate, message, remedy, "orc", k + 1, place)
