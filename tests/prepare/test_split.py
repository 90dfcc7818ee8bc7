"""Splits by group: no group on both sides, seeded, and as independent of other records as they can be."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from assay.research.prepare.split import TEST, TRAIN, held_out_splits, seeded_splits, split_digest

NAMES = st.lists(st.integers(0, 30).map(lambda n: f"{n:016x}"), min_size=1, max_size=80)
SHARES = st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.5, 0.9])
SEEDS = st.integers(0, 5)


def side(groups: list[str], share: float, seed: int) -> dict[str, str]:
    """The split of each group, which has one."""
    splits = seeded_splits(groups, share, seed)
    assert len(splits) == len(groups)
    found = set(zip(groups, splits, strict=True))
    assert len(found) == len(set(groups))
    return dict(found)


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
    one, other = ({name for name in fitting if splits[name] == TEST} for splits in (before, after))
    assert one <= other or other <= one


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


def test_records_that_share_a_group_with_one_that_is_held_out_have_no_split() -> None:
    splits = held_out_splits(["a", "b", "a", "c", "b"], [False, False, True, True, False])
    assert splits == [None, TRAIN, TEST, TEST, TRAIN]


def test_the_digest_is_that_of_sorted_lines_of_json() -> None:
    rows = [("b", "1", "test"), ("a", 'ü"2', "train")]
    text = '["a","ü\\"2","train"]\n["b","1","test"]\n'
    assert split_digest(rows) == split_digest(rows[::-1]) == sha256(text.encode()).hexdigest()
    for changed in [("b", "1", "test"), ("a", "2", "test"), ("a", "1", "train")]:
        assert split_digest([changed]) != split_digest([("a", "1", "test")])
