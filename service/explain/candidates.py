"""Candidate edits for a response that passes the gates, and drafts: its steps, to be rearranged and rendered."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import orjson

from .numbers import first_n, format_number
from .reading import Line, Reading
from .schema import Explanation, Kind, Order, Pair, Phrase, Scale

__all__ = ["Edit", "draft_of", "edits_of"]


class Edit(NamedTuple):
    """One change: its kind, what it does, the changed response, and the steps concerned."""

    kind: Kind
    text: str
    response: bytes
    steps: Sequence[int] = ()
    reference_steps: Sequence[int] = ()


class DraftStep(NamedTuple):
    """A key step's object as JSON, and its prose."""

    body: bytes
    prose: bytes

    def with_phrases(self, phrases: Sequence[str]) -> DraftStep:
        """Return the step with these phrases added to its prose."""
        return self._replace(prose=b"%b (%b)" % (self.prose, _one_line("; ".join(phrases)))) if phrases else self


class Draft(NamedTuple):
    """A response: the text before its key steps, between key and orc, and after orc; and its steps, in order."""

    head: bytes
    middle: bytes
    tail: bytes
    steps: list[DraftStep]

    def render(self, steps: Sequence[DraftStep] | None = None) -> bytes:
        """Render the response with its steps, or with others, numbered from 1."""
        numbered = list(enumerate(self.steps if steps is None else steps, 1))
        key = b"\n".join(b"Step %d: %b" % (k, step.body) for k, step in numbered)
        orc = b"\n".join(b"Step %d: %b" % (k, step.prose) for k, step in numbered)
        return b"%b\n%b\n%b\n%b\n%b" % (self.head, key, self.middle, orc, self.tail)


def edits_of(explanation: Explanation, reading: Reading, expected: Reading) -> Iterator[Edit]:
    """Yield candidates, most promising first."""
    scale, order, draft = explanation.scale, explanation.order, draft_of(reading)
    assert scale is not None
    assert order is not None
    yield from _shortened(scale, reading, draft)
    yield from _sorted(reading, expected, draft)
    yield from _dropped_and_added(order, reading, expected, draft)
    yield from _like_the_reference(explanation.pairs, reading, expected, draft)
    yield from _renamed(order, reading, expected, draft)
    yield from _moved(order, draft)
    yield from _swapped(order, draft)


def _shortened(scale: Scale, reading: Reading, draft: Draft) -> Iterator[Edit]:
    """Shorten every prose step that is longer than its own words."""
    if not scale.length_used or scale.length_penalty == 1.0:
        return
    brief = [_step_of(line, reading.text.content) for line in reading.lines]
    changed = [
        k
        for k, (step, prose) in enumerate(zip(brief, reading.prose, strict=True), 1)
        if len(step.prose.split()) < prose.pieces
    ]
    if changed:
        words, limit = format_number(scale.mean_words), format_number(scale.max_mean_words)
        text = f"Shorten the prose: {words} words a step, free up to {limit}"
        steps = list(draft.steps)
        for k in changed:
            steps[k - 1] = brief[k - 1]
        yield Edit("shorten_prose", text, draft.render(steps), changed)


def _sorted(reading: Reading, expected: Reading, draft: Draft) -> Iterator[Edit]:
    """Sort the steps in the order of the reference; one with an unknown action stays after the step before it."""
    places: dict[str, deque[int]] = defaultdict(deque)
    for j, line in enumerate(expected.lines):
        places[line.action.canon].append(j)
    keys: list[tuple[int, int]] = []
    last = -1
    for i, line in enumerate(reading.lines, 1):
        free = places[line.action.canon]
        last = free.popleft() if free else last
        keys.append((last, i))
    order = [i for _, i in sorted(keys)]
    moved = [i for k, i in enumerate(order, 1) if i != k]
    if len(moved) > 2:  # two are a swap
        text = f"Put the steps in the reference's order: {first_n(order, 12)}"
        yield Edit("sort_steps", text, draft.render([draft.steps[i - 1] for i in order]), sorted(moved))


def _dropped_and_added(order: Order, reading: Reading, expected: Reading, draft: Draft) -> Iterator[Edit]:
    """Drop steps that are not on the longest common path, add missing steps of the reference, or both."""
    mine, theirs = {i for i, _ in order.path}, {j for _, j in order.path}
    extra = [i for i in range(1, len(draft.steps) + 1) if i not in mine]
    missing = [j for j in range(1, len(expected.lines) + 1) if j not in theirs]

    def edit(kind: Kind, text: str, dropped: list[int], added: list[int]) -> Edit:
        """Drop steps, and insert steps of the reference after the partner of the nearest one before them."""
        inserted: dict[int, list[DraftStep]] = defaultdict(list)
        for j in added:
            inserted[_previous(order, j)].append(_step_of(expected.lines[j - 1], expected.text.content))
        left_out, steps = set(dropped), inserted[0]
        for i, step in enumerate(draft.steps, 1):
            steps += inserted[i] if i in left_out else [step, *inserted[i]]
        return Edit(kind, text, draft.render(steps), dropped, added)

    if 1 < len(extra) < len(draft.steps):
        yield edit("drop_steps", f"Drop {_steps(extra)}", extra, [])
    if len(missing) > 1:
        yield edit("add_steps", f"Add the reference's {_steps(missing)}", [], missing)
    if extra and missing and len(extra) < len(draft.steps):
        text = f"Drop {_steps(extra)} and add the reference's {_steps(missing)}"
        yield edit("replace_steps", text, extra, missing)
    for j in missing:
        yield edit("add_step", f"Add the reference's step {j} ({expected.lines[j - 1].action.canon})", [], [j])
    for i in extra if len(draft.steps) > 1 else []:
        yield edit("drop_step", f"Drop step {i} ({reading.lines[i - 1].action.canon})", [i], [])


