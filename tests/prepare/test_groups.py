"""Groups of records, beside every pair of texts compared by brute force."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from assay.research.prepare.examples import Example, Options
from assay.research.prepare.split import groups_of
from assay.service.errors import NotInstalled
from assay.service.explain.reading import Step
from assay.service.records.fields import FieldError
from assay.service.records.rows import Location, Place
from tests.prepare.by_hand import choice, example, order, protocol
from tests.prepare.similar_texts import jaccard, texts

EXACT = Options(similarity=1.0)
LONG = Step("centrifuge", ("culture of yeast cells", "falcon tube"), ("300 xg", "5 min", "4 °c"))
OTHER = Step("dry", ("slides",), ())


def asked(question: str, record: Any = None, **fields: Any) -> Example:
    """A record whose reference is too short to connect it with another."""
    return protocol([OTHER], question, **fields).replaced(record=record or {})


def partition(examples: list[Example], options: Options = EXACT) -> set[frozenset[int]]:
    members = defaultdict(set)
    for row, name in enumerate(groups_of(examples, options).names):
        members[name].add(row)
    return set(map(frozenset, members.values()))


GLASS = ("dry the beaker for an hour", "rinse it with water", "store it")

CONNECTED = {
    "equal questions": (asked("How do I wash 5 ml?"), asked("how do I wash 5 mL")),
    "equal references": (protocol([LONG], "How are cells pelleted?"), protocol([LONG], "Which first step is right?")),
    "equal texts": (asked("", text="Wash the cells."), asked("", text="wash the cells")),
    "equal records": (choice(question=""), choice(question="")),
    "steps in another order": (order(GLASS, GLASS), order(GLASS[::-1], GLASS).replaced(question="Which order?")),
    "double quotes": (asked('In "Growth of Yeast in Medium," why?'), asked("“Growth of yeast in medium”?")),
    "single quotes": (asked("Sort 'Staining of 3' Ends of DNA' now."), asked('What is "Staining of 3\' ends of DNA"?')),
    "a title in a field": (asked("“The Title of a Protocol”?"), asked("How?", {"title": "the title of a protocol"})),
    "an id that is repeated in a file": (asked("Why?", {"id": "p7"}), asked("How?", {"id": "p7"})),
    "questions of two tasks": (
        asked("How is a beaker cleaned?"),
        example("bioprobench.gen", "lexical", "How is a beaker cleaned?", "1. Rinse."),
    ),
    "a number in a field": (asked("Why?", {"protocol_id": 7}), asked("How?", {"protocol_id": 7})),
}  # fmt: skip


def test_what_connects_records_and_what_does_not() -> None:
    unrelated = asked("Is this another record?")
    for name, (first, last) in CONNECTED.items():
        assert partition([first, unrelated, last]) == {frozenset({0, 2}), frozenset({1})}, name
    for name, pair in APART.items():
        assert len(partition(list(pair))) == 2, name


APART = {
    "short references": (choice(question="Add ____ of buffer."), choice(question="Wash it with ____.")),
    "short titles": (asked('What is "Growth of Yeast"?'), asked('Why does "Growth of Yeast" work?')),
    "apostrophes": (asked("Don't use the cells of it, it's late."), asked("Can't use the cells of it, it's late.")),
    "different fields": (asked("Why?", {"protocol_id": "7"}), asked("How?", {"title": "7"})),
    "no text": (asked("", text="Wash it."), asked("", text="Dry it.")),
    "no ids": (asked("Why?", {"id": ""}), asked("How?", {"id": ""})),
    "ids in different files": (
        asked("Why?", {"id": 7}),
        asked("How?", {"id": 7}).replaced(place=Place("other.jsonl", Location("line", 1))),
    ),
    "empty fields": (asked("Why?", {"title": ""}), asked("How?", {"title": ""})),
}


def test_the_field_of_the_group() -> None:
    rows = [
        asked("A?", {"run": {"of": 1}}),
        asked("B?"),
        asked("C?", {"run": {"of": 1}}),
        asked("D?", {"run": {"of": None}}),
    ]
    options = replace(EXACT, group_field="run.of")
    assert partition(rows, options) == {frozenset({0, 2}), frozenset({1}), frozenset({3})}
    with pytest.raises(FieldError, match=r"no field 'run\.to'.*--group-field"):
        groups_of(rows, replace(EXACT, group_field="run.to"))


def connected(count: int, pairs: Iterable[tuple[int, int]]) -> set[frozenset[int]]:
    """The connected components of a graph."""
    component = list(range(count))
    for a, b in pairs:
        component = [component[a] if one == component[b] else one for one in component]
    return {frozenset(k for k, one in enumerate(component) if one == name) for name in set(component)}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("similarity", [0.5, 0.8])
def test_near_duplicates_are_those_of_brute_force(seed: int, similarity: float) -> None:
    """And they are counted, which groups of equal titles are not."""
    pytest.importorskip("datasketch")
    prompts = texts(seed)
    rows = [asked(text) for text in prompts]
    found = partition(rows, Options(similarity=similarity))
    pairs = combinations(range(60), 2)
    assert found == connected(60, ((a, b) for a, b in pairs if jaccard(prompts[a], prompts[b]) >= similarity))
    assert 30 < len(found) < 58
    titled = [asked(f'In "One Protocol of Four Words", {question}?') for question in ("why", "how is it done")]
    groups = groups_of([*rows, *titled], Options(similarity=similarity))
    assert set(groups.near_duplicates) == {2}
    assert len(groups.sizes()) == 62 - len(groups.near_duplicates) - 1
    assert groups.sizes()[:2] == [2, 2]


def test_without_datasketch_only_equal_texts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketch", None)
    rows = [asked("How?"), asked("how")]
    assert len(partition(rows)) == 1
    with pytest.raises(NotInstalled) as raised:
        groups_of(rows, Options())
    assert "datasketch" in raised.value.advice[0].detail
    assert "--similarity 1" in raised.value.advice[0].detail
