"""The words of the prose: which words of a key step it covers, and which words and numbers are its own."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain, takewhile
from typing import Literal, NamedTuple

import numpy as np

from ...kernels.column import column_of
from ...kernels.reading.added import FUNCTION_WORD_LIST, NEGATIONS
from ...kernels.text.words import UNITS
from ..rewards.scorer import Scorer
from ..scoring.references import UNLIMITED, ReferenceTexts
from ..scoring.texts import text_column
from ..settings import ScoreSettings
from .reading import KeyLine, Prose, Reading, Spoken, canons, parts_of
from .schema import Coverage, Mark, WordUse

MAX_MARKED_BYTES = 1 << 16  # of prose whose words are marked
MAX_COMPARISONS = 1 << 20  # pairs of a piece of prose and a word of its step
PIECE = re.compile(r"\S+")
RUN = re.compile(r"[0-9]+(?:\.[0-9]+)*")
STEP_NUMBER = re.compile(r"[0-9]{1,4}")
STEP_WORDS = ("step", "steps")
MIN_BEGINNING = 3  # characters that words have in common if they are akin; and half of the longer word
OUTER = " \t.,;:!?()[]{}<>\"'`*_"  # punctuation that is not marked along with a word

NEGATION_WORDS, FUNCTION_WORDS = frozenset(NEGATIONS), frozenset(FUNCTION_WORD_LIST.split())


def has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))


def runs_of(word: str) -> list[str]:
    """Return the runs of digits of a canonical word; decimal digits of every script count as ASCII ones."""
    if not word.isascii():
        word = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in word)
    return RUN.findall(word)


class Akin:
    """Words by their beginnings, so that a word that is akin to one of them is found in time linear in its length."""

    def __init__(self, words: Iterable[str]) -> None:
        self._nodes: dict[tuple[int, str], int] = {}
        self._words: dict[int, str] = {}
        for word in filter(has_letter, words):
            node = 0
            for length, character in enumerate(word, 1):
                node = self._nodes.setdefault((node, character), len(self._nodes) + 1)
                if length >= MIN_BEGINNING and 2 * length >= len(word):
                    self._words.setdefault(node, word)

    def find(self, word: str) -> str | None:
        """Return one of the words with which this one has the longest beginning in common."""
        node, akin = 0, None
        for length, character in enumerate(word if has_letter(word) else "", 1):
            node = self._nodes.get((node, character), 0)
            if not node:
                break
            if length >= MIN_BEGINNING and 2 * length >= len(word):
                akin = self._words.get(node, akin)
        return akin


class Covering:
    """Whether the prose of a step covers words (docs/rules.md, Gates)."""

    def __init__(self, spoken: Spoken, settings: ScoreSettings) -> None:
        self._canon, self._by_words = spoken.canon, settings.coverage == "words"
        self._covered = dict.fromkeys(spoken.canon.split(" "), True)
        if self._by_words:
            self._covered |= dict.fromkeys(spoken.parts.split(" "), True)
            self._akin = Akin(self._covered)
            self._runs = set(chain.from_iterable(map(runs_of, spoken.canon.split(" "))))

    def covers(self, word: str) -> bool:
        if word not in self._covered:
            self._covered[word] = self._finds(word)
        return self._covered[word]

    def _finds(self, word: str) -> bool:
        if not self._by_words:
            return word in self._canon
        if has_letter(word):
            return self._akin.find(word) is not None
        runs = runs_of(word)
        return bool(runs) and self._runs.issuperset(runs)


@cache
def _measure(coverage: Literal["substring", "words"]) -> tuple[Scorer, ReferenceTexts]:
    """Return a scorer whose coverage check always passes, and an arbitrary reference."""
    settings = ScoreSettings(coverage=coverage, min_coverage=0.0, max_response_bytes=UNLIMITED, max_steps=UNLIMITED)
    scorer = Scorer(settings, threads=1)
    return scorer, ReferenceTexts(text_column(['Step 1: {"action": "a", "objects": [], "parameters": []}']))


def _pairs_in(reading: Reading) -> Iterator[tuple[int, KeyLine, Prose]]:
    for k, (line, prose) in enumerate(zip(reading.lines, reading.prose, strict=False)):
        if line.status == "ok":
            yield k, line, prose


def coverages(reading: Reading, settings: ScoreSettings) -> list[Coverage | None]:
    pairs, content = list(_pairs_in(reading)), reading.text.content
    column = column_of(
        [
            b"<think></think><key>Step 1:%b</key><orc>Step 1:%b</orc><note></note>"
            % (content[line.body : line.stop], content[prose.body : prose.end])
            for _, line, prose in pairs
        ]
    )
    scorer, reference = _measure(settings.coverage)
    values = scorer.score_texts(column, reference, np.zeros(len(pairs), np.int64)).components["coverage"].tolist()
    measured: list[Coverage | None] = [None] * len(reading.lines)
    for (k, line, prose), value in zip(pairs, values, strict=True):
        covering = None if value == 1.0 else Covering(prose.spoken, settings)
        uses = [WordUse(word=word, covered=covering is None or covering.covers(word)) for word in line.words]
        uncovered = [use.word for use in uses if not use.covered]
        measured[k] = Coverage(
            value=value,
            enough=value >= settings.min_coverage,
            covered=len(uses) - len(uncovered),
            total=len(uses),
            words=uses,
            uncovered=uncovered,
        )
    return measured


class Added(NamedTuple):
    """The distinct numbers and words of the prose of a step that are not in its key step, where they are limited."""

    numbers: list[str] | None
    words: list[str] | None
    """With negations."""

    @property
    def negations(self) -> list[str]:
        return [word for word in self.words or () if word in NEGATION_WORDS]

    def beyond(self, limit: int | None) -> list[str]:
        """Return what a limit of words does not allow: negations, and words after the first `limit` others."""
        others = [word for word in self.words or () if word not in NEGATION_WORDS]
        return self.negations + others[limit:] if limit is not None else []

    def fails(self, limit: int | None) -> bool:
        return limit is not None and (len(self.words or ()) > limit or bool(self.negations))


def added_by(pairs: Sequence[tuple[KeyLine, Spoken]], steps: int, settings: ScoreSettings) -> list[Added]:
    """Return what the prose adds to each key step of a response with so many steps."""
    own_words = [line.words for line, _ in pairs]
    with_words, with_numbers = settings.max_added_words is not None, settings.max_added_numbers is not None
    parts = iter(parts_of(list(chain.from_iterable(own_words)))) if with_words else iter(())
    added = []
    for (_, spoken), words in zip(pairs, own_words, strict=True):
        numbers, other_words = None, None
        if with_numbers:
            own_runs = set(chain.from_iterable(map(runs_of, words)))
            runs = (run for _, run in _numbers_in(spoken.canon.split(" "), steps))
            numbers = [run for run in dict.fromkeys(runs) if run not in own_runs]
        if with_words:
            own = {*words, *chain.from_iterable(next(parts).split(" ") for _ in words)}
            akin = Akin(own)
            said = dict.fromkeys(filter(has_letter, spoken.parts.split(" ")))
            other_words = [
                word
                for word in said
                if word not in own
                and word not in UNITS
                and (word in NEGATION_WORDS or (word not in FUNCTION_WORDS and akin.find(word) is None))
            ]
        added.append(Added(numbers, other_words))
    return added


def _numbers_in(words: Sequence[str], steps: int) -> Iterator[tuple[int, str]]:
    """Yield the index of a word and each of its runs of digits, but not of the number of a step right after `step`."""
    for k, word in enumerate(words):
        of_step = k and words[k - 1] in STEP_WORDS and STEP_NUMBER.fullmatch(word) and 1 <= int(word) <= steps
        if of_step and (k + 1 == len(words) or words[k + 1] not in UNITS):
            continue
        yield from ((k, run) for run in runs_of(word))


def added_in(reading: Reading, settings: ScoreSettings) -> list[Added | None]:
    """Return what each prose step adds; None of one without a valid key step at its position."""
    pairs = list(_pairs_in(reading))
    added: list[Added | None] = [None] * len(reading.prose)
    listed = added_by([(line, prose.limited) for _, line, prose in pairs], len(reading.lines), settings)
    for (k, _, _), own in zip(pairs, listed, strict=True):
        added[k] = own
    return added


class Marks(NamedTuple):
    covered: list[Mark]
    added: list[Mark]


def marks_of(reading: Reading, added: Sequence[Added | None], settings: ScoreSettings) -> list[Marks]:
    """Mark the words of the key steps in the prose, and what each step adds."""
    texts = [reading.text.part(prose.start, prose.stop) for prose in reading.prose]
    marks = [Marks([], []) for _ in texts]
    if sum(prose.stop - prose.start for prose in reading.prose) > MAX_MARKED_BYTES:
        return marks
    for k, line, prose in _pairs_in(reading):
        own = added[k]
        listed = [] if own is None else [*(own.numbers or ()), *(own.words or ())]
        marks[k] = marks_in(line, prose, texts[k], listed, len(reading.lines), settings)
    return marks


def marks_in(
    line: KeyLine, prose: Prose, text: str, added: Sequence[str], steps: int, settings: ScoreSettings
) -> Marks:
    """Mark the words of a key step and `added` numbers and words in the text of a prose step."""
    pieces, marks = list(PIECE.finditer(text)), Marks([], [])
    by_words = settings.coverage == "words"
    words = [word for word in line.words if word in prose.canon]
    if (1 if by_words else len(words)) * len(pieces) > MAX_COMPARISONS:
        return marks
    units = [0, *accumulate(1 + (character > "\uffff") for character in text)]
    words_of_pieces = _words_of_pieces(text, pieces)
    if by_words:
        covered = _covered_by_words(line, words_of_pieces)
    else:
        covered = [[word for word in words if any(word in part for part in said)] for said in words_of_pieces]
    added_to = _added_in_pieces(words_of_pieces, set(added), steps) if added else [[]] * len(pieces)
    for piece, *listed in zip(pieces, covered, added_to, strict=True):
        whole = piece.group()
        start, stop = piece.end() - len(whole.lstrip(OUTER)), piece.start() + len(whole.rstrip(OUTER))
        for kind, of_kind in zip(marks, listed, strict=True):
            if of_kind and start < stop:
                kind.append(Mark(characters=(start, stop), utf16=(units[start], units[stop]), words=of_kind))
    return marks


def _parts(words_of_pieces: Sequence[Sequence[str]]) -> list[list[str]]:
    return [part.split(" ") for part in parts_of([" ".join(words) for words in words_of_pieces])]


def _covered_by_words(line: KeyLine, words_of_pieces: Sequence[Sequence[str]]) -> list[list[str]]:
    step_words, akin = set(line.words), Akin(line.words)
    covered = []
    for words, parts in zip(words_of_pieces, _parts(words_of_pieces), strict=True):
        kin = (word if word in step_words else akin.find(word) for word in [*words, *parts])
        covered.append([word for word in dict.fromkeys(kin) if word is not None])
    return covered


def _added_in_pieces(words_of_pieces: Sequence[Sequence[str]], added: set[str], steps: int) -> list[list[str]]:
    listed: list[dict[str, None]] = [{} for _ in words_of_pieces]
    places = [k for k, words in enumerate(words_of_pieces) for _ in words]
    for k, run in _numbers_in(list(chain.from_iterable(words_of_pieces)), steps):
        if run in added:
            listed[places[k]][run] = None
    for own, parts in zip(listed, _parts(words_of_pieces), strict=True):
        own |= dict.fromkeys(part for part in parts if part in added and has_letter(part))
    return [list(own) for own in listed]


def _words_of_pieces(text: str, pieces: Sequence[re.Match[str]]) -> list[list[str]]:
    """Return the canonical words that each piece adds.

    A unit depends on the number before it, and `x g` on both: so a piece is read together with the two before it.
    """
    texts = []
    for k, piece in enumerate(pieces):
        start = pieces[max(0, k - 2)].start()
        texts += [text[start : pieces[k - 1].end()] if k else "", text[start : piece.end()]]
    split = [canon.split(" ") if canon else [] for canon in canons(texts)]
    added = []
    for without, together in zip(split[::2], split[1::2], strict=True):
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(without, together, strict=False)))
        added.append(together[shared:])
    return added
