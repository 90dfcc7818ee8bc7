"""Hints: what is the same to people, but not to the comparison."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

from ...kernels.rules import MIN_OBJECT_SIMILARITY
from ..settings import ScoreSettings
from ..wording import format_reward
from .prose import Akin
from .quantities import spelled_quantities, terms_of_each
from .reading import KeyLine, Prose, Quantity, Reading, canons, words_of
from .schema import Coverage, Hint, Pair, Phrase

MAX_HINTS = 10

POWER = re.compile(r"(?:^| |x)10 (-?[0-9]{1,2})(?= |$)")
"""A power of ten as words joined by spaces: `10 6` of `10⁶`, `5x10 6`."""

POWER_SIGNS = "powers are written with ^ or superscript digits"
AS_WRITTEN = "numbers and units are compared as written"
AS_WORDS = "number words are not read as numbers"
WITH_QUANTITIES = "; parameter_similarity = quantities would count it"
WITH_WORDS = "; coverage = words would count it"
WHOLE_WORDS = (
    "with coverage = words, a word is covered by itself or by one with the same beginning, at least half of both"
)


class Amounts:
    """The quantities of phrases that are not written alike, by their words."""

    def __init__(self, texts: Sequence[str]) -> None:
        quantities = [term for terms in terms_of_each(texts) for term in terms if isinstance(term, Quantity)]
        texts_of = canons([quantity.text for quantity in quantities])
        self.quantities = dict(zip(texts_of, quantities, strict=True))
        """Each with its canonical text."""
        self.spelled = {quantity: text for text in texts for quantity in spelled_quantities(text)}
        """Quantities whose number is written as a word, with their phrase."""


def hints_of(
    reading: Reading,
    expected: Reading,
    pairs: Sequence[Pair],
    coverages: Sequence[Coverage | None],
    settings: ScoreSettings,
) -> list[Hint]:
    quantities = settings.parameter_similarity == "quantities"
    hints = [*_about_pairs(reading, expected, pairs, quantities), *_about_prose(reading, coverages, settings)]
    if settings.object_similarity == "fallback":
        hints += _about_objects(reading, expected, pairs)
    hints.sort(key=lambda hint: hint.step or 0)
    return hints[:MAX_HINTS]


def _about_pairs(reading: Reading, expected: Reading, pairs: Sequence[Pair], quantities: bool) -> Iterator[Hint]:
    for pair in pairs:
        mine, theirs = reading.lines[pair.predicted - 1], expected.lines[pair.reference - 1]
        texts: list[str] = []
        for name in ("objects", "parameters"):
            said, needed = getattr(mine, name), getattr(theirs, name)
            if _canons(said) != _canons(needed):
                would = WITH_QUANTITIES if name == "parameters" else None
                texts += _about_phrases(said, needed, would, quantities and name == "parameters")
        yield from (Hint(text=text, step=pair.predicted, reference_step=pair.reference) for text in texts)


def _about_phrases(
    said: Sequence[Phrase], needed: Sequence[Phrase], would: str | None, by_quantities: bool
) -> Iterator[str]:
    mine, theirs = (Amounts([phrase.text for phrase in phrases]) for phrases in (said, needed))
    if by_quantities:
        yield from _in_other_dimensions(mine, theirs)
    else:
        for first, second in _equal(mine.quantities, theirs.quantities):
            yield f"{first} is {second}: {AS_WRITTEN}{would or ''}."
    for spelled, other in ((mine.spelled, theirs), (theirs.spelled, mine)):
        for quantity in other.quantities.values():
            if quantity in spelled:
                both = (spelled[quantity], quantity.text)
                yield f"{' is '.join(both if spelled is mine.spelled else both[::-1])}: {AS_WORDS}."
    yield from (f"{first} is not {second}: {POWER_SIGNS}." for first, second in _lost_powers(said, needed))


def _in_other_dimensions(mine: Amounts, theirs: Amounts) -> Iterator[str]:
    """Yield quantities with the same number, such as `300 g` and `300 x g`."""
    sides = [set(amounts.quantities.values()) for amounts in (mine, theirs)]
    free = {(other.kind, other.values): other for other in theirs.quantities.values() if other not in sides[0]}
    for quantity in mine.quantities.values():
        other = free.get((quantity.kind, quantity.values))
        if other is not None and quantity not in sides[1]:
            dimensions = (quantity.dimension or "no dimension", other.dimension or "no dimension")
            yield f"{quantity} is read as {dimensions[0]}, {other} as {dimensions[1]}."


def _about_objects(reading: Reading, expected: Reading, pairs: Sequence[Pair]) -> Iterator[Hint]:
    """Yield pairs whose parameters would count if Obj did not prefer the one whole object that they share."""
    for pair in pairs:
        if pair.objects.compared != "objects" or pair.parameters_counted:
            continue
        lines = reading.lines[pair.predicted - 1], expected.lines[pair.reference - 1]
        mine, theirs = (set(words_of(line.objects)) for line in lines)
        by_words = len(mine & theirs) / len(mine | theirs)
        if by_words >= MIN_OBJECT_SIMILARITY:
            text = (
                f"Obj is {format_reward(pair.objects.value)} by whole objects, {format_reward(by_words)} by words: "
                "words count only if no whole object is shared, or with object_similarity = max."
            )
            yield Hint(text=text, step=pair.predicted, reference_step=pair.reference)


def _about_prose(reading: Reading, coverages: Sequence[Coverage | None], settings: ScoreSettings) -> Iterator[Hint]:
    for k, (line, prose, coverage) in enumerate(zip(reading.lines, reading.prose, coverages, strict=False), 1):
        if coverage is not None and coverage.uncovered:
            text = reading.text.part(prose.start, prose.stop)
            yield from (
                Hint(text=f"The step has {text}.", step=k, reference_step=None)
                for text in _about_uncovered(line, prose, text, coverage.uncovered, settings)
            )


def _about_uncovered(
    line: KeyLine, prose: Prose, text: str, uncovered: Sequence[str], settings: ScoreSettings
) -> Iterator[str]:
    phrases, lacking = [*line.objects, *line.parameters], set(uncovered)
    step, said = Amounts([phrase.text for phrase in phrases]), Amounts([text])
    mine = {text: q for text, q in step.quantities.items() if not lacking.isdisjoint(text.split(" "))}
    for first, second in _equal(mine, said.quantities):
        yield f"{first}, its prose {second}: {AS_WRITTEN}"
    for quantity in mine.values():
        if quantity in said.spelled:
            yield f"{quantity}, its prose the number as a word: {AS_WORDS}"
    whole = Phrase(text="", words=prose.canon.split(" "))
    for power, other in _lost_powers(phrases, [whole]):
        if power in lacking:
            yield f"{power}, its prose {other}: {POWER_SIGNS}"
    if settings.coverage == "substring":
        akin = Akin(prose.spoken.parts.split(" "))
        for word in uncovered[:MAX_HINTS]:
            if (kin := akin.find(word)) is not None:
                yield f"{word}, its prose {kin}{WITH_WORDS}"
    else:
        for word in uncovered[:MAX_HINTS]:
            if word in prose.canon:
                longer = next(said_word for said_word in whole.words if word in said_word)
                yield f"{word}, its prose {longer}: {WHOLE_WORDS}"


def _equal(mine: dict[str, Quantity], theirs: dict[str, Quantity]) -> Iterator[tuple[Quantity, Quantity]]:
    """Yield equal quantities in different words, each with one partner; not those that the other side has as well."""
    free: dict[Quantity, deque[Quantity]] = defaultdict(deque)
    for text, quantity in theirs.items():
        if text not in mine:
            free[quantity].append(quantity)
    for text, quantity in mine.items():
        if text not in theirs and free[quantity]:
            yield quantity, free[quantity].popleft()


def _lost_powers(mine: Sequence[Phrase], theirs: Sequence[Phrase]) -> Iterator[tuple[str, str]]:
    my_exponents, their_exponents = _exponents(mine), _exponents(theirs)
    my_words, their_words = set(words_of(mine)), set(words_of(theirs))
    for exponent in dict.fromkeys([*my_exponents, *their_exponents]):
        power, plain = f"10^{exponent}", f"10{exponent}"
        if exponent not in their_exponents and plain in their_words - my_words:
            yield power, plain
        if exponent not in my_exponents and plain in my_words - their_words:
            yield plain, power


def _exponents(phrases: Sequence[Phrase]) -> list[str]:
    return [exponent for phrase in phrases for exponent in POWER.findall(phrase.canon)]


def _canons(phrases: Sequence[Phrase]) -> list[str]:
    return [phrase.canon for phrase in phrases]
