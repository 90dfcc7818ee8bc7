"""The gates: which checks were made, which one failed, where, and what would fix it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...kernels.reading.text_spans import ABSENT
from ..settings import ScoreSettings
from .numbers import first_n, format_number, plural
from .reading import Line, Prose, Reading
from .schema import Check, CheckName, Coverage, Failure, Gate, Place, Section

__all__ = ["BAD_LINES", "checks_of", "failure_of"]

CHECKS: tuple[tuple[CheckName, Gate, tuple[str, ...]], ...] = (
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
    details = _details(reading, coverage, settings)
    checks = []
    for k, (name, gate, _) in enumerate(CHECKS):
        detail = details[name] if k <= failed else "not checked"
        checks.append(Check(name=name, gate=gate, passed=None if k > failed else k < failed, detail=detail))
    return checks


def failed_check(reason: str, reading: Reading | None) -> int:
    """Return the index of the check that failed; the number of checks for `ok`."""
    if reason == "ok":
        return len(CHECKS)
    if reason == "too_long":
        return 0 if reading is None else 2
    return next(k for k, (_, _, reasons) in enumerate(CHECKS) if reason in reasons)


def _details(reading: Reading | None, coverage: float, settings: ScoreSettings) -> dict[CheckName, str]:
    limit = f"{settings.max_response_bytes:,}"
    if reading is None:
        return {"size": f"more than {limit} bytes"}
    lines, prose = reading.key_lines, reading.prose_steps
    valid, needed = len(reading.valid), format_number(settings.min_coverage)
    return {
        "size": f"{len(reading.text.content):,} bytes, at most {limit}",
        "sections": "think, key, orc and note" if reading.whole == len(JUNCTIONS) else "not all four are found",
        "steps": f"{plural(lines, 'key line')} and {plural(prose, 'prose step')}, at most {settings.max_steps:,}",
        "key_lines": f"{plural(valid, 'valid step')} in {plural(lines, 'line')}",
        "key_numbering": f"<key> is numbered {_numbers(reading.lines)}",
        "orc_numbering": f"<orc> is numbered {_numbers(reading.prose)}",
        "step_count": f"{plural(lines, 'step')} in <key>, {prose:,} in <orc>",
        "coverage": f"the least is {format_number(coverage)}, at least {needed} is needed",
    }


def _numbers(steps: Sequence[Line | Prose]) -> str:
    numbers = [str(step.number) for step in steps]
    if not numbers:
        return "nowhere: it has no step"
    if numbers == [str(k) for k in range(1, len(numbers) + 1)]:
        return f"1 to {len(numbers)}" if len(numbers) > 1 else "1"
    return first_n(numbers, 12)


class Cause(NamedTuple):
    """What is wrong and what would fix it, as sentences, and where it is."""

    message: str
    remedy: str
    section: Section | None = None
    step: int | None = None
    place: Place | None = None


def failure_of(
    reason: str, reading: Reading | None, coverages: Sequence[Coverage | None], settings: ScoreSettings
) -> Failure | None:
    """Return why the response fails a gate, and where; None for `ok`."""
    if reason == "ok":
        return None
    gate = CHECKS[failed_check(reason, reading)][1]
    return Failure(reason=reason, gate=gate, **_cause(reason, reading, coverages, settings)._asdict())


def _cause(
    reason: str, reading: Reading | None, coverages: Sequence[Coverage | None], settings: ScoreSettings
) -> Cause:
    if reading is None:
        message = f"The response has more than {settings.max_response_bytes:,} bytes of UTF-8."
        return Cause(message, "Write less; the limit is the setting max_response_bytes.")
    if reason == "too_long":
        section: Section = "key" if reading.key_lines > settings.max_steps else "orc"
        message = f"The <{section}> section has more than {settings.max_steps:,} steps."
        return Cause(message, "Write fewer steps; the limit is the setting max_steps.", section)
    if reason in BAD_LINES:
        return _bad_line(reason, reading)
    if reason == "key_numbering":
        return _numbering("key", reading.lines, reading)
    if reason == "orc_numbering":
        return _numbering("orc", reading.prose, reading)
    if reason == "step_count":
        return _step_count(reading)
    if reason == "low_coverage":
        return _low_coverage(reading, coverages, settings)
    if reason == "no_steps":
        return Cause("The <key> section holds no step.", "Write one `Step N: {…}` a line.", "key")
    return _missing_sections(reason, reading, settings)


def _missing_sections(reason: str, reading: Reading, settings: ScoreSettings) -> Cause:
    if reason == "think_not_opened":
        return Cause(
            "There is no `<think>`, but with one before the response all four sections would be found.",
            "If the chat template ends the prompt with `<think>`, set think_prefilled; otherwise begin with `<think>`.",
            "think",
            place=reading.text.place(0, 0),
        )
    if reading.sections[0][0] == ABSENT:
        remedy = "Write `<think>…</think><key>…</key><orc>…</orc><note>…</note>`."
        return Cause("No `<think>` is found.", remedy, "think")
    section, ending = JUNCTIONS[reading.whole]
    start = reading.sections[reading.whole][0]
    message = f"No {ending} is found from there on where <{section}> begins."
    if settings.think_prefilled and reading.whole == 0:
        message = f"No {ending} is found."
    remedy = "Close each section and open the next one with nothing but white space between: `</think><key>`."
    return Cause(message, remedy, section, place=reading.text.place(start, start))


def _bad_line(reason: str, reading: Reading) -> Cause:
    k, line = next((k, line) for k, line in enumerate(reading.lines, 1) if line.status != "ok")
    what, remedy = BAD_LINES[reason]
    place = reading.text.place(line.start, line.stop)
    return Cause(f"Line {place.line} {what}.", remedy, "key", k, place)


def _numbering(section: Section, steps: Sequence[Line | Prose], reading: Reading) -> Cause:
    k, step = next((k, step) for k, step in enumerate(steps, 1) if step.number != k)
    place = reading.text.place(step.start, step.stop)
    message = f"Step {k} of <{section}>, in line {place.line}, has the number {step.number}."
    return Cause(message, f"Number the steps of <{section}> 1, 2, 3, …", section, k, place)


def _step_count(reading: Reading) -> Cause:
    lines, prose = reading.key_lines, reading.prose_steps
    message = f"<key> has {plural(lines, 'step')}, but <orc> has {prose:,}."
    remedy = "Write one step of <orc> for each step of <key>, each beginning a line with `Step N:`."
    first = min(lines, prose)
    step = reading.lines[first] if lines > prose else reading.prose[first]
    place = reading.text.place(step.start, step.stop)
    return Cause(message, remedy, "key" if lines > prose else "orc", first + 1, place)


def _low_coverage(reading: Reading, coverages: Sequence[Coverage | None], settings: ScoreSettings) -> Cause:
    measured = [(found, k) for k, found in enumerate(coverages) if found is not None]
    lowest, k = min(measured, key=lambda pair: pair[0].value)
    lacking = sum(not found.enough for found, _ in measured)
    message = (
        f"The prose of step {k + 1} has {lowest.covered:,} of the {plural(lowest.total, 'word')} of its key step "
        f"({format_number(lowest.value)}; at least {format_number(settings.min_coverage)} is needed). "
        f"It lacks {first_n(lowest.uncovered, 8)}."
    )
    if lacking > 1:
        message += f" {plural(lacking, 'step')} lack words."
    remedy = "Say in each prose step every action, object and parameter of its key step, in the same words."
    place = reading.text.place(reading.prose[k].start, reading.prose[k].stop)
    return Cause(message, remedy, "orc", k + 1, place)
