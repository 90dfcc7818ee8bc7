"""Renders one example with its explanation as a collapsible section."""

from __future__ import annotations

from ..errors import ScoringError
from ..explain.explanation import explain
from ..explain.numbers import first_n, format_delta, format_number
from ..explain.schema import Explanation, Factor, KeyStep, Pair, Similarity
from ..scoring.scorer import Scorer
from .charts import share_bar
from .examples import Example
from .markup import Markup, concatenate, element, table

__all__ = ["example"]

MAX_TEXT = 20_000
MAX_STEPS = 40
MAX_WORDS = 24


def example(found: Example, scorer: Scorer, name: str) -> Markup:
    """Return a collapsible section: reward and location, explanation, then the texts. `name` is that of the file."""
    where = found.location.within(name)
    summary = element("summary", element("b", format_number(found.reward)), f" {found.reason} ", element("code", where))
    if not found.whole:
        note = element("p", "The response is too long; only its beginning is shown.", class_="soft")
        return element("details", summary, note, element("pre", found.response, tabindex="0"))
    try:
        explanation = explain(scorer, found.response, found.reference, suggestions=3)
    except ScoringError as error:  # too long for an explanation
        details = "; ".join(issue.detail for issue in error.issues)
        return element("details", summary, element("p", details, class_="soft"), _text(found.response))
    parts = [element("p", explanation.headline), *_failure(explanation), *_factors(explanation)]
    parts += [*_pairs(explanation), *_suggestions(explanation)]
    return element("details", summary, *parts, element("h3", "Response"), _text(found.response))


def _text(text: str) -> Markup:
    rest = len(text) - MAX_TEXT
    more = element("p", f"and {rest:,} more characters", class_="soft") if rest > 0 else Markup("")
    return concatenate([element("pre", text[:MAX_TEXT], tabindex="0"), more])


def _failure(explanation: Explanation) -> list[Markup]:
    if explanation.failure is None:
        return []
    failed = [check.name.replace("_", " ") for check in explanation.checks if check.passed is False]
    return [element("p", f"Failed check: {', '.join(failed)}. {explanation.failure.remedy}", class_="soft")]


def _factors(explanation: Explanation) -> list[Markup]:
    if not explanation.counted:
        return []
    lines = [
        element(
            "tr",
            element("td", factor.label),
            element("td", _number_of(factor)),
            element("td", share_bar(factor.score / explanation.largest_score), class_="drawn"),
            element("td", factor.detail, class_="wide"),
        )
        for factor in explanation.factors
    ]
    return [element("h3", "From the best score to this one"), table((), lines, "From the best score to this one")]


def _number_of(factor: Factor) -> str:
    return format_number(factor.score) if factor.name in ("best", "score") else format_delta(factor.change)


def _pairs(explanation: Explanation) -> list[Markup]:
    if explanation.content is None:
        return []
    pairs = {pair.predicted: pair for pair in explanation.pairs}
    lines = []
    for step in explanation.prediction[:MAX_STEPS]:
        pair = pairs.get(step.step)
        lines.append(_matched(pair) if pair is not None else _unmatched(step, f"{step.step} ─ ·"))
    unmatched = [step for step in explanation.reference if step.partner is None]
    lines += [_unmatched(step, f"· ─ {step.step}") for step in unmatched[:MAX_STEPS]]
    names = ("steps", "action", "Obj", "Par", "m", "value", "objects and parameters: shared −missing +extra")
    rest = len(explanation.prediction) + len(unmatched) - len(lines)
    more = [element("p", f"and {rest:,} more steps", class_="soft")] if rest > 0 else []
    title = "Steps of the response ─ steps of the reference"
    return [element("h3", title), table(names, lines, title), *more]


def _matched(pair: Pair) -> Markup:
    numbers = (pair.objects.value, pair.parameters.value, pair.position, pair.value)
    words = [*_words(pair.objects), *_words(pair.parameters)]
    return element(
        "tr",
        element("td", f"{pair.predicted} ─ {pair.reference}"),
        element("td", pair.action),
        *(element("td", format_number(number)) for number in numbers),
        element("td", *words, class_="wide"),
    )


def _words(similarity: Similarity) -> list[str]:
    parts: list[str] = []
    for sign, kind, words in (
        ("", "shared", similarity.shared),
        ("−", "missing", similarity.missing),
        ("+", "extra", similarity.extra),
    ):
        if words:
            listed = first_n([sign + word for word in words], MAX_WORDS)
            parts += [element("span", listed, class_=kind), " "]
    return parts


def _unmatched(step: KeyStep, numbers: str) -> Markup:
    label = step.text[:80] if step.action is None else step.action.text
    why = step.status if step.status != "ok" else "not matched"
    cells = [element("td", numbers), element("td", label), *(element("td") for _ in range(4))]
    return element("tr", *cells, element("td", why, class_="wide"))


def _suggestions(explanation: Explanation) -> list[Markup]:
    if not explanation.suggestions:
        return []
    listed = [element("li", suggestion.text) for suggestion in explanation.suggestions]
    return [element("h3", "What would change it most"), element("ul", *listed)]