def _previous(order: Order, j: int) -> int:
    """Return the predicted step of the last pair of the path before a reference step; 0 without any."""
    return max((i for i, partner in order.path if partner < j), default=0)


def _like_the_reference(pairs: Sequence[Pair], reading: Reading, expected: Reading, draft: Draft) -> Iterator[Edit]:
    """Give a pair the objects, or the parameters, of the reference; the pairs that lose most come first."""
    for pair in sorted(pairs, key=lambda pair: pair.value):
        i, j = pair.predicted, pair.reference
        line, source = reading.lines[i - 1], expected.lines[j - 1]
        kinds: tuple[tuple[Kind, str, bool], ...] = (
            ("use_objects", "objects", pair.objects.value == 1.0),
            ("use_parameters", "parameters", not pair.parameters_counted or pair.parameters.value == 1.0),
        )
        for kind, name, equal in kinds:
            mine, theirs = getattr(line, name), getattr(source, name)
            if equal or [phrase.words for phrase in theirs] == [phrase.words for phrase in mine]:
                continue
            named = first_n([f"“{phrase.text}”" for phrase in theirs], 4) or "none"
            text = f"Give step {i} the {name} of the reference's step {j}: {named}"
            yield Edit(kind, text, _rewritten(i, replace(line, **{name: theirs}), theirs, reading, draft), [i], [j])


def _rewritten(i: int, line: Line, taken: Sequence[Phrase], reading: Reading, draft: Draft) -> bytes:
    """Render the response with `line` as step i, whose prose says the phrases that were taken from the reference."""
    said = reading.prose[i - 1].canon
    unsaid = [phrase.text for phrase in taken if any(word not in said for word in phrase.words)]
    step = DraftStep(_body_of(line), draft.steps[i - 1].prose).with_phrases(unsaid)
    return draft.render([*draft.steps[: i - 1], step, *draft.steps[i:]])


def _renamed(order: Order, reading: Reading, expected: Reading, draft: Draft) -> Iterator[Edit]:
    """Rename the action of a step off the common path to that of a reference step in the same gap of it."""
    last_i, last_j = 0, 0
    for next_i, next_j in [*order.path, (len(draft.steps) + 1, len(expected.lines) + 1)]:
        for i, j in zip(range(last_i + 1, next_i), range(last_j + 1, next_j), strict=False):
            action = expected.lines[j - 1].action
            text = f"Call the action of step {i} “{action.text}”, as the reference's step {j} does"
            line = replace(reading.lines[i - 1], action=action)
            yield Edit("use_action", text, _rewritten(i, line, [action], reading, draft), [i], [j])
        last_i, last_j = next_i, next_j


def _moved(order: Order, draft: Draft) -> Iterator[Edit]:
    """Move a step that is out of order to its position in the reference."""
    on_path = {j for _, j in order.path}
    for i in order.out_of_order:
        action = order.predicted[i - 1]
        j = next(j for j, other in enumerate(order.expected, 1) if other == action and j not in on_path)
        previous = _previous(order, j)
        steps = [step for k, step in enumerate(draft.steps, 1) if k != i]
        index = previous - (previous > i)
        steps.insert(index, draft.steps[i - 1])
        if abs(index + 1 - i) > 1:  # else it is a swap
            where = f"behind step {previous}" if previous else "to the beginning"
            text = f"Move step {i} ({action}) {where}"
            yield Edit("move_step", text, draft.render(steps), [i], [j])


def _swapped(order: Order, draft: Draft) -> Iterator[Edit]:
    """Swap neighbours, those with a step out of order first."""
    misplaced = set(order.out_of_order)
    for i in sorted(range(1, len(draft.steps)), key=lambda i: misplaced.isdisjoint((i, i + 1))):
        steps = [*draft.steps[: i - 1], draft.steps[i], draft.steps[i - 1], *draft.steps[i + 1 :]]
        yield Edit("swap_steps", f"Swap steps {i} and {i + 1}", draft.render(steps), [i, i + 1])


def _steps(numbers: Sequence[int]) -> str:
    return f"step{'s' if len(numbers) > 1 else ''} {first_n(numbers, 8)}"


def draft_of(reading: Reading) -> Draft:
    """Return a response whose sections are complete as its valid steps, each with the prose of its position.

    A step without prose gets prose of its own words.
    """
    content = reading.text.content
    _, (key_start, key_stop), (orc_start, orc_stop), _ = reading.sections
    steps = [_step_of(line, content) for line in reading.lines if line.status == "ok"]
    for number, (position, step) in enumerate(zip(reading.positions, steps, strict=True)):
        if position <= len(reading.prose):
            prose = reading.prose[position - 1]
            steps[number] = step._replace(prose=content[prose.start : prose.stop])
    return Draft(content[:key_start], content[key_stop:orc_start], content[orc_stop:], steps)


def _step_of(line: Line, content: bytes) -> DraftStep:
    """Return a key line as a step whose prose has its own words."""
    phrases = [phrase.text for phrase in line.phrases if phrase.words]
    prose = _one_line(f"{phrases[0]}: {'; '.join(phrases[1:])}.")
    return DraftStep(content[line.body : line.stop].strip(), prose)


def _body_of(line: Line) -> bytes:
    """Return the phrases of a key line as JSON."""
    objects, parameters = ([phrase.text for phrase in phrases] for phrases in (line.objects, line.parameters))
    return orjson.dumps({"action": line.action.text, "objects": objects, "parameters": parameters})


def _one_line(text: str) -> bytes:
    """Join the words by single spaces: a line break could begin another step."""
    return " ".join(text.split()).encode()
