"""Examples as they are shown: the explanation of a response, its steps beside the reference's, and both texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import orjson

from ..errors import ScoringError
from ..explain.explanation import explain
from ..explain.schema import Explanation, KeyStep, Pair, Phrase, Similarity
from ..scoring.scorer import Scorer
from ..wording import clipped
from .examples import Example, Examples

__all__ = ["ShownExample", "shown_examples"]

MAX_STEPS = 20
"""Maximum number of rows of steps."""

MAX_PHRASES = 12
"""Objects, and parameters, that are shown of a step."""

MAX_TEXT = 6_000
"""Characters that are shown of a response, and of a reference."""

SUGGESTIONS = 3


class Chip(NamedTuple):
    """An object or a parameter; `kind` is "shared", "other" if the other side lacks words of it, or empty."""

    text: str
    kind: str


class Side(NamedTuple):
    """A step of the response or of the reference; `text` is its action, or its line if that is not valid."""

    step: int
    text: str
    valid: bool
    objects: Sequence[Chip]
    parameters: Sequence[Chip]


class Row(NamedTuple):
    """A step of the response beside the step of the reference that it is matched with; None if there is no such."""

    response: Side | None
    reference: Side | None
    pair: Pair | None
    note: str


class ShownExample(NamedTuple):
    """An example with its explanation, or why it has none."""

    example: Example
    response: str
    reference: str
    explanation: Explanation | None = None
    rows: Sequence[Row] = ()
    more_rows: int = 0
    problem: str = ""


def shown_examples(examples: Examples, scorer: Scorer) -> list[tuple[str, str, list[ShownExample]]]:
    """Return the title, an introduction and the examples of each section."""
    chosen = (
        ("Highest-scoring responses", "", examples.best()),
        ("Lowest-scoring responses that passed both gates", "", examples.worst()),
        ("One example of each reason", "Chosen at random, the same ones each time.", examples.by_reason()),
    )
    return [(title, text, [shown(one, scorer) for one in found]) for title, text, found in chosen]


def shown(example: Example, scorer: Scorer) -> ShownExample:
    """Explain an example."""
    reference = example.reference
    if not isinstance(reference, str):
        steps = reference["steps"] if reference else []
        reference = "\n".join(f"Step {k}: {orjson.dumps(step).decode()}" for k, step in enumerate(steps, 1))
    texts = clipped(example.response, MAX_TEXT), clipped(reference, MAX_TEXT)
    if not example.whole:
        return ShownExample(example, *texts, problem="The response is too long; only its beginning is shown.")
    try:
        explanation = explain(scorer, example.response, example.reference, suggestions=SUGGESTIONS)
    except ScoringError as error:  # too long for an explanation
        return ShownExample(example, *texts, problem="; ".join(issue.detail for issue in error.issues))
    rows = list(aligned(explanation)) if explanation.content else []
    more = max(len(rows) - MAX_STEPS, 0)
    return ShownExample(example, *texts, explanation, rows[:MAX_STEPS], more)


def aligned(explanation: Explanation) -> Iterator[Row]:
    """Yield the steps of the response in order; a step of the reference without a partner after its predecessor."""
    pairs = {pair.predicted: pair for pair in explanation.pairs}
    order = explanation.order
    out_of_order = set(order.out_of_order) if order is not None else set()
    lacking = [step for step in explanation.reference if step.partner is None]
    for step in explanation.prediction:
        pair = pairs.get(step.step)
        if pair is None:
            note = step.status if step.status != "ok" else "not in the reference"
            yield Row(side(step, None), None, None, "out of order" if step.step in out_of_order else note)
            continue
        while lacking and lacking[0].step < pair.reference:
            yield missing(lacking.pop(0))
        reference = explanation.reference[pair.reference - 1]
        yield Row(side(step, pair), side(reference, pair), pair, "")
    yield from map(missing, lacking)


def missing(step: KeyStep) -> Row:
    return Row(None, side(step, None), None, "not in the response")


def side(step: KeyStep, pair: Pair | None) -> Side:
    """Return a step with its objects and parameters, which are marked if it is part of a pair."""
    if step.action is None:
        return Side(step.step, step.text[:80], False, (), ())
    objects, parameters = (pair.objects, pair.parameters) if pair is not None else (None, None)
    return Side(step.step, step.action.text, True, chips(step.objects, objects), chips(step.parameters, parameters))


def chips(phrases: Sequence[Phrase], similarity: Similarity | None) -> list[Chip]:
    """Mark phrases by whether the other side has them: as a whole, or their words, whichever is compared."""
    found = [Chip(phrase.text[:80], kind_of(phrase, similarity)) for phrase in phrases[:MAX_PHRASES]]
    rest = len(phrases) - MAX_PHRASES
    return [*found, Chip(f"and {rest:,} more", "")] if rest > 0 else found


def kind_of(phrase: Phrase, similarity: Similarity | None) -> str:
    if similarity is None or similarity.compared == "nothing" or not phrase.words:
        return ""
    shared = set(similarity.shared)
    same = phrase.canon in shared if similarity.compared == "objects" else shared.issuperset(phrase.words)
    return "shared" if same else "other"
