"""One response against its reference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise, takewhile
from typing import Any, NamedTuple

import numpy as np

from ...kernels.column import TextColumn, column_of
from ...kernels.reading.references import References
from ..errors import InvalidReference, InvalidRequest, Issue
from ..rewards.scorer import Scorer
from ..rewards.scores import Scores
from ..scoring.labels import read_label
from ..scoring.reference_reader import parse_valid_references, references_as_column
from ..scoring.references import MAX_REFERENCE_BYTES, UNLIMITED, ReferenceTexts, alternatives_of
from ..scoring.texts import text_column, utf8
from ..settings import ScoreSettings
from .reading import MAX_STEPS, KeyLine, Reading, Text, canons, read_reference, read_response
from .schema import Coverage, Mark, WordUse

MAX_BYTES = 1 << 19  # of a response that is explained


@dataclass(frozen=True, kw_only=True)
class Case:
    scorer: Scorer
    response: bytes
    references: ReferenceTexts
    """The reference with its alternatives."""
    max_reference_bytes: int
    texts: TextColumn
    """Their texts."""
    step_counts: list[int]
    """The steps of each text."""
    alternative: int
    """The alternative that counted, from 0."""
    alternative_rewards: list[float]
    """The reward against each alternative."""
    as_steps: bool
    reward: float
    reason: str
    components: dict[str, float]
    steps: list[dict[str, Any]]
    """The entry of the response in the column of steps."""
    reading: Reading | None
    expected: Reading

    @property
    def settings(self) -> ScoreSettings:
        return self.scorer.settings

    def reading_of(self, alternative: int) -> Reading:
        """Return an alternative of the reference; 0 is a reference without alternatives."""
        return self.expected if alternative == self.alternative else _alternative(self.texts, alternative)

    def rescored(self, responses: list[bytes]) -> Scores:
        index = np.zeros(len(responses), np.int64)
        return self.scorer.score_texts(column_of(responses), self.references, index, self.max_reference_bytes)


def case_of(
    scorer: Scorer, response: str, reference: str | Mapping[str, Any], max_reference_bytes: int = MAX_REFERENCE_BYTES
) -> Case:
    """Score one response; raises InvalidReference, and InvalidRequest if a text is too long to be explained."""
    if not isinstance(response, str):
        raise InvalidRequest([Issue("response", "wrong_type", "a string is needed")])
    settings, content = scorer.settings, utf8(response)
    reference = read_label(reference).reference
    references, parsed = read_texts(reference, settings, max_reference_bytes)
    column = references.texts
    assert isinstance(column, TextColumn)
    too_large = []
    if column.lengths.max() > MAX_BYTES or parsed.step_counts.max() > MAX_STEPS:
        too_large.append("reference")
    if MAX_BYTES < len(content) <= settings.max_response_bytes:
        too_large.append("response")
    _refuse(too_large)
    index = np.zeros(1, np.int64)
    scores = scorer.score_texts(column_of([content]), references, index, max_reference_bytes, steps=True)
    assert scores.alternative is not None
    assert scores.steps is not None
    alternative, index = int(scores.alternative[0]), np.arange(column.rows)
    rewards = scores.rewards
    if references.alternatives is not None:
        each = ReferenceTexts(column)
        rewards = scorer.score_texts(column_of([content] * column.rows), each, index, max_reference_bytes).rewards
    reason, reading = str(scores.reasons[0]), None
    if len(content) <= settings.max_response_bytes:
        reading = read_response(Text(content), settings.think_prefilled or reason == "think_not_opened")
        if reason != "too_long" and reading.whole == 4 and max(reading.key_lines, reading.prose_steps) > MAX_STEPS:
            _refuse(["response"])  # only if max_steps is set above what is explained
    return Case(
        scorer=scorer,
        response=content,
        references=references,
        max_reference_bytes=max_reference_bytes,
        texts=column,
        step_counts=parsed.step_counts.tolist(),
        alternative=alternative,
        alternative_rewards=rewards.tolist(),
        as_steps=not isinstance(chosen_of(reference, alternative), str),
        reward=float(scores.rewards[0]),
        reason=reason,
        components={name: float(values[0]) for name, values in scores.components.items()},
        steps=scores.steps[0],
        reading=reading,
        expected=_alternative(column, alternative),
    )


def _alternative(texts: TextColumn, number: int) -> Reading:
    return read_reference(Text(texts.data[texts.offsets[number] : texts.offsets[number + 1]].tobytes()))


def chosen_of(reference: Any, alternative: int) -> Any:
    """Return the alternative of this number, or the reference without alternatives."""
    entries = alternatives_of(reference)
    return reference if entries is None else entries[alternative]


def read_texts(reference: Any, settings: ScoreSettings, max_bytes: int) -> tuple[ReferenceTexts, References]:
    """Return a reference, with its alternatives side by side, and its parsed texts; raises InvalidReference."""
    references, issues = references_as_column([reference])
    parsed, faults = parse_valid_references(references, settings.max_reference_steps, max_bytes)
    if issues := issues or faults:
        raise InvalidReference(
            [issue._replace(path=issue.path.replace("references[0]", "reference", 1)) for issue in issues]
        )
    return references, parsed


def _refuse(paths: list[str]) -> None:
    if paths:
        detail = f"explanations are limited to {MAX_BYTES} bytes and {MAX_STEPS} steps"
        raise InvalidRequest([Issue(path, "too_long", detail) for path in paths])


MAX_MARKED_BYTES = 1 << 16  # of prose whose words are marked
MAX_COMPARISONS = 1 << 20  # pairs of a piece of prose and a word of its step
PIECE = re.compile(r"\S+")
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)*(?:-[0-9]+(?:\.[0-9]+)*)?")
"""A canonical word that is a number, or a range (docs/rules.md, Words)."""

STEP_WORDS = ("step", "steps")
OUTER = " \t.,;:!?()[]{}<>\"'`*_"  # punctuation that is not marked along with a word


@cache
def _measure() -> tuple[Scorer, ReferenceTexts]:
    """Return a scorer whose coverage check always passes, and an arbitrary reference."""
    scorer = Scorer(min_coverage=0.0, max_response_bytes=UNLIMITED, max_steps=UNLIMITED, threads=1)
    return scorer, ReferenceTexts(text_column(['Step 1: {"action": "a", "objects": [], "parameters": []}']))


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
    values = scorer.score_texts(column, reference, np.zeros(len(pairs), np.int64)).components["coverage"].tolist()
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


def added_numbers(line: KeyLine, prose: str) -> list[str]:
    """Return the distinct numbers of a prose step, as canonical text, that are not among the words of its key step.

    One that is only the number of a step, right after `step` or `steps`, does not count.
    """
    own, words = set(line.words), prose.split(" ")
    return [word for word in dict.fromkeys(_numbers_in(["", *words])) if word not in own]


def _numbers_in(words: Sequence[str]) -> Iterator[str]:
    for previous, word in pairwise(words):
        if previous not in STEP_WORDS and NUMBER.fullmatch(word):
            yield word


def added_in(reading: Reading) -> list[list[str] | None]:
    """Return the added numbers of each prose step; None of one without a valid key step at its position."""
    added: list[list[str] | None] = [None] * len(reading.prose)
    for k, (line, prose) in enumerate(zip(reading.lines, reading.prose, strict=False)):
        if line.status == "ok":
            added[k] = added_numbers(line, prose.canon)
    return added


class Marks(NamedTuple):
    covered: list[Mark]
    added: list[Mark]


def marks_of(reading: Reading, added: Sequence[Sequence[str] | None]) -> list[Marks]:
    """Mark the words of the key steps in the prose, and these numbers of each step."""
    texts = [reading.text.part(prose.start, prose.stop) for prose in reading.prose]
    marks = [Marks([], []) for _ in texts]
    if sum(prose.stop - prose.start for prose in reading.prose) > MAX_MARKED_BYTES:
        return marks
    for k, (line, text) in enumerate(zip(reading.lines, texts, strict=False)):
        if line.status == "ok":
            marks[k] = marks_in(line, reading.prose[k].canon, text, added[k] or ())
    return marks


def marks_in(line: KeyLine, canon: str, text: str, added: Sequence[str]) -> Marks:
    words = [word for word in line.words if word in canon]
    pieces = list(PIECE.finditer(text))
    marks = Marks([], [])
    if (len(words) + len(added)) * len(pieces) > MAX_COMPARISONS:
        return marks
    units = [0, *accumulate(1 + (character > "\uffff") for character in text)]
    previous = ""
    for piece, added_words in zip(pieces, _words_of_pieces(text, pieces), strict=True):
        covered = [word for word in words if any(word in part for part in added_words)]
        numbers = [word for word in dict.fromkeys(_numbers_in([previous, *added_words])) if word in added]
        previous = added_words[-1] if added_words else previous
        whole = piece.group()
        start, stop = piece.end() - len(whole.lstrip(OUTER)), piece.start() + len(whole.rstrip(OUTER))
        for kind, numbers_of_kind in ((marks.covered, covered), (marks.added, numbers)):
            if numbers_of_kind and start < stop:
                kind.append(Mark(characters=(start, stop), utf16=(units[start], units[stop]), words=numbers_of_kind))
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
