"""Candidate edits for a response that passes the gates: the likeliest ones, then every edit of one step."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, zip_longest
from typing import NamedTuple

import orjson

from ..settings import ScoreSettings
from ..wording import first_n, format_number
from .alignment import Alignment
from .edits import Draft, DraftStep, StepPool, one_line
from .prose import Covering, added_by
from .quantities import advice_of, corrections_of
from .reading import KeyLine, Reading, spoken_of
from .schema import Kind, Order, Pair, Phrase, Scale

Numbers = tuple[int, ...]

MAX_WRITTEN = 64  # parameters that are replaced in the prose


class Candidate(NamedTuple):
    kind: Kind
    text: str
    numbers: Numbers
    steps: Sequence[int] = ()
    reference_steps: Sequence[int] = ()
    alternative: int = 0
    """The alternative that the steps of the reference are from."""


class Drafting:
    """The steps of a response that passes the gates, and of its edits."""

    def __init__(self, reading: Reading, settings: ScoreSettings) -> None:
        self.reading, self.settings = reading, settings
        self.pool, self.draft = StepPool(), draft_of(reading)
        self.own: Numbers = tuple(map(self.pool.number, self.draft.steps))
        self._said: dict[int, Covering] = {}

    def says(self, i: int, word: str) -> bool:
        """Return whether the prose of step i covers a word, which is searched for once for all alternatives."""
        if i not in self._said:
            self._said[i] = Covering(self.reading.prose[i - 1].spoken, self.settings)
        return self._said[i].covers(word)

    def adds_more(self, i: int, line: KeyLine, prose: bytes) -> bool:
        """Return whether this prose of step i would have more numbers or words of its own beside `line`."""
        if self.settings.max_added_numbers is None and self.settings.max_added_words is None:
            return False
        spoken, steps = self.reading.prose[i - 1].spoken, len(self.reading.lines)
        changed = spoken if prose == self.draft.steps[i - 1].prose else spoken_of([prose.decode()])[0]
        before, after = added_by([(self.reading.lines[i - 1], spoken), (line, changed)], steps, self.settings)
        return bool({*(after.numbers or ()), *(after.words or ())}.difference(before.numbers or (), before.words or ()))


def candidates_of(sources: Sequence[EditCandidates]) -> Iterator[Candidate]:
    """Yield the candidates of all alternatives, most promising first; the last ones are every edit of one step."""
    for source in sources:
        yield from source.of_many_steps()
    seen = {source.drafting.own for source in sources}
    likely = chain.from_iterable(source.likely() for source in sources)
    every = chain.from_iterable(zip_longest(*(source.of_one_step() for source in sources)))
    for candidate in chain(likely, every):
        if candidate is not None and candidate.numbers not in seen:
            seen.add(candidate.numbers)
            yield candidate


class EditCandidates:
    """Edits that take after one alternative of the reference."""

    def __init__(
        self, drafting: Drafting, alignment: Alignment, expected: Reading, alternative: int, whose: str
    ) -> None:
        assert alignment.scale is not None
        self._scale: Scale = alignment.scale
        self._order: Order = alignment.order
        self._pairs: Sequence[Pair] = alignment.pairs
        self.drafting, self._reading, self.pool = drafting, drafting.reading, drafting.pool
        self._lines, self._expected, self._own = drafting.reading.lines, expected.lines, drafting.own
        self._source, self._alternative, self._whose = expected.text.content, alternative, whose
        self._n, self._m = len(self._own), len(self._expected)
        self._numbers_taken: dict[int, int] = {}

    def of_many_steps(self) -> Iterator[Candidate]:
        return self._owned(chain(self._shortened(), self._sorted(), self._dropped_and_added()))

    def likely(self) -> Iterator[Candidate]:
        families = self._missing_and_extra, self._like_the_partner, self._renamed, self._moved, self._neighbours
        return self._owned(chain.from_iterable(family() for family in families))

    def of_one_step(self) -> Iterator[Candidate]:
        steps, reference_steps = range(1, self._n + 1), range(1, self._m + 1)
        every: tuple[Iterator[Candidate | None], ...] = (
            map(self._drop, steps if self._n > 1 else ()),
            (self._addition(place, j) for place in range(self._n + 1) for j in reference_steps),
            (self._move(i, k) for i in steps for k in steps),
            (self._replacement(i, j) for i in steps for j in reference_steps),  # other contents cannot gain more
            (self._swap(i, k) for i in steps for k in range(i + 2, self._n + 1)),
        )
        return self._owned(chain.from_iterable(zip_longest(*every)))

    def _owned(self, candidates: Iterator[Candidate | None]) -> Iterator[Candidate]:
        return (candidate._replace(alternative=self._alternative) for candidate in candidates if candidate is not None)

    def _taken(self, j: int) -> int:
        if j not in self._numbers_taken:
            self._numbers_taken[j] = self.pool.number(step_of(self._expected[j - 1], self._source))
        return self._numbers_taken[j]

    def _named(self, i: int) -> str:
        return f"step {i} ({self._lines[i - 1].action.canon})"

    def _named_reference(self, j: int) -> str:
        return f"{self._whose} step {j} ({self._expected[j - 1].action.canon})"

    def _with(self, i: int, number: int) -> Numbers:
        return (*self._own[: i - 1], number, *self._own[i:])

    # The likeliest edits, among them edits of many steps.

    def _shortened(self) -> Iterator[Candidate]:
        scale = self._scale
        if not scale.length_used or scale.length_penalty == 1.0:
            return
        brief = [step_of(line, self._reading.text.content) for line in self._lines]
        changed = [
            k
            for k, (step, prose) in enumerate(zip(brief, self._reading.prose, strict=True), 1)
            if len(step.prose.split()) < prose.pieces
        ]
        if changed:
            words, limit = format_number(scale.mean_words), format_number(scale.max_mean_words)
            text = f"Shorten the prose: {words} words per step, no penalty up to {limit}"
            steps = list(self._own)
            for k in changed:
                steps[k - 1] = self.pool.number(brief[k - 1])
            yield Candidate("shorten_prose", text, tuple(steps), changed)

    def _sorted(self) -> Iterator[Candidate]:
        """Sort the steps in the order of the reference; one with an unknown action stays after the step before it."""
        places: dict[str, deque[int]] = defaultdict(deque)
        for j, line in enumerate(self._expected):
            places[line.action.canon].append(j)
        keys: list[tuple[int, int]] = []
        last = -1
        for i, line in enumerate(self._lines, 1):
            free = places[line.action.canon]
            last = free.popleft() if free else last
            keys.append((last, i))
        order = [i for _, i in sorted(keys)]
        moved = [i for k, i in enumerate(order, 1) if i != k]
        if len(moved) > 2:  # two are a swap
            text = f"Put the steps in {self._whose} order: {first_n(order, 12)}"
            yield Candidate("sort_steps", text, tuple(self._own[i - 1] for i in order), sorted(moved))

    def _extra_and_missing(self) -> tuple[list[int], list[int]]:
        mine, theirs = {i for i, _ in self._order.path}, {j for _, j in self._order.path}
        extra = [i for i in range(1, self._n + 1) if i not in mine]
        return extra, [j for j in range(1, self._m + 1) if j not in theirs]

    def _dropped_and_added(self) -> Iterator[Candidate]:
        extra, missing = self._extra_and_missing()
        if 1 < len(extra) < self._n:
            yield Candidate("drop_steps", f"Delete {listed_steps(extra)}", self._edited(extra, []), extra)
        if len(missing) > 1:
            text = f"Add {self._whose} {listed_steps(missing)}"
            yield Candidate("add_steps", text, self._edited([], missing), (), missing)
        if extra and missing and len(extra) < self._n:
            text = f"Delete {listed_steps(extra)} and add {self._whose} {listed_steps(missing)}"
            yield Candidate("replace_steps", text, self._edited(extra, missing), extra, missing)

    def _missing_and_extra(self) -> Iterator[Candidate]:
        extra, missing = self._extra_and_missing()
        for j in missing:
            yield self._addition(_previous(self._order, j), j)
        for i in extra if self._n > 1 else []:
            yield self._drop(i)

    def _edited(self, dropped: Sequence[int], added: Sequence[int]) -> Numbers:
        """Drop steps, and insert steps of the reference after the partner of the nearest one before them."""
        inserted: dict[int, list[int]] = defaultdict(list)
        for j in added:
            inserted[_previous(self._order, j)].append(self._taken(j))
        left_out, steps = set(dropped), inserted[0]
        for i, number in enumerate(self._own, 1):
            steps += inserted[i] if i in left_out else [number, *inserted[i]]
        return tuple(steps)

    def _like_the_partner(self) -> Iterator[Candidate]:
        """Give a pair the objects, or the parameters, of the reference; the pairs that lose most come first."""
        for pair in sorted(self._pairs, key=lambda pair: pair.value):
            i, j = pair.predicted, pair.reference
            line, source = self._lines[i - 1], self._expected[j - 1]
            kinds: tuple[tuple[Kind, str, bool], ...] = (
                ("use_objects", "objects", pair.objects.value == 1.0),
                ("use_parameters", "parameters", _same_parameters(pair)),
            )
            if pair.quantities is not None and pair.quantities.errors:
                yield self._corrected(pair)
            for kind, name, equal in kinds:
                theirs = getattr(source, name)
                if equal or [phrase.words for phrase in theirs] == [phrase.words for phrase in getattr(line, name)]:
                    continue
                named = first_n([f"“{phrase.text}”" for phrase in theirs], 4) or "none"
                text = f"Give step {i} the {name} of {self._whose} step {j}: {named}"
                number = self._rewritten(i, replace(line, **{name: theirs}), theirs)
                yield Candidate(kind, text, self._with(i, number), [i], [j])

    def _corrected(self, pair: Pair) -> Candidate:
        """Give a pair the quantities of the reference, each with the parameter that it is in."""
        i, j = pair.predicted, pair.reference
        line, source = self._lines[i - 1], self._expected[j - 1]
        mine, theirs = (
            {term: phrase for phrase, terms in zip(side.parameters, side.terms or (), strict=True) for term in terms}
            for side in (line, source)
        )
        corrections = corrections_of(list(mine), list(theirs))
        replaced: dict[str, Phrase | None] = {}
        added: dict[str, Phrase] = {}
        for extra, missing in corrections:
            new = theirs[missing] if missing is not None else None
            if extra is not None and replaced.get(mine[extra].text) is None:
                replaced[mine[extra].text] = new
            elif new is not None:
                added[new.text] = new
        parameters = [replaced.get(phrase.text, phrase) for phrase in line.parameters]
        written = {phrase.text for phrase in parameters if phrase is not None}
        parameters += [phrase for text, phrase in added.items() if text not in written]
        prose = self.drafting.draft.steps[i - 1].prose
        for text, new in islice(replaced.items(), MAX_WRITTEN):
            if new is not None and prose.count(one_line(text)) == 1:
                prose = prose.replace(one_line(text), one_line(new.text))
        taken = [phrase for phrase in parameters if phrase is not None]
        number = self._rewritten(i, replace(line, parameters=taken), taken, prose)
        text = f"In step {i}, {first_n([advice_of(*correction) for correction in corrections], 4)}"
        return Candidate("use_quantities", text, self._with(i, number), [i], [j])

    def _rewritten(self, i: int, line: KeyLine, taken: Sequence[Phrase], prose: bytes | None = None) -> int:
        """Return step i with the contents of `line`; its prose says the phrases that were taken from the reference.

        Where numbers or words of the prose would no longer be in the step, new prose is written if they are limited.
        """
        drafting, body = self.drafting, _body_of(line)
        said = drafting.draft.steps[i - 1].prose
        covers: Callable[[str], bool] = partial(drafting.says, i)
        if prose is None:
            prose = said
        elif prose != said:
            covers = Covering(spoken_of([prose.decode()])[0], drafting.settings).covers
        if drafting.adds_more(i, line, prose):
            return self.pool.number(DraftStep(body, prose_of(line)))
        unsaid = [phrase.text for phrase in taken if not all(map(covers, phrase.words))]
        return self.pool.number(DraftStep(body, prose).with_phrases(unsaid))

    def _renamed(self) -> Iterator[Candidate]:
        """Give a step off the common path the action of a reference step in the same gap of the path."""
        last_i, last_j = 0, 0
        for next_i, next_j in [*self._order.path, (self._n + 1, self._m + 1)]:
            for i, j in zip(range(last_i + 1, next_i), range(last_j + 1, next_j), strict=False):
                yield self._action(i, j)
            last_i, last_j = next_i, next_j

    def _moved(self) -> Iterator[Candidate]:
        on_path = {j for _, j in self._order.path}
        for i in self._order.out_of_order:
            action = self._order.predicted[i - 1]
            j = next(j for j, other in enumerate(self._order.expected, 1) if other == action and j not in on_path)
            previous = _previous(self._order, j)
            moved = self._move(i, previous + 1 if previous < i else previous)
            if moved is not None:
                yield moved._replace(reference_steps=[j]) if moved.kind == "move_step" else moved

    def _neighbours(self) -> Iterator[Candidate]:
        misplaced = set(self._order.out_of_order)
        for i in sorted(range(1, self._n), key=lambda i: misplaced.isdisjoint((i, i + 1))):
            yield self._swap(i, i + 1)

    # Every edit of one step.

    def _drop(self, i: int) -> Candidate:
        return Candidate("drop_step", f"Delete {self._named(i)}", self._own[: i - 1] + self._own[i:], [i])

    def _addition(self, place: int, j: int) -> Candidate:
        text = f"Add {self._named_reference(j)} {_after(place)}"
        return Candidate("add_step", text, (*self._own[:place], self._taken(j), *self._own[place:]), (), [j])

    def _move(self, i: int, place: int) -> Candidate | None:
        """Make step i the step number `place`; None if it is. Two neighbours are swapped."""
        if i == place:
            return None
        if abs(i - place) == 1:
            return self._swap(min(i, place), max(i, place))
        remaining = self._own[: i - 1] + self._own[i:]
        text = f"Move {self._named(i)} {_after(place if place > i else place - 1)}"
        return Candidate("move_step", text, (*remaining[: place - 1], self._own[i - 1], *remaining[place - 1 :]), [i])

    def _swap(self, i: int, k: int) -> Candidate:
        numbers = self._own
        steps = (*numbers[: i - 1], numbers[k - 1], *numbers[i : k - 1], numbers[i - 1], *numbers[k:])
        return Candidate("swap_steps", f"Swap steps {i} and {k}", steps, [i, k])

    def _action(self, i: int, j: int) -> Candidate:
        action = self._expected[j - 1].action
        text = f"Change the action of step {i} to “{action.text}”, as in {self._whose} step {j}"
        number = self._rewritten(i, replace(self._lines[i - 1], action=action), [action])
        return Candidate("use_action", text, self._with(i, number), [i], [j])

    def _replacement(self, i: int, j: int) -> Candidate:
        text = f"Replace {self._named(i)} by {self._named_reference(j)}"
        return Candidate("replace_step", text, self._with(i, self._taken(j)), [i], [j])


def _same_parameters(pair: Pair) -> bool:
    if pair.quantities is not None and pair.quantities.errors:
        return False
    return not pair.parameters_counted or pair.parameters.value == 1.0


def _previous(order: Order, j: int) -> int:
    return max((i for i, partner in order.path if partner < j), default=0)


def _after(place: int) -> str:
    return f"after step {place}" if place else "at the beginning"


def listed_steps(numbers: Sequence[int]) -> str:
    return f"step{'s' if len(numbers) > 1 else ''} {first_n(numbers, 8)}"


def draft_of(reading: Reading) -> Draft:
    """Return the valid steps of a complete response, each with the prose of its position or of its own words."""
    content = reading.text.content
    _, (key_start, key_stop), (orc_start, orc_stop), _ = reading.sections
    steps = [step_of(line, content) for line in reading.lines if line.status == "ok"]
    for number, (position, step) in enumerate(zip(reading.positions, steps, strict=True)):
        if position <= len(reading.prose):
            prose = reading.prose[position - 1]
            steps[number] = step._replace(prose=content[prose.start : prose.stop])
    return Draft(content[:key_start], content[key_stop:orc_start], content[orc_stop:], steps)


def step_of(line: KeyLine, content: bytes) -> DraftStep:
    return DraftStep(content[line.body : line.stop].strip(), prose_of(line))


def prose_of(line: KeyLine) -> bytes:
    phrases = [phrase.text for phrase in line.phrases if phrase.words]
    return one_line(f"{phrases[0]}: {'; '.join(phrases[1:])}." if phrases[1:] else f"{phrases[0]}.")


def _body_of(line: KeyLine) -> bytes:
    objects, parameters = ([phrase.text for phrase in phrases] for phrases in (line.objects, line.parameters))
    return orjson.dumps({"action": line.action.text, "objects": objects, "parameters": parameters})
