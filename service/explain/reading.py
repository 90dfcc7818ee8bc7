"""A response as the kernels read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from ...kernels.column import column_of, frozen
from ...kernels.memory import allocate_workspace
from ...kernels.reading.response import ABSENT, BODY, LINE_COLUMNS, NUMBER, START, STOP, TOKENS, find_text_spans
from ...kernels.rules import REASONS
from ...kernels.text.lines import NO_STEP
from ...kernels.text.unicode import tables
from ...kernels.text.words import canonical_texts
from ..scoring.references import UNLIMITED, ReferenceTexts
from ..scoring.shares import read
from ..scoring.texts import utf8
from .schema import Phrase, Place

LF, CR = 0x0A, 0x0D


class Text:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.data = frozen(np.frombuffer(content, np.uint8), np.uint8)

    def place(self, start: int, stop: int) -> Place:
        characters, utf16, lines = self._counts
        return Place(
            line=int(lines[start]) + 1,
            bytes=(start, stop),
            characters=(int(characters[start]), int(characters[stop])),
            utf16=(int(utf16[start]), int(utf16[stop])),
        )

    def part(self, start: int, stop: int) -> str:
        return self.content[start:stop].decode()

    def trimmed(self, start: int, stop: int) -> tuple[int, int]:
        part = self.content[start:stop]
        left = len(part) - len(part.lstrip())
        return (start + left, start + len(part.rstrip())) if left < len(part) else (start, start)

    @cached_property
    def _counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return code points, UTF-16 units and line ends before every byte, int64 (bytes + 1,) each."""
        data = self.data
        opens = (data & 0xC0) != 0x80
        ends = data == LF
        ends[:-1] |= (data[:-1] == CR) & (data[1:] != LF)
        ends[-1:] |= data[-1:] == CR
        counts = opens, opens.astype(np.int64) + (data >= 0xF0), ends
        characters, utf16, lines = (np.concatenate(([0], np.cumsum(count, dtype=np.int64))) for count in counts)
        return characters, utf16, lines


def canons(texts: Sequence[str]) -> list[str]:
    column = column_of([utf8(text) for text in texts])
    canon = np.empty(16 * int(column.offsets[-1]) + 8, np.uint8)
    offsets = np.zeros(column.rows + 1, np.int64)
    canonical_texts(canon, offsets, *column, tables(), allocate_workspace(int(column.lengths.max(initial=0))))
    written = canon[: int(offsets[-1])].tobytes()
    return [written[start:stop].decode() for start, stop in pairwise(offsets.tolist())]


class Spoken(NamedTuple):
    """The canonical words of a text, and its parts: the words where every dash before a letter is a space."""

    canon: str
    parts: str


UNREAD = Spoken("", "")
DASH = re.compile("-(?=(.))")


def parts_of(canonical: Sequence[str]) -> list[str]:
    """Return canonical texts with every dash before a letter read as a space."""
    split = [DASH.sub(lambda dash: " " if dash[1].isalpha() else "-", text) for text in canonical]
    changed = [k for k, (text, parts) in enumerate(zip(canonical, split, strict=True)) if text != parts]
    for k, parts in zip(changed, canons([split[k] for k in changed]), strict=True):
        split[k] = parts
    return split


def spoken_of(texts: Sequence[str]) -> list[Spoken]:
    canonical = canons(texts)
    return [Spoken(*both) for both in zip(canonical, parts_of(canonical), strict=True)]


def phrases_of(texts: Sequence[str]) -> list[Phrase]:
    return [
        Phrase(text=text, words=canon.split(" ") if canon else [])
        for text, canon in zip(texts, canons(texts), strict=True)
    ]


ALL_SECTIONS = 4
MAX_STEPS = 4096  # key lines, or prose steps, that are read; more are only counted


