"""Libraries of actions: what they hold, and that they depend on nothing but seed, record and the set of all actions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.research.prepare.examples import Example
from assay.research.prepare.prompts import messages_of
from assay.research.prepare.split import TEST, TRAIN, Libraries
from assay.service.explain.reading import Step, canons
from assay.service.records.rows import Location, Place
from assay.service.tasks.scirecipe_records import library_of
from tests.prepare import by_hand
from tests.strategies import examples
from tests.strategies.texts import actions as any_actions

OTHERS = tuple(f"act{number:02}" for number in range(40))


def of(used: Sequence[str], library: Sequence[str] | None, **fields: object) -> Example:
    steps = [Step(action, ("tube",), ()) for action in used]
    return by_hand.protocol(steps, library=None if library is None else tuple(library), **fields)


def libraries(records: Sequence[Example], seed: int = 0, distractors: int | None = 4) -> Libraries:
    made = Libraries(seed, distractors)
    for record in records:
        made.add(record)
    return made


POOL = of(OTHERS[:20], OTHERS[20:])


def test_nothing_is_added() -> None:
    assert libraries([POOL]).actions_for(of(["add"], None), TRAIN) is None
    record = of(["add", "mix"], ["mix", "spin", "add"])
    published = record.replaced(has_distractors=True)
    for one, pool, distractors in ((published, POOL, 4), (record, POOL, 0), (record, record, 4)):
        actions = libraries([pool, one], distractors=distractors).actions_for(one, TRAIN)
        assert sorted(actions or ()) == ["add", "mix", "spin"]


def test_library_has_its_actions_and_1_to_4_others_in_a_seeded_order() -> None:
    record = of(["add", "mix"], ["Mix", "spin", "add"])
    numbers, orders = set(), set()
    for seed in range(50):
        found = libraries([POOL, record], seed).actions_for(record, TRAIN)
        assert found is not None
        assert {"add", "mix", "spin"} < set(found) <= {"add", "mix", "spin", *OTHERS}
        assert len(found) == len(set(found))
        numbers.add(len(found) - 3)
        orders.add(tuple(action for action in found if action in ("add", "mix", "spin")))
    assert numbers == {1, 2, 3, 4}
    assert len(orders) == 6


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


def test_actions_that_a_library_lacks_are_added_and_counted() -> None:
    record = of(["add", "Mix", "add", "pick-up"], ["mix"], has_distractors=True)
    made = libraries([record])
    assert sorted(made.actions_for(record, TRAIN) or ()) == ["add", "mix", "pick-up"]
    assert made.completed == 2


def test_equal_actions_are_one() -> None:
    """Equal as the reward compares them: whatever their case, white space and punctuation."""
    record = of(["spin down"], ["Spin  down", "spin, down", "spin down!", "…"], has_distractors=True)
    assert libraries([record]).actions_for(record, TRAIN) == ("spin down",)
    assert libraries([of(["spin: down"], None)]).actions_for(record.replaced(has_distractors=False), TRAIN) == (
        "spin down",
    )


def test_quotes_in_an_action_do_not_end_it() -> None:
    record = of(["add"], ['the "snap" freeze', "add"], has_distractors=True)
    actions = libraries([record]).actions_for(record, TRAIN)
    assert sorted(actions or ()) == ["add", "the 'snap' freeze"]
    assert library_of({"prompt": messages_of(record, actions)}) == actions


def test_libraries_do_not_depend_on_places_ids_and_order() -> None:
    records = [of([OTHERS[k], OTHERS[k + 1]], [OTHERS[k + 1]], question=f"Question {k}?") for k in range(20)]
    first = libraries(records)
    moved = [
        one.replaced(place=Place("b", Location("record", k)), id=str(k)) for k, one in enumerate(reversed(records))
    ]
    second = libraries([*moved, *moved])
    assert [first.actions_for(one, TRAIN) for one in records] == [second.actions_for(one, TRAIN) for one in moved][::-1]
    other = libraries(records, seed=1)
    assert [first.actions_for(one, TRAIN) for one in records] != [other.actions_for(one, TRAIN) for one in records]


def test_figures_of_one_seed() -> None:
    """The same on every machine and version: prepared files have digests."""
    assert libraries([POOL]).actions_for(of(["add"], ["mix"]), TRAIN) == (
        "act38",
        "act03",
        "mix",
        "act25",
        "act20",
        "add",
    )


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
    found = made.actions_for(record, TRAIN)
    assert found is not None
    own = {canon for canon in canons([*used, *library]) if canon}
    names = canons(list(found))
    assert all(names)
    assert len(set(names)) == len(names)
    assert own <= set(names) <= own | set(canons(others))
    pool = {canon for canon in canons(others) if canon} - own
    assert min(len(pool), 1 if distractors else 0) <= len(names) - len(own) <= min(len(pool), distractors)
    assert library_of({"prompt": messages_of(record, found)}) == found
    assert made.actions_for(record, TRAIN) == found
