"""Candidate edits for a response that passes the gates, most promising first."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..numbers import first_n, format_number
from ..reading import Line, Reading
from ..schema import Explanation, Pair
from ..words import canons
from .drafts import Draft, DraftStep, body_renamed, body_with, draft_of, step_of

__all__ = ["Edit", "edits_of"]


class Edit(NamedTuple):
    """One change: its kind as in the contract, what it does, the steps concerned, and the changed response."""

    kind: str
    text: str
    steps: list[int]
    reference_steps: list[int]
    response: bytes


def edits_of(explanation: Explanation, reading: Reading, expected: Reading) -> Iterator[Edit]:
    """Yield candidates, most promising first."""
    draft = draft_of(reading)
    yield from _shortened(explanation, reading, draft)
    yield from _sorted(reading, expected, draft)
    yield from _dropped_and_added(explanation, reading, expected, draft)
    yield from _like_the_reference(explanation, reading, expected, draft)
    yield from _renamed(explanation, reading, expected, draft)
    yield from _moved(explanation, draft)
    yield from _swapped(explanation, draft)


def _shortened(explanation: Explanation, reading: Reading, draft: Draft) -> Iterator[Edit]:
    """Shorten every prose step that is longer than its own words."""
    scale = explanation.scale
    if scale is None or not scale.length_used or scale.length_penalty == 1.0:
        return
    steps, changed = [], []
    for k, (line, step) in enumerate(zip(reading.lines, draft.steps, strict=True), 1):
        brief = step_of(line, reading.text.content)
        if len(brief.prose.split()) < reading.prose[k - 1].pieces:
            steps.append(brief)
            changed.append(k)
        else:
            steps.append(step)
    if changed:
        words, limit = format_number(scale.mean_words), format_number(scale.max_mean_words)
        text = f"Shorten the prose: {words} words a step, free up to {limit}"
        yield Edit("shorten_prose", text, changed, [], draft.with_steps(steps).render())


def _sorted(reading: Reading, expected: Reading, draft: Draft) -> Iterator[Edit]:
    """Sort the steps in the order of the reference; one with an unknown action stays after the step before it."""
    places: dict[str, deque[int]] = defaultdict(deque)
    for j, line in enumerate(expected.lines):
        places[line.action.canon].append(j)
    keys: list[tuple[int, int]] = []
    last = -1
    for i, line in enumerate(reading.lines):
        free = places[line.action.canon]
        last = free.popleft() if free else last
        keys.append((last, i))
    order = [i for _, i in sorted(keys)]
    moved = [i + 1 for k, i in enumerate(order) if i != k]
    if len(moved) > 2:  # two are a swap
        text = f"Put the steps in the reference's order: {first_n([str(i + 1) for i in order], 12)}"
        steps = [draft.steps[i] for i in order]
        yield Edit("sort_steps", text, sorted(moved), [], draft.with_steps(steps).render())


def _dropped_and_added(explanation: Explanation, reading: Reading, expected: Reading, draft: Draft) -> Iterator[Edit]:
    """Drop steps that are not on the longest common path, add missing steps of the reference, or both."""
    order = explanation.order
    if order is None:
        return
    on_path = {i for i, _ in order.path}
    extra = [i for i in range(1, len(draft.steps) + 1) if i not in on_path]
    on_path = {j for _, j in order.path}
    missing = [j for j in range(1, len(expected.lines) + 1) if j not in on_path]
    if 1 < len(extra) < len(draft.steps):
        text = f"Drop {_steps(extra)}"
        yield Edit("drop_steps", text, extra, [], draft.with_steps(_without(draft.steps, extra)).render())
    if len(missing) > 1:
        text = f"Add the reference's {_steps(missing)}"
        yield Edit("add_steps", text, [], missing, _with_added(missing, order.path, expected, draft).render())
    if extra and missing and len(extra) < len(draft.steps):
        text = f"Drop {_steps(extra)} and add the reference's {_steps(missing)}"
        added = _with_added(missing, order.path, expected, draft, frozenset(extra))
        yield Edit("replace_steps", text, extra, missing, added.render())
    for j in missing:
        text = f"Add the reference's step {j} ({expected.lines[j - 1].action.canon})"
        yield Edit("add_step", text, [], [j], _with_added([j], order.path, expected, draft).render())
    for i in extra if len(draft.steps) > 1 else []:
        text = f"Drop step {i} ({reading.lines[i - 1].action.canon})"
        yield Edit("drop_step", text, [i], [], draft.with_steps(_without(draft.steps, [i])).render())


def _with_added(
    missing: Sequence[int],
    path: Sequence[tuple[int, int]],
    expected: Reading,
    draft: Draft,
    dropped: frozenset[int] = frozenset(),
) -> Draft:
    """Insert steps of the reference after the step that is paired with the nearest one before them."""
    added: dict[int, list[DraftStep]] = defaultdict(list)
    for j in missing:
        previous = max((i for i, partner in path if partner < j), default=0)
        added[previous].append(step_of(expected.lines[j - 1], expected.text.content))
    steps = list(added[0])
    for i, step in enumerate(draft.steps, 1):
        steps += added[i] if i in dropped else [step, *added[i]]
    return draft.with_steps(steps)


def _like_the_reference(explanation: Explanation, reading: Reading, expected: Reading, draft: Draft) -> Iterator[Edit]:
    """Give a pair the objects, or the parameters, of the reference; the pairs that lose most come first."""
    for pair in sorted(explanation.pairs, key=lambda pair: pair.value):
        line, source = reading.lines[pair.predicted - 1], expected.lines[pair.reference - 1]
        for kind in ("objects", "parameters"):
            theirs = getattr(source, kind)
            if _equal(pair, kind) or [each.canon for each in theirs] == [each.canon for each in getattr(line, kind)]:
                continue
            body = body_with(line, source, objects=kind == "objects", parameters=kind == "parameters")
            phrases = _unsaid([each.text for each in theirs], reading.prose[pair.predicted - 1].canon)
            step = DraftStep(body, draft.steps[pair.predicted - 1].prose).with_phrases(phrases)
            named = first_n([f"“{each.text}”" for each in theirs], 4) or "none"
            text = f"Give step {pair.predicted} the {kind} of the reference's step {pair.reference}: {named}"
            steps = _replaced(draft.steps, pair.predicted, step)
            yield Edit(f"use_{kind}", text, [pair.predicted], [pair.reference], draft.with_steps(steps).render())


def _equal(pair: Pair, kind: str) -> bool:
    if kind == "objects":
        return pair.objects.value == 1.0
    return not pair.parameters_counted or pair.parameters.value == 1.0


def _renamed(explanation: Explanation, reading: Reading, expected: Reading, draft: Draft) -> Iterator[Edit]:
    """Rename the action of a step off the common path to that of a reference step in the same gap of it."""
    order = explanation.order
    if order is None:
        return
    last_i, last_j = 0, 0
    for next_i, next_j in [*order.path, (len(draft.steps) + 1, len(expected.lines) + 1)]:
        for i, j in zip(range(last_i + 1, next_i), range(last_j + 1, next_j), strict=False):
            yield _with_action(i, j, reading, expected, draft)
        last_i, last_j = next_i, next_j


def _with_action(i: int, j: int, reading: Reading, expected: Reading, draft: Draft) -> Edit:
    line, action = reading.lines[i - 1], expected.lines[j - 1].action.text
    step = DraftStep(body_renamed(line, action), draft.steps[i - 1].prose)
    step = step.with_phrases(_unsaid([action], reading.prose[i - 1].canon))
    text = f"Call the action of step {i} “{action}”, as the reference's step {j} does"
    return Edit("use_action", text, [i], [j], draft.with_steps(_replaced(draft.steps, i, step)).render())


def _moved(explanation: Explanation, draft: Draft) -> Iterator[Edit]:
    """Move a step that is out of order to its position in the reference."""
    order = explanation.order
    if order is None:
        return
    on_path = {j for _, j in order.path}
    for i in order.out_of_order:
        action = order.predicted[i - 1]
        j = next(j for j, other in enumerate(order.expected, 1) if other == action and j not in on_path)
        previous = max((k for k, partner in order.path if partner < j), default=0)
        steps = [step for k, step in enumerate(draft.steps, 1) if k != i]
        index = previous - (previous > i)
        steps.insert(index, draft.steps[i - 1])
        if abs(index + 1 - i) > 1:  # else it is a swap
            where = f"behind step {previous}" if previous else "to the beginning"
            text = f"Move step {i} ({action}) {where}"
            yield Edit("move_step", text, [i], [j], draft.with_steps(steps).render())


def _swapped(explanation: Explanation, draft: Draft) -> Iterator[Edit]:
    """Swap neighbours, those with a step out of order first."""
    misplaced = set(explanation.order.out_of_order) if explanation.order is not None else set()
    for i in sorted(range(1, len(draft.steps)), key=lambda i: misplaced.isdisjoint((i, i + 1))):
        steps = [*draft.steps[: i - 1], draft.steps[i], draft.steps[i - 1], *draft.steps[i + 1 :]]
        yield Edit("swap_steps", f"Swap steps {i} and {i + 1}", [i, i + 1], [], draft.with_steps(steps).render())


def unsaid_phrases(line: Line, uncovered: Sequence[str]) -> list[str]:
    """Return the texts of a step's elements that have one of these words."""
    words = set(uncovered)
    return [element.text for element in line.elements if not words.isdisjoint(element.words)]


def _unsaid(phrases: Sequence[str], prose: str) -> list[str]:
    """Return the phrases with a word that is missing from the (canonical) prose."""
    return [
        phrase
        for phrase, canon in zip(phrases, canons(phrases), strict=True)
        if any(word not in prose for word in canon.split(" "))
    ]


def _without(steps: Sequence[DraftStep], dropped: Sequence[int]) -> list[DraftStep]:
    numbers = set(dropped)
    return [step for i, step in enumerate(steps, 1) if i not in numbers]


def _replaced(steps: Sequence[DraftStep], i: int, step: DraftStep) -> list[DraftStep]:
    return [*steps[: i - 1], step, *steps[i:]]


def _steps(numbers: Sequence[int]) -> str:
    listed = first_n([str(number) for number in numbers], 8)
    return f"step {listed}" if len(numbers) == 1 else f"steps {listed}"