class ReadStep(NamedTuple):
    action: str
    objects: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return json.dumps(self._asdict(), ensure_ascii=False)

    @property
    def listed(self) -> str:
        return " ".join(", ".join([self.action, *self.objects, *self.parameters]).split())


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity in the base unit of its dimension; equal ones may have different texts."""

    text: str = field(compare=False)
    dimension: str
    kind: str
    values: tuple[tuple[int, int], ...]
    written: str = field(default="", compare=False)
    """The text in the characters of its phrase, where they can be told."""

    def __str__(self) -> str:
        return self.text


Term = str | Quantity


@dataclass(slots=True)
class KeyLine:
    """One line of a key section; its object should begin at `body`. Only a valid line has phrases."""

    start: int
    stop: int
    number: int | None
    body: int
    _: KW_ONLY
    status: str = "ok"
    action: Phrase = field(default_factory=lambda: Phrase(text="", words=[]))
    objects: list[Phrase] = field(default_factory=list)
    parameters: list[Phrase] = field(default_factory=list)
    terms: list[list[Term]] | None = None
    """The terms of each parameter, once quantities are read."""

    @property
    def phrases(self) -> list[Phrase]:
        return [self.action, *self.objects, *self.parameters]

    @property
    def words(self) -> list[str]:
        return list(dict.fromkeys(words_of(self.phrases)))


@dataclass(slots=True)
class Prose:
    number: int
    body: int
    end: int
    start: int
    stop: int
    pieces: int
    _: KW_ONLY
    spoken: Spoken = UNREAD
    limited: Spoken = UNREAD
    """What the limits of added numbers and words read: of the first step, with the lines before it."""

    @property
    def canon(self) -> str:
        return self.spoken.canon


@dataclass(slots=True)
class Reading:
    """The parts of a text: `whole` sections are complete; `lines` and `prose` are empty if there are over MAX_STEPS."""

    text: Text
    whole: int
    sections: list[list[int]]
    lines: list[KeyLine]
    prose: list[Prose]
    _: KW_ONLY
    key_lines: int
    prose_steps: int

    @property
    def valid(self) -> list[KeyLine]:
        return [line for line in self.lines if line.status == "ok"]

    @property
    def positions(self) -> list[int]:
        return [k for k, line in enumerate(self.lines, 1) if line.status == "ok"]


def read_response(text: Text, think_prefilled: bool) -> Reading:
    """Read a response as far as its sections go: key lines if the key section ends, prose if the orc section begins."""
    whole, sections, key, orc = sections_of(text, think_prefilled)
    if whole < ALL_SECTIONS:
        (key_start, key_stop), (orc_start, orc_stop) = sections[1:3]
        key = _bare_lines(text, key_start, key_stop) if key_stop != ABSENT else []
        orc_stop = orc_stop if orc_stop != ABSENT else len(text.content)
        orc = _bare_lines(text, orc_start, orc_stop) if orc_start != ABSENT else []
    else:
        orc_stop = sections[2][1]
    steps = sum(row[NUMBER] != NO_STEP for row in orc)
    lines = _key_lines(text, key) if len(key) <= MAX_STEPS else []
    prose = _prose(text, orc, orc_stop) if steps <= MAX_STEPS else []
    return Reading(text, whole, sections, lines, prose, key_lines=len(key), prose_steps=steps)


def read_reference(text: Text) -> Reading:
    whole, sections, key, _ = sections_of(text, False)
    return Reading(text, whole, sections, _key_lines(text, key), [], key_lines=len(key), prose_steps=0)


def steps_in(reference: str | Mapping[str, Any]) -> list[ReadStep]:
    if isinstance(reference, str):
        content = utf8(reference)
        _, _, key, _ = sections_of(Text(content), False)
        # The kernel has found them valid; an overwritten value of a repeated name may be a number of any size.
        steps = [json.loads(content[row[BODY] : row[STOP]], parse_int=str, parse_float=str) for row in key]
    else:
        steps = reference["steps"]
    return [ReadStep(step["action"], tuple(step["objects"]), tuple(step["parameters"])) for step in steps]


def parsed_lines(text: Text) -> list[KeyLine]:
    return _key_lines(text, _bare_lines(text, 0, len(text.content)))


def words_of(phrases: Iterable[Phrase]) -> list[str]:
    return [word for phrase in phrases for word in phrase.words]


def sections_of(text: Text, think_prefilled: bool) -> tuple[int, list[list[int]], list[list[int]], list[list[int]]]:
    sections = np.empty((ALL_SECTIONS, 2), np.int64)
    lines = np.empty((len(text.content) // 2 + 2, LINE_COLUMNS), np.int64)
    counts = np.zeros(2, np.int64)
    whole = int(find_text_spans(sections, lines, counts, text.data, think_prefilled))
    key, orc = counts.tolist()
    rows = lines[: key + orc].tolist()
    return whole, sections.tolist(), rows[:key], rows[key:]


def _bare_lines(text: Text, start: int, stop: int) -> list[list[int]]:
    _, _, rows, _ = sections_of(Text(text.content[start:stop]), False)
    for row in rows:
        for column in (START, STOP, BODY):
            row[column] += start
    return rows


def _key_lines(text: Text, rows: Sequence[Sequence[int]]) -> list[KeyLine]:
    lines = [KeyLine(row[START], row[STOP], None if row[NUMBER] == NO_STEP else row[NUMBER], row[BODY]) for row in rows]
    valid, steps = [], []
    for line, status in zip(lines, _statuses([text.content[line.start : line.stop] for line in lines]), strict=True):
        line.status = status
        if status == "ok":
            # The kernel has found it valid; an overwritten value of a repeated name may be a number of any size.
            steps.append(json.loads(text.content[line.body : line.stop], parse_int=str, parse_float=str))
            valid.append(line)
    texts = [[step["action"], *step["objects"], *step["parameters"]] for step in steps]
    phrases = iter(phrases_of(list(chain.from_iterable(texts))))
    for line, step in zip(valid, steps, strict=True):
        line.action = next(phrases)
        line.objects = list(islice(phrases, len(step["objects"])))
        line.parameters = list(islice(phrases, len(step["parameters"])))
    return lines


def _statuses(lines: Sequence[bytes]) -> list[str]:
    """Return the reason of each line, parsed as a separate reference: both have the same lines."""
    _, statuses, _ = read(ReferenceTexts(column_of(lines)), UNLIMITED, UNLIMITED)
    return [REASONS[status] for status in statuses.tolist()]


def _prose(text: Text, rows: Sequence[Sequence[int]], end: int) -> list[Prose]:
    steps: list[Prose] = []
    before: list[str] = []
    for row in rows:
        if row[NUMBER] != NO_STEP:
            if steps:
                steps[-1].end = row[START]
            steps.append(Prose(row[NUMBER], row[BODY], end, 0, 0, row[TOKENS]))
        elif steps:
            steps[-1].pieces += row[TOKENS]
        else:
            before.append(text.part(row[START], row[STOP]))
    for step in steps:
        step.start, step.stop = text.trimmed(step.body, step.end)
    texts = [text.part(step.start, step.stop) for step in steps]
    for step, spoken in zip(steps, spoken_of(texts), strict=True):
        step.spoken = step.limited = spoken
    if steps and before:
        (steps[0].limited,) = spoken_of(["\n".join([*before, texts[0]])])
    return steps
