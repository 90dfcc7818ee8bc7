"""An explanation as text for a terminal.

Colours are ANSI sequences, which `click.echo` strips if unwanted; those in texts of the response are replaced.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import partial

import click

from ..settings import MAX_CONTENT
from .numbers import first_n, format_delta, format_number
from .schema import Explanation, KeyStep, Pair, Similarity

__all__ = ["as_text", "printable"]

BAR = 24
"""Characters of the longest bar of the waterfall."""

MAX_LINES = 60
"""Steps of one kind that are listed; the JSON has all."""

MAX_WORDS = 16

UNSAFE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories of characters that may control a terminal, or change the direction of its text."""


def printable(text: str) -> str:
    """Replace every character of the text that could control a terminal."""
    return "".join("\ufffd" if unicodedata.category(character) in UNSAFE else character for character in text)


def as_text(explanation: Explanation) -> str:
    """Render the whole explanation, in paragraphs."""
    headline = click.style(printable(explanation.headline), bold=True)
    sections = (_gates, _failure, _steps, _prose, _waterfall, _arithmetic, _suggestions)
    texts = ("\n".join(section(explanation)) for section in sections)
    return "\n\n".join([headline, *filter(None, texts)])


_head = partial(click.style, bold=True, underline=True)
_dim = partial(click.style, dim=True)
_good = partial(click.style, fg="green")
_bad = partial(click.style, fg="red")
_strange = partial(click.style, fg="yellow")


def _gates(explanation: Explanation) -> Iterator[str]:
    yield _head("Gates")
    signs = {True: _good("✓"), False: _bad("✗"), None: _dim("·")}
    for check in explanation.checks:
        name = f"{check.name.replace('_', ' '):<14}"
        detail = printable(check.detail)
        yield f"  {signs[check.passed]} {name} {detail if check.passed is not None else _dim(detail)}"


def _failure(explanation: Explanation) -> Iterator[str]:
    failure = explanation.failure
    if failure is None:
        return
    where = f" (line {failure.place.line})" if failure.place is not None else ""
    yield _head(f"Why: {failure.reason}{where}")
    yield f"  {_bad(printable(failure.message))}"
    yield f"  {printable(failure.remedy)}"


def _steps(explanation: Explanation) -> Iterator[str]:
    if not explanation.prediction or explanation.content is None:
        return
    counts = "" if explanation.counted else _dim("  (not counted: the response fails a gate)")
    yield _head("Steps of the response ─ steps of the reference") + counts
    pairs = {pair.predicted: pair for pair in explanation.pairs}
    for step in explanation.prediction[:MAX_LINES]:
        if step.step in pairs:
            yield from _pair(pairs[step.step])
        else:
            yield f"  {step.step:>3} ─ {'·':<3} {_strange(_named(step))}  {_alone(step, explanation)}"
    rest = len(explanation.prediction) - MAX_LINES
    if rest > 0:
        yield _dim(f"  and {rest:,} more steps")
    alone = [step for step in explanation.reference if step.partner is None]
    for step in alone[:MAX_LINES]:
        yield f"    · ─ {step.step:<3} {_bad(_named(step))}  {_dim('without a partner in the response')}"
    if len(alone) > MAX_LINES:
        yield _dim(f"  and {len(alone) - MAX_LINES:,} more steps of the reference without a partner")


def _named(step: KeyStep) -> str:
    return printable(step.text if step.action is None else step.action.text)[:80]


def _alone(step: KeyStep, explanation: Explanation) -> str:
    if step.status != "ok":
        return _bad(step.status)
    order = explanation.order
    if order is not None and step.step in order.out_of_order:
        return _dim("out of order")
    return _dim("without a partner in the reference")


def _pair(pair: Pair) -> Iterator[str]:
    obj, par, m = map(format_number, (pair.objects.value, pair.parameters.value, pair.position))
    values = f"Obj {obj}  Par {par}  m {m}"
    value = (_good if pair.value == MAX_CONTENT else _strange)(format_number(pair.value))
    yield f"  {pair.predicted:>3} ─ {pair.reference:<3} {printable(pair.action)}  {_dim(values + '  →')} {value}"
    for name, similarity in (("objects", pair.objects), ("parameters", pair.parameters)):
        if similarity.missing or similarity.extra:
            note = "" if name == "objects" or pair.parameters_counted else _dim("  (not counted: Obj < 0.5)")
            yield f"            {name:<10} {_words(similarity)}{note}"


def _words(similarity: Similarity) -> str:
    marked = (_good, "", similarity.shared), (_bad, "−", similarity.missing), (_strange, "+", similarity.extra)
    return "  ".join(
        colour(first_n([f"{sign}{printable(word)}" for word in words], MAX_WORDS))
        for colour, sign, words in marked
        if words
    )


def _prose(explanation: Explanation) -> Iterator[str]:
    lacking = [(step, step.coverage) for step in explanation.prediction if step.coverage and step.coverage.uncovered]
    if not lacking:
        return
    yield _head("Words that the prose lacks")
    for step, coverage in lacking[:MAX_LINES]:
        assert coverage is not None
        share = f"{coverage.covered} of {coverage.total}"
        colour = _strange if coverage.enough else _bad
        words = first_n([printable(word) for word in coverage.uncovered], MAX_WORDS)
        yield f"  step {step.step:<3} {_dim(f'{share} covered')}  {colour(words)}"
    if len(lacking) > MAX_LINES:
        yield _dim(f"  and {len(lacking) - MAX_LINES:,} more steps")


def _waterfall(explanation: Explanation) -> Iterator[str]:
    yield _head("From the best score to this one")
    for factor in explanation.factors:
        largest = explanation.largest_score
        kept = round(BAR * max(0.0, min(factor.score, factor.score - factor.change)) / largest)
        lost = round(BAR * max(0.0, -factor.change) / largest)
        change = format_delta(factor.change)
        if factor.name in ("best", "score"):
            kept, lost, change = round(BAR * factor.score / largest), 0, format_number(factor.score)
        bar = (_good("█" * kept) if kept else "") + (_bad("░" * lost) if lost else "") + " " * (BAR - kept - lost)
        yield f"  {factor.label:<18} {change:>9}  {bar}  {_dim(printable(factor.detail))}"


def _arithmetic(explanation: Explanation) -> Iterator[str]:
    yield _head("Arithmetic")
    for equation in explanation.equations:
        yield f"  {equation.text}"


def _suggestions(explanation: Explanation) -> Iterator[str]:
    gains = [format_delta(suggestion.gain) for suggestion in explanation.suggestions]
    if gains:
        yield _head("What would change it most")
    width = max(map(len, gains), default=0)
    for gain, suggestion in zip(gains, explanation.suggestions, strict=True):
        yield f"  {_good(f'{gain:>{width}}')}  {printable(suggestion.text)}"
