"""Edits of a response's text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple


class DraftStep(NamedTuple):
    body: bytes
    prose: bytes

    def with_phrases(self, phrases: Sequence[str]) -> DraftStep:
        return self._replace(prose=b"%b (%b)" % (self.prose, one_line("; ".join(phrases)))) if phrases else self


class Draft(NamedTuple):
    """A response: the text before its key steps, between key and orc, and after orc; and its steps, in order."""

    head: bytes
    middle: bytes
    tail: bytes
    steps: list[DraftStep]

    def render(self, steps: Sequence[DraftStep] | None = None) -> bytes:
        numbered = list(enumerate(self.steps if steps is None else steps, 1))
        key = b"\n".join(b"Step %d: %b" % (k, step.body) for k, step in numbered)
        orc = b"\n".join(b"Step %d: %b" % (k, step.prose) for k, step in numbered)
        return b"%b\n%b\n%b\n%b\n%b" % (self.head, key, self.middle, orc, self.tail)


class StepPool:
    """Numbers steps, equal ones alike: a sequence of steps is a tuple of numbers, cheap to compare and to render."""

    def __init__(self) -> None:
        self._numbers: dict[DraftStep, int] = {}
        self._steps: list[DraftStep] = []
        self._bodies: list[bytes] = []
        self._prose: list[bytes] = []
        self._headings: list[bytes] = []

    def number(self, step: DraftStep) -> int:
        number = self._numbers.setdefault(step, len(self._steps))
        if number == len(self._steps):
            self._steps.append(step)
            self._bodies.append(step.body)
            self._prose.append(step.prose)
        return number

    def steps(self, numbers: Sequence[int]) -> list[DraftStep]:
        return [self._steps[number] for number in numbers]

    def outline(self, numbers: Sequence[int]) -> bytes:
        """Render these steps as a response with empty <think> and <note>, which do not affect the reward."""
        while len(self._headings) < len(numbers):
            self._headings.append(b"\nStep %d: " % (len(self._headings) + 1))
        key = chain.from_iterable(zip(self._headings, map(self._bodies.__getitem__, numbers), strict=False))
        orc = chain.from_iterable(zip(self._headings, map(self._prose.__getitem__, numbers), strict=False))
        return b"".join((b"<think></think><key>", *key, b"\n</key><orc>", *orc, b"\n</orc><note></note>"))


def one_line(text: str) -> bytes:
    """Join the words by single spaces: a line break could begin another step."""
    return " ".join(text.split()).encode()


MAX_LINES = 64
MARKER = re.compile(r"^(?:step\s+\d+\s*[:.)-]?|\d+\s*[.):]|[-*•#>]+)\s*", re.IGNORECASE)
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-ZÄÖÜ])")
VERB = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


def skeleton_of(text: str, prose_of: Callable[[Sequence[str]], Sequence[str | None]]) -> tuple[bytes, int] | None:
    """Write the four sections around a text without tags, and count its steps; None if no line or too many are steps.

    `prose_of` returns for each line the prose of its words if it is a valid step. If no line is one, each line or
    sentence becomes a step whose action is its first word.
    """
    lines = [stripped for line in text.splitlines() if (stripped := line.strip())]
    if not 0 < len(lines) <= MAX_LINES:
        return None
    valid = [(line[line.index("{") :], prose) for line, prose in zip(lines, prose_of(lines), strict=True) if prose]
    steps = valid or _steps(lines if len(lines) > 1 else SENTENCE.split(lines[0]))
    if not 0 < len(steps) <= MAX_LINES:
        return None
    key = b"\n".join(b"Step %d: %b" % (k, body.encode()) for k, (body, _) in enumerate(steps, 1))
    orc = b"\n".join(b"Step %d: %b" % (k, one_line(prose)) for k, (_, prose) in enumerate(steps, 1))
    sections = b"<think></think>\n<key>\n%b\n</key>\n<orc>\n%b\n</orc>\n<note></note>" % (key, orc)
    return sections, len(steps)


def _steps(sentences: Sequence[str]) -> list[tuple[str, str]]:
    steps = []
    for sentence in sentences:
        prose = MARKER.sub("", sentence.strip(), count=1)
        if verb := VERB.search(prose):
            step = {"action": verb.group().lower(), "objects": [], "parameters": []}
            steps.append((json.dumps(step, ensure_ascii=False), prose))
    return steps


FIELDS = ("action", "objects", "parameters")
MAX_LINE = 4096  # characters of a line that is repaired
MAX_REPAIR_CHARACTERS = 1 << 18  # of all repairs of a line that are tried
FRAMED = re.compile(r"step[ \t]+[0-9]+[ \t]*:[ \t]*", re.IGNORECASE)
NUMBER = re.compile(r"[0-9]{1,9}")
WORD = re.compile(r"[^\W_]")
QUOTES = str.maketrans("“”„‟″«»", '"' * 7)
INSERTED = ("]", '"', '"]', "}", ",", ":", "[", "{", "\\")
ENDINGS = ("}", "]}", '"]}', '"}')
STRUCTURE = frozenset('"[]{},: \t')
CONTEXT = 12  # characters before an insertion that name its position


class Number(str):
    """A number of a JSON text, as it is written."""


class LineRepair(NamedTuple):
    """A changed line, and what was done, as the beginning of a sentence: `insert “]” after “…cells"”`."""

    text: str
    line: str


def line_repairs(line: str, position: int) -> Iterator[LineRepair]:
    """Yield repairs of a line, the likeliest first; `position` is its number if it has none."""
    start = line.find("{")
    if start < 0 or len(line) > MAX_LINE:
        return
    head, body = line[:start], line[start:]
    done = []
    if not FRAMED.fullmatch(head):
        number = NUMBER.search(head)
        head = f"Step {number.group() if number else position}: "
        done.append(f"begin the line with “{head.strip()}”")
        yield LineRepair(done[0], head + body)
    stop = body.rfind("}") + 1
    if stop and body[stop:].strip():
        done.append(f"delete “{_short(body[stop:].strip())}” after the closing brace")
        body = body[:stop]
        yield LineRepair("; ".join(done), head + body)
    for repair in islice(_body_repairs(body), MAX_REPAIR_CHARACTERS // len(line)):
        if any("\ud800" <= character <= "\udfff" for character in repair.text + repair.line):
            continue  # made of an escape of a lone surrogate: not text
        yield LineRepair("; ".join([*done, repair.text]), head + repair.line)


def _body_repairs(body: str) -> Iterator[LineRepair]:
    try:
        fields = json.loads(body, parse_int=Number, parse_float=Number)
    except (ValueError, RecursionError):
        yield from _ended(body)
        yield from _quoted(body)
        yield from _inserted(body)
        yield from _deleted(body)
    else:
        if isinstance(fields, dict):
            yield from _with_fields(fields)


def _ended(body: str) -> Iterator[LineRepair]:
    if not body.endswith("}"):
        yield from (LineRepair(f"end it with “{ending}”", body.rstrip(" ,.;") + ending) for ending in ENDINGS)


def _quoted(body: str) -> Iterator[LineRepair]:
    if (straight := body.translate(QUOTES)) != body:
        yield LineRepair("use straight double quotes", straight)
    if "'" in body:
        text = "use double quotes instead of single ones"
        yield LineRepair(text, body.replace("'", '"'))
        # An apostrophe between two letters is not a quote.
        yield LineRepair(text, re.sub(r"(?<!\w)'|'(?!\w)", '"', body))


def _inserted(body: str) -> Iterator[LineRepair]:
    places = [k for k in range(1, len(body)) if body[k - 1] in STRUCTURE or body[k] in STRUCTURE]
    beside_words = sorted(places, key=lambda k: not (body[k - 1].isalnum() or body[k].isalnum()))
    for character in INSERTED:
        for k in beside_words if character == '"' else places:
            text = f"insert “{character}” after “{_short(body[:k], end=True)}”"
            yield LineRepair(text, f"{body[:k]}{character}{body[k:]}")


def _deleted(body: str) -> Iterator[LineRepair]:
    for k in range(1, len(body)):
        if body[k] in STRUCTURE and not body[k].isspace():
            text = f"delete “{body[k]}” after “{_short(body[:k], end=True)}”"
            yield LineRepair(text, body[:k] + body[k + 1 :])


def _with_fields(original: dict[str, Any]) -> Iterator[LineRepair]:
    """Give the object the fields of a step: rename one, drop unknown ones, and turn values into lists of strings."""
    done, fields = [], {}
    for name, value in original.items():
        plain = name.strip().lower()
        if plain in FIELDS and plain != name and plain not in original:
            done.append(f"write the field “{_short(name.strip())}” as “{plain}”")
        fields[plain if plain in FIELDS and plain not in fields else name] = value
    if not WORD.search(str(fields.get("action", ""))):
        fields.pop("action", None)
    missing = [name for name in FIELDS if name not in fields]
    unknown = [name for name in fields if name not in FIELDS]
    if len(missing) == len(unknown) == 1:
        done.append(f"rename the field “{_short(unknown[0])}” to “{missing[0]}”")
        fields[missing[0]] = fields.pop(unknown[0])
    elif unknown:
        done.append(f"delete the field {', '.join(f'“{_short(name)}”' for name in unknown[:4])}")
    elif missing and "action" in fields:
        done.append(f"add “{missing[0]}”" if len(missing) == 1 else "add “objects” and “parameters”")
    if wrong := [name for name in FIELDS[1:] if name in fields and not _is_strings(fields[name])]:
        done.append(f"make {' and '.join(f'“{name}”' for name in wrong)} an array of strings")
    if done:
        step = {"action": fields.get("action"), **{name: _strings(fields.get(name)) for name in FIELDS[1:]}}
        yield LineRepair(", ".join(done), json.dumps(step, ensure_ascii=False))


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(type(element) is str for element in value)


def _strings(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [str(element) for element in values if isinstance(element, str)]


def _short(text: str, end: bool = False) -> str:
    text = text.rstrip()
    if len(text) <= CONTEXT:
        return text
    return f"…{text[-CONTEXT:]}" if end else f"{text[:CONTEXT]}…"
