"""Coverage: the words of each step that its prose has, and where they occur in the prose."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, takewhile

import numpy as np

from ...kernels.column import column_of
from ...kernels.reading.references import References
from ..rewards.scorer import Scorer
from ..scoring.references import UNLIMITED
from ..scoring.text_columns import text_column
from .reading import KeyLine, Prose, Reading
from .schema import Coverage, Mark, WordUse
from .text import canons

__all__ = ["coverages", "marks_of"]

MAX_MARKED_BYTES = 1 << 16  # of prose whose words are marked
MAX_COMPARISONS = 1 << 20  # pairs of a piece of prose and a word of its step
PIECE = re.compile(r"\S+")
OUTER = " \t.,;:!?()[]{}<>\"'`*_"  # punctuation that is not marked along with a word


@cache
def _measure() -> tuple[Scorer, References]:
    """Return a scorer whose coverage check always passes, and an arbitrary reference."""
    scorer = Scorer(min_coverage=0.0, max_response_bytes=UNLIMITED, max_steps=UNLIMITED, threads=1)
    return scorer, scorer.parse(text_column(['Step 1: {"action": "a", "objects": [], "parameters": []}']))


def coverages(reading: Reading, min_coverage: float) -> list[Coverage | None]:
    pairs = [
        (k, line, prose)
        for k, (line, prose) in enumerate(zip(reading.lines, reading.prose, strict=False))
        if line.status == "ok"
    ]
    content = reading.text.content
    column = column_of(
        [
            b"<think></think><key>Step 1:%b</key><orc>Step 1:%b</orc><note></note>"
            % (content[line.body : line.stop], content[prose.body : prose.end])
            for _, line, prose in pairs
        ]
    )
    scorer, reference = _measure()
    values = scorer.score_parsed(column, reference, np.zeros(len(pairs), np.int64)).components["coverage"].tolist()
    measured: list[Coverage | None] = [None] * len(reading.lines)
    for (k, line, prose), value in zip(pairs, values, strict=True):
        among = set(prose.canon.split(" "))
        uses = [WordUse(word=word, covered=value == 1.0 or word in among or word in prose.canon) for word in line.words]
        uncovered = [use.word for use in uses if not use.covered]
        measured[k] = Coverage(
            value=value,
            enough=value >= min_coverage,
            covered=len(uses) - len(uncovered),
            total=len(uses),
            words=uses,
            uncovered=uncovered,
        )
    return measured


def marks_of(reading: Reading) -> list[list[Mark]]:
    texts = [reading.text.part(prose.start, prose.stop) for prose in reading.prose]
    marks: list[list[Mark]] = [[] for _ in texts]
    if sum(prose.stop - prose.start for prose in reading.prose) > MAX_MARKED_BYTES:
        return marks
    for k, (line, text) in enumerate(zip(reading.lines, texts, strict=False)):
        if line.status == "ok":
            marks[k] = _marks(line, reading.prose[k], text)
    return marks


def _marks(line: KeyLine, prose: Prose, text: str) -> list[Mark]:
    words = [word for word in line.words if word in prose.canon]
    pieces = list(PIECE.finditer(text))
    if len(words) * len(pieces) > MAX_COMPARISONS:
        return []
    marks, units = [], [0, *accumulate(1 + (character > "\uffff") for character in text)]
    for piece, added_words in zip(pieces, _words_of_pieces(text, pieces), strict=True):
        covered = [word for word in words if any(word in part for part in added_words)]
        whole = piece.group()
        start, stop = piece.end() - len(whole.lstrip(OUTER)), piece.start() + len(whole.rstrip(OUTER))
        if covered and start < stop:
            marks.append(Mark(characters=(start, stop), utf16=(units[start], units[stop]), words=covered))
    return marks


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
