"""An explanation as text for a terminal, wrapped at its width.

Colours are ANSI sequences, which the command line strips if unwanted; those in texts of the response are replaced.
"""

from __future__ import annotations

import shutil
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from ..settings import MAX_CONTENT
from ..terminal import printable
from ..wording import first_n, format_reward, format_reward_change, plural
from .quantities import texts_of
from .schema import EQUAL, Explanation, Factor, KeyStep, Pair, PairQuantities, Phrase, ReadQuantity

BAR = 16  # characters of the longest bar of the waterfall
WIDE_ENOUGH = 72  # columns below which bars have half the length
MIN_WIDTH, MAX_WIDTH = 60, 100
MAX_LINES = 60  # steps of one kind that are listed; the JSON has all
MAX_WORDS = 16

Style = Callable[[str], str]


def _styled(*codes: int) -> Style:
    start = "".join(f"\x1b[{code}m" for code in codes)
    return lambda text: f"{start}{text}\x1b[0m"


_bold, _head, _dim = _styled(1), _styled(1, 4), _styled(2)
_good, _bad, _strange = _styled(32), _styled(31), _styled(33)


def as_text(explanation: Explanation, width: int | None = None) -> str:
    """Render the whole explanation in paragraphs; by default as wide as the terminal."""
    columns = shutil.get_terminal_size().columns if width is None else width
    page = _Page(max(MIN_WIDTH, min(columns, MAX_WIDTH)))
    sections = (
        _alternatives,
        _gates,
        _failure,
        _steps,
        _hints,
        _prose,
        _added,
        _waterfall,
        _arithmetic,
        _suggestions,
    )
    texts = ("\n".join(section(explanation, page)) for section in sections)
    headline = "\n".join(page.lines(explanation.headline, "", _bold))
    return "\n\n".join([headline, *filter(None, texts)])


class _Page:
    def __init__(self, width: int) -> None:
        self.width = width
        self.bar = BAR if width >= WIDE_ENOUGH else BAR // 2

    def lines(self, text: str, indent: str, style: Style = str, first: str = "") -> Iterator[str]:
        """Yield the text in lines; `first`, as wide as the indent, begins the first one."""
        room = max(20, self.width - _columns(indent))
        for k, line in enumerate(_wrapped(printable(text), room)):
            yield f"{first if first and not k else indent}{style(line)}"

    def cut(self, text: str, indent: int) -> str:
        text, room = printable(text), max(20, self.width - indent)
        return text if _columns(text) <= room else f"{_head_of(text, room - 1).rstrip()}…"


def _wrapped(text: str, room: int) -> list[str]:
    if _columns(text) == len(text):
        return textwrap.wrap(text, room, break_on_hyphens=False) or [""]
    lines, line = [], ""
    for word in text.split():
        for piece in _pieces(word, room):
            if line and _columns(line) + 1 + _columns(piece) > room:
                lines.append(line)
                line = piece
            else:
                line = f"{line} {piece}" if line else piece
    return [*lines, line]


def _pieces(word: str, room: int) -> Iterator[str]:
    while _columns(word) > room:
        head = _head_of(word, room)
        yield head
        word = word[len(head) :]
    yield word


def _columns(text: str) -> int:
    return sum(_column(character) for character in text)


