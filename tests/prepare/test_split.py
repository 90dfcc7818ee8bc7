"""Groups of records beside a comparison of every pair, splits by group, and the libraries of their prompts."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.research.prepare.examples import Example, PrepareOptions, read_example
from assay.research.prepare.prompts import messages_of
from assay.research.prepare.split import (
    TEST,
    TRAIN,
    Libraries,
    groups_of,
    held_out_splits,
    seeded_splits,
    split_digest,
    with_ids,
)
from assay.service.errors import NotInstalled
from assay.service.explain.reading import ReadStep, canons
from assay.service.records.rows.fields import FieldError
from assay.service.records.rows.rows import Location, RowPlace
from assay.service.tasks.scirecipe_records import library_of
from tests.prepare import by_hand
from tests.prepare.by_hand import DRY, choice, example, order, protocol
from tests.prepare.similar_texts import jaccard, texts
from tests.strategies import examples
from tests.strategies.texts import actions as any_actions

NAMES = st.lists(st.integers(0, 30).map(lambda n: f"{n:016x}"), min_size=1, max_size=80)
SHARES = st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.5, 0.9])
SEEDS = st.integers(0, 5)


def side(groups: list[str], share: float, seed: int) -> dict[str, str]:
    """The split of each group, which has one."""
    splits = seeded_splits(groups, share, seed)
    assert len(splits) == len(groups)
    pairs = set(zip(groups, splits, strict=True))
    assert len(pairs) == len(set(groups))
    return dict(pairs)


@given(NAMES, SHARES, SEEDS)
def test_a_group_is_in_one_split_and_train_has_one(groups: list[str], share: float, seed: int) -> None:
    assert TRAIN in side(groups, share, seed).values()
    assert (share > 0) or TEST not in side(groups, share, seed).values()


@given(NAMES, SHARES, SEEDS)
def test_the_share_is_met_within_the_largest_group(groups: list[str], share: float, seed: int) -> None:
    sizes = Counter(groups)
    wanted = max(1.0, share * len(groups)) if share else 0.0
    rows = seeded_splits(groups, share, seed).count(TEST)
    assert abs(rows - wanted) <= max(sizes.values())
    if set(sizes.values()) == {1} and wanted <= len(groups) - 1:
        assert abs(rows - wanted) <= 0.5


@given(NAMES, SHARES, SEEDS, st.randoms())
def test_the_order_of_records_does_not_matter(groups: list[str], share: float, seed: int, random: object) -> None:
    before = side(groups, share, seed)
    random.shuffle(groups)  # type: ignore[attr-defined]
    assert side(groups, share, seed) == before


@given(NAMES, SHARES, SEEDS, st.integers(1, 5))
def test_a_new_group_moves_only_groups_at_the_end_of_test(groups: list[str], share: float, seed: int, n: int) -> None:
    """One of the test splits has all known groups of the other, but for groups that are too large for one of them."""
    grown = [*groups, *["ffff000000000000"] * n]
    before, after = side(groups, share, seed), side(grown, share, seed)
    sizes, wanted = Counter(groups), [max(1.0, share * len(rows)) for rows in (groups, grown)]
    fitting = {name for name in before if all(sizes[name] <= rows for rows in wanted)}
    earlier, other = ({name for name in fitting if splits[name] == TEST} for splits in (before, after))
    assert earlier <= other or other <= earlier


def test_seeds_give_different_splits_that_stay_the_same_in_later_versions() -> None:
    groups = [f"{n:016x}" for n in range(20)]
    tests = {frozenset(name for name, split in side(groups, 0.25, seed).items() if split == TEST) for seed in range(10)}
    assert len(tests) == 10
    assert {len(test) for test in tests} == {5}
    assert [n for n, split in enumerate(seeded_splits(groups[:10], 0.3, 7)) if split == TEST] == [1, 4, 8]


def test_large_groups_are_in_train() -> None:
    assert set(side(["a"] * 50 + ["b", "c", "d", "e", "f"], 0.05, 0).items()) >= {("a", TRAIN)}
    assert side(["a"], 0.5, 0) == {"a": TRAIN}
    assert sorted(side(["a", "b"], 0.01, 0).values()) == [TEST, TRAIN]  # at least one record
    assert seeded_splits([], 0.5, 0) == []
    splits = held_out_splits(["a", "b", "a", "c", "b"], [False, False, True, True, False])
    assert splits == [None, TRAIN, TEST, TEST, TRAIN]


def test_the_digest_is_that_of_sorted_lines_of_json() -> None:
    rows = [("b", "1", "test"), ("a", 'ü"2', "train")]
    text = '["a","ü\\"2","train"]\n["b","1","test"]\n'
    assert split_digest(rows) == split_digest(rows[::-1]) == sha256(text.encode()).hexdigest()
    for changed in [("b", "1", "test"), ("a", "2", "test"), ("a", "1", "train")]:
        assert split_digest([changed]) != split_digest([("a", "1", "test")])


OTHERS = tuple(f"act{number:02}" for number in range(40))


def of(used: Sequence[str], library: Sequence[str] | None, **fields: object) -> Example:
    steps = [ReadStep(action, ("tube",), ()) for action in used]
    return by_hand.protocol(steps, library=None if library is None else tuple(library), **fields)


def libraries(records: Sequence[Example], seed: int = 0, distractors: int | None = 4) -> Libraries:
    made = Libraries(seed, distractors)
    for record in records:
        made.add(record)
    return made


POOL = of(OTHERS[:20], OTHERS[20:])


@pytest.mark.parametrize(
    ("split", "level", "numbers"),
    [(TRAIN, "1", {0}), (TRAIN, "2", {0}), (TEST, "1", {0}), (TEST, "2", {1, 2, 3, 4}), (TEST, None, {0})],
)
def test_by_default_only_records_of_level_2_in_test_get_some(split: str, level: str | None, numbers: set[int]) -> None:
    """Appendix B: SciRecipe-Eval has 1 to 4 in its level 2, and the prompts that the authors train with have none."""
    record = of(["add", "mix"], ["mix", "add"], level=level)
    made = [libraries([POOL, record], seed, distractors=None).actions_for(record, split) for seed in range(50)]
    assert {len(actions or ()) - 2 for actions in made} == numbers
    published = record.replaced(has_distractors=True)
    assert sorted(libraries([POOL], distractors=None).actions_for(published, split) or ()) == ["add", "mix"]
    asked = libraries([POOL, record], distractors=1).actions_for(record, split)
    assert len(asked or ()) == 3


def test_equal_actions_are_one_and_those_that_a_library_lacks_are_added() -> None:
    """Equal as the reward compares them: whatever their case, white space and punctuation."""
    record = of(["spin down"], ["Spin  down", "spin, down", "spin down!", "…"], has_distractors=True)
    assert libraries([record]).actions_for(record, TRAIN) == ("spin down",)
    others = libraries([of(["spin: down"], None)])
    assert others.actions_for(record.replaced(has_distractors=False), TRAIN) == ("spin down",)
    record = of(["add", "Mix", "add", "pick-up"], ["mix"], has_distractors=True)
    made = libraries([record])
    assert sorted(made.actions_for(record, TRAIN) or ()) == ["add", "mix", "pick-up"]
    assert made.completed == 2


def test_figures_of_one_seed() -> None:
    """The same on every machine and version: prepared files have digests."""
    made = libraries([POOL]).actions_for(of(["add"], ["mix"]), TRAIN)
    assert made == ("act38", "act03", "mix", "act25", "act20", "add")


@examples(60)
@given(
    used=st.lists(any_actions, min_size=1, max_size=4),
    library=st.lists(any_actions, max_size=4),
    others=st.lists(any_actions, max_size=6),
    seed=st.integers(0, 3),
    distractors=st.integers(0, 4),
)
def test_any_actions(used: list[str], library: list[str], others: list[str], seed: int, distractors: int) -> None:
    record = of(used, library)
    made = libraries([of(others, None), record], seed, distractors)
    actions = made.actions_for(record, TRAIN)
    assert actions is not None
    own = {canon for canon in canons([*used, *library]) if canon}
    names = canons(list(actions))
    assert all(names)
    assert len(set(names)) == len(names)
    assert own <= set(names) <= own | set(canons(others))
    pool = {canon for canon in canons(others) if canon} - own
    assert min(len(pool), 1 if distractors else 0) <= len(names) - len(own) <= min(len(pool), distractors)
    assert library_of({"prompt": messages_of(record, actions)}) == actions
    assert made.actions_for(record, TRAIN) == actions


EXACT = PrepareOptions(similarity=1.0)
LONG = ReadStep("centrifuge", ("culture of yeast cells", "falcon tube"), ("300 xg", "5 min", "4 °c"))
OTHER = ReadStep("dry", ("slides",), ())


def asked(question: str, record: Any = None, **fields: Any) -> Example:
    """A record whose reference is too short to connect it with another."""
    return protocol([OTHER], question, **fields).replaced(record=record or {})


def partition(examples: list[Example], options: PrepareOptions = EXACT) -> set[frozenset[int]]:
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
    "an id that is repeated": (asked("Why?", {"id": "p7"}), asked("How?", {"id": "p7"})),
    "an id in two files": (
        asked("Why?", {"id": 7}),
        asked("How?", {"id": 7}).replaced(place=RowPlace("other.jsonl", Location("line", 1))),
    ),
    "questions of two tasks": (
        asked("How is a beaker cleaned?"),
        example("bioprobench.gen", "lexical", "How is a beaker cleaned?", "1. Rinse."),
    ),
    "a number in a field": (asked("Why?", {"protocol_id": 7}), asked("How?", {"protocol_id": 7})),
}  # fmt: skip


APART = {
    "short references": (choice(question="Add ____ of buffer."), choice(question="Wash it with ____.")),
    "short titles": (asked('What is "Growth of Yeast"?'), asked('Why does "Growth of Yeast" work?')),
    "apostrophes": (asked("Don't use the cells of it, it's late."), asked("Can't use the cells of it, it's late.")),
    "different fields": (asked("Why?", {"protocol_id": "7"}), asked("How?", {"title": "7"})),
    "no text": (asked("", text="Wash it."), asked("", text="Dry it.")),
    "no ids": (asked("Why?", {"id": ""}), asked("How?", {"id": ""})),
    "ids of two forms": (asked("Why?", {"id": 7}), choice().replaced(record={"id": 7})),
    "ids of two splits": (asked("Why?", {"id": 7}), asked("How?", {"id": 7}, held_out=True)),
    "empty fields": (asked("Why?", {"title": ""}), asked("How?", {"title": ""})),
}


def test_what_connects_records_and_what_does_not() -> None:
    unrelated = asked("Is this another record?")
    for name, (first, last) in CONNECTED.items():
        assert partition([first, unrelated, last]) == {frozenset({0, 2}), frozenset({1})}, name
    for name, pair in APART.items():
        assert len(partition(list(pair))) == 2, name


def test_the_field_of_the_group() -> None:
    records = [{"run": {"of": 1}}, {}, {"run": {"of": 1}}, {"run": {"of": None}}]
    rows = [asked(f"Question {number}?", record) for number, record in enumerate(records)]
    options = replace(EXACT, group_field="run.of")
    assert partition(rows, options) == {frozenset({0, 2}), frozenset({1}), frozenset({3})}
    with pytest.raises(FieldError, match=r"no field 'run\.to'.*--group-field"):
        groups_of(rows, replace(EXACT, group_field="run.to"))


EQUAL = {"question": "How is it dried?", "steps": [DRY._asdict()]}
POOLED: list[dict[str, Any]] = [
    EQUAL,
    {**EQUAL, "action": ["dry"]},
    {**EQUAL, "id": "p1"},
    {**EQUAL, "question": "Why?", "id": "p1"},
    {**EQUAL, "question": "What next?", "id": "p2"},
    *({"question": f"Is it {word}?", "choices": ["a", "b"], "answer": "a"} for word in ("dry", "wet", "cold", "hot")),
]


@examples(60)
@given(
    records=st.lists(st.sampled_from(POOLED), min_size=1, max_size=12),
    held_out=st.sets(st.sampled_from(range(12))),
    share=SHARES,
    data=st.data(),
)
def test_ids_groups_and_splits_do_not_depend_on_files_or_order(
    records: list[dict[str, Any]], held_out: set[int], share: float, data: st.DataObject
) -> None:
    """The same records in files of other names, in any order: each has the same id, group and split."""

    def prepared(order: Sequence[int], files: Sequence[str]) -> tuple[Counter[tuple[Any, ...]], str]:
        members = []
        for number, (k, name) in enumerate(zip(order, files, strict=True)):
            member = read_example(records[k], RowPlace(name, Location("line", number)), EXACT)
            assert isinstance(member, Example)
            members.append(member.replaced(held_out=k in held_out))
        members = with_ids(members)
        groups = groups_of(members, EXACT).names
        splits: Sequence[str | None] = seeded_splits(groups, share, 0)
        if held_out:
            splits = held_out_splits(groups, [member.held_out for member in members])
        rows = list(zip(groups, [member.id for member in members], [split or "" for split in splits], strict=True))
        keys = [(json.dumps(member.record), member.held_out) for member in members]
        return Counter(zip(keys, rows, strict=True)), split_digest(rows)

    order = data.draw(st.permutations(range(len(records))))
    files = [data.draw(st.sampled_from(["a.json", "b.json", "c.json"])) for _ in order]
    expected = prepared(range(len(records)), ["records.json"] * len(records))
    assert len({identity for _, (_, identity, _) in expected[0]}) == len(records)
    assert prepared(order, files) == expected


def connected(count: int, pairs: Iterable[tuple[int, int]]) -> set[frozenset[int]]:
    """The connected components of a graph."""
    component = list(range(count))
    for a, b in pairs:
        component = [component[a] if other == component[b] else other for other in component]
    return {frozenset(k for k, other in enumerate(component) if other == name) for name in set(component)}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("similarity", [0.5, 0.8])
def test_near_duplicates_are_those_of_brute_force(seed: int, similarity: float) -> None:
    """And they are counted, which groups of equal titles are not."""
    pytest.importorskip("datasketch")
    prompts = texts(seed)
    rows = [asked(text) for text in prompts]
    components = partition(rows, PrepareOptions(similarity=similarity))
    pairs = combinations(range(60), 2)
    assert components == connected(60, ((a, b) for a, b in pairs if jaccard(prompts[a], prompts[b]) >= similarity))
    assert 30 < len(components) < 58
    titled = [asked(f'In "One Protocol of Four Words", {question}?') for question in ("why", "how is it done")]
    groups = groups_of([*rows, *titled], PrepareOptions(similarity=similarity))
    assert set(groups.near_duplicates) == {2}
    assert len(groups.sizes()) == 62 - len(groups.near_duplicates) - 1
    assert groups.sizes()[:2] == [2, 2]


def test_without_datasketch_only_equal_texts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketch", None)
    rows = [asked("How?"), asked("how")]
    assert len(partition(rows)) == 1
    with pytest.raises(NotInstalled) as raised:
        groups_of(rows, PrepareOptions())
    assert "datasketch" in raised.value.advice[0].detail
    assert "--similarity 1" in raised.value.advice[0].detail