def _column(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 1 + (unicodedata.east_asian_width(character) in "WF")


def _head_of(text: str, room: int) -> str:
    used = 0
    for k, character in enumerate(text):
        used += _column(character)
        if used > room:
            return text[:k]
    return text


def _alternatives(explanation: Explanation, page: _Page) -> Iterator[str]:
    if not explanation.alternatives:
        return
    number, count = explanation.alternative + 1, len(explanation.alternatives)
    yield _head(f"Reference: alternative {number} of {count} counts")
    for k, alternative in enumerate(explanation.alternatives, 1):
        sign = _good("✓") if k == number else " "
        yield f"  {sign} {k:>2}  {format_reward(alternative.reward):>8}  {_dim(plural(alternative.steps, 'step'))}"


def _gates(explanation: Explanation, page: _Page) -> Iterator[str]:
    yield _head("Gates")
    if explanation.failure is None:
        shown = [check for check in explanation.checks if check.name in ("coverage", "added_numbers", "added_words")]
        details = "; ".join(f"{check.name.replace('_', ' ')}: {check.detail}" for check in shown)
        yield from page.lines(f"both pass; {details}", " " * 4, first=f"  {_good('✓')} ")
        return
    signs = {True: _good("✓"), False: _bad("✗"), None: _dim("·")}
    for check in explanation.checks:
        name = f"{check.name.replace('_', ' '):<14}"
        style = _dim if check.passed is None else str
        yield from page.lines(check.detail, " " * 19, style, f"  {signs[check.passed]} {name} ")


def _failure(explanation: Explanation, page: _Page) -> Iterator[str]:
    failure = explanation.failure
    if failure is None:
        return
    where = f" (line {failure.place.line})" if failure.place is not None else ""
    yield _head(f"Why: {failure.reason}{where}")
    yield from page.lines(failure.remedy, "  ")


def _steps(explanation: Explanation, page: _Page) -> Iterator[str]:
    if not explanation.prediction or explanation.content is None:
        return
    counts = "" if explanation.counted else _dim("  (not counted: a gate fails)")
    yield _head("Steps of the response ─ steps of the reference") + counts
    pairs = {pair.predicted: pair for pair in explanation.pairs}
    for step in explanation.prediction[:MAX_LINES]:
        if step.step in pairs:
            pair = pairs[step.step]
            yield f"  {step.step:>3} ─ {pair.reference:<3} {page.cut(_named(step), 12)}"
            yield from _pair(pair, step, explanation.reference[pair.reference - 1], page)
        else:
            yield f"  {step.step:>3} ─ {'·':<3} {_strange(page.cut(_named(step), 12))}"
            yield f"{' ' * 12}{_alone(step, explanation)}"
    hidden = len(explanation.prediction) - MAX_LINES
    if hidden > 0:
        yield _dim(f"  and {plural(hidden, 'more step')}")
    alone = [step for step in explanation.reference if step.partner is None]
    for step in alone[:MAX_LINES]:
        yield f"    · ─ {step.step:<3} {_bad(page.cut(_named(step), 12))}"
        yield f"{' ' * 12}{_dim('not in the response')}"
    if len(alone) > MAX_LINES:
        yield _dim(f"  and {plural(len(alone) - MAX_LINES, 'more step')} of the reference that are not in the response")


def _named(step: KeyStep) -> str:
    if step.action is None:
        return step.text
    objects = ", ".join(phrase.text for phrase in step.objects)
    parameters = ", ".join(phrase.text for phrase in step.parameters)
    text = f"{step.action.text}: {objects}" if objects else step.action.text
    return f"{text} ({parameters})" if parameters else text


def _alone(step: KeyStep, explanation: Explanation) -> str:
    if step.status != "ok":
        return _bad(f"not a valid step ({step.status})")
    order = explanation.order
    if order is not None and step.step in order.out_of_order:
        return _dim("out of order: unmatched")
    return _dim("not in the reference")


def _pair(pair: Pair, mine: KeyStep, theirs: KeyStep, page: _Page) -> Iterator[str]:
    if pair.value == MAX_CONTENT and not (pair.quantities is not None and pair.quantities.errors):
        yield f"{' ' * 12}{_good('agrees')}"
    else:
        obj, par, m = map(format_reward, (pair.objects.value, pair.parameters.value, pair.position))
        values = f"Obj {obj}  Par {par}  m {m}  → "
        yield f"{' ' * 12}{_dim(values)}{_strange(format_reward(pair.value))}"
    for name, similarity in (("objects", pair.objects), ("parameters", pair.parameters)):
        said, needed = getattr(mine, name), getattr(theirs, name)
        terms = similarity.compared == "terms"
        lacking = _phrases(needed, said, similarity.missing, terms)
        extra = _phrases(said, needed, similarity.extra, terms)
        note = "" if name == "objects" or pair.parameters_counted else "  (not counted: Obj < 0.5)"
        equal = [text for text in similarity.shared if EQUAL in text]
        if similarity.missing or similarity.extra or equal:
            yield from _difference(name, equal, lacking, extra, note, page)
    if pair.quantities is not None and pair.quantities.errors:
        yield from page.lines("; ".join(pair.quantities.advice), " " * 23, _bad, f"{' ' * 12}{'quantities':<10} ")
        read = [f"{q.text} is {q.read} ({q.dimension})" for q in _misread(pair.quantities)]
        if read:
            yield from page.lines("; ".join(read), " " * 23, _dim)


def _misread(quantities: PairQuantities) -> list[ReadQuantity]:
    """Return the wrong quantities whose reading is not evident from their text."""
    both = (*quantities.prediction, *quantities.reference)
    return [q for q in both if q.wrong and q.dimension and _plain(q.read) != _plain(q.text)]


def _plain(text: str) -> str:
    return text.replace(" ", "").replace("µ", "μ").casefold()


def _phrases(phrases: Sequence[Phrase], theirs: Sequence[Phrase], elements: Sequence[str], terms: bool) -> list[str]:
    """Return the phrases that the other side does not have; of compared terms, only those with one of `elements`."""
    canons = {phrase.canon for phrase in theirs}
    different = [phrase for phrase in phrases if phrase.words and phrase.canon not in canons]
    if terms:
        texts = texts_of(elements)
        different = [phrase for phrase in different if not texts.isdisjoint(phrase.terms or ())]
    return [phrase.text for phrase in different] or list(elements)


def _difference(
    name: str, equal: Sequence[str], lacking: Sequence[str], extra: Sequence[str], note: str, page: _Page
) -> Iterator[str]:
    first = f"{' ' * 12}{name:<10} "
    for sign, style, texts in (("", _dim, equal), ("−", _bad, lacking), ("+", _strange, extra)):
        if texts:
            text = first_n([f"{sign}{word}" for word in texts], MAX_WORDS)
            yield from page.lines(text + note, " " * 23, style, first)
            first, note = " " * 23, ""


def _hints(explanation: Explanation, page: _Page) -> Iterator[str]:
    if explanation.hints:
        yield _head("Hints")
    for hint in explanation.hints:
        yield from page.lines(hint.text, " " * 12, first=f"  step {hint.step or '':<3}  ")


def _prose(explanation: Explanation, page: _Page) -> Iterator[str]:
    lacking = [(step, step.coverage) for step in explanation.prediction if step.coverage and step.coverage.uncovered]
    if not lacking:
        return
    yield _head("Words missing from the prose")
    for step, coverage in lacking[:MAX_LINES]:
        assert coverage is not None
        words = first_n(coverage.uncovered, MAX_WORDS)
        text = f"{words} ({coverage.covered} of {coverage.total} covered)"
        yield from page.lines(text, " " * 12, _strange if coverage.enough else _bad, f"  step {step.step:<3}  ")
    if len(lacking) > MAX_LINES:
        yield _dim(f"  and {plural(len(lacking) - MAX_LINES, 'more step')}")


def _added(explanation: Explanation, page: _Page) -> Iterator[str]:
    kinds = (
        ("Numbers", "added_numbers", [(step.step, step.added_numbers) for step in explanation.prose]),
        ("Words", "added_words", [(step.step, step.added_words) for step in explanation.prose]),
    )
    for name, reason, listed in kinds:
        adding = [(number, entries) for number, entries in listed if entries]
        if adding:
            yield _head(f"{name} that only the prose has")
        style = _bad if explanation.reason == reason else _strange
        for number, entries in adding[:MAX_LINES]:
            yield from page.lines(first_n(entries, MAX_WORDS), " " * 12, style, f"  step {number:<3}  ")
        if len(adding) > MAX_LINES:
            yield _dim(f"  and {plural(len(adding) - MAX_LINES, 'more step')}")


def _waterfall(explanation: Explanation, page: _Page) -> Iterator[str]:
    yield _head("From the best reward to this one")
    for factor in explanation.factors:
        whole = factor.name in ("best", "score")
        amount = format_reward(factor.reward) if whole else format_reward_change(factor.reward_change)
        first = f"  {factor.label:<16} {amount:>8}  {_bar(factor, explanation.largest_score, whole, page.bar)}  "
        yield from page.lines(factor.detail, " " * (31 + page.bar), _dim, first)


def _bar(factor: Factor, largest: float, whole: bool, length: int) -> str:
    start = factor.score if whole else factor.score - factor.change
    stop = round(length * max(0.0, min(start, factor.score)) / largest)
    lost = round(length * max(0.0, start) / largest) - stop
    return _good("█" * stop) + (_bad("░" * lost) if lost else "") + " " * (length - stop - lost)


def _arithmetic(explanation: Explanation, page: _Page) -> Iterator[str]:
    yield _head("Arithmetic")
    for equation in explanation.equations:
        first, _, remainder = equation.text.partition(" ")
        yield from page.lines(remainder, " " * 12, first=f"  {first:<9} ")


def _suggestions(explanation: Explanation, page: _Page) -> Iterator[str]:
    if not explanation.suggestions:
        return
    among = f"  (among the {explanation.tried:,} edits tried)" if explanation.exhaustive is False else ""
    yield _head("What would change it most") + _dim(among)
    gains = [format_reward_change(suggestion.gain) for suggestion in explanation.suggestions]
    width = max(map(len, gains))
    for gain, suggestion in zip(gains, explanation.suggestions, strict=True):
        text = suggestion.text.rpartition(", reward ")[0]
        yield from page.lines(f"{text}.", " " * (4 + width), first=f"  {_good(f'{gain:>{width}}')}  ")
