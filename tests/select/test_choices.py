"""The choice of responses, pairs and prompts, compared with sorting everything."""

from __future__ import annotations

import io
from array import array
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from assay.research.select.scored_rows import ALL, RowChoice, ScoredRows, SelectOptions, choose, figures_of
from tests.strategies.effort import examples

TIE = 1e-9
REWARDS = (0.0, 0.25, 0.25 + 2e-10, 0.5, 0.75, 1.0)


class Row(NamedTuple):
    group: int
    reward: float
    text: int
    eligibility: int
    passed: bool


ROW = st.builds(
    Row,
    st.integers(0, 3),
    st.sampled_from(REWARDS),
    st.integers(0, 5),
    st.sampled_from([0, 0, 0, 1, 2, 3]),
    st.booleans(),
)


def numbered(rows: list[Row]) -> list[Row]:
    """Number groups in the order of their first rows, as the reader does."""
    order = list(dict.fromkeys(row.group for row in rows))
    return [row._replace(group=order.index(row.group)) for row in rows]


def columns(rows: list[Row]) -> ScoredRows:
    return ScoredRows(
        io.BytesIO(),
        rewards=array("d", [row.reward for row in rows]),
        groups=array("i", [row.group for row in rows]),
        digests=array("Q", [row.text for row in rows]),
        eligibility=array("B", [row.eligibility for row in rows]),
        passed=array("B", [row.passed for row in rows]),
    )


def chosen(rows: list[Row], options: SelectOptions) -> RowChoice:
    made = columns(rows)
    return choose(made, made.members(), options)


def groups_of(rows: list[Row]) -> list[list[int]]:
    count = max((row.group for row in rows), default=-1) + 1
    return [[k for k, row in enumerate(rows) if row.group == number] for number in range(count)]


def first_of_each_text(rows: list[Row], group: list[int]) -> list[int]:
    """Return the best row of each text."""
    ranked = sorted(group, key=lambda k: (-rows[k].reward, k))
    return [k for n, k in enumerate(ranked) if rows[k].text not in {rows[j].text for j in ranked[:n]}]


COUNTS = st.sampled_from([1, 2, 3, ALL])


@examples(60)
@given(st.lists(ROW, max_size=14), COUNTS)
def test_best(drawn: list[Row], count: int) -> None:
    rows = numbered(drawn)
    expected = []
    for group in groups_of(rows):
        expected += first_of_each_text(rows, [k for k in group if rows[k].eligibility == 0])[:count]
    choice = chosen(rows, SelectOptions("best", count))
    assert list(choice.picked) == expected
    assert choice.dropped_rows.total() + len(expected) == len(rows)
    assert choice.kept_groups + len(choice.dropped_groups) == len(groups_of(rows))
    for number, reason in choice.dropped_groups.items():
        worst = max(rows[k].eligibility for k in groups_of(rows)[number])
        assert reason == [None, "all_failed_gate", "all_below_min_reward", "none_passed"][worst]


@examples(60)
@given(st.lists(ROW, max_size=14), COUNTS, st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_pairs(drawn: list[Row], count: int, margin: float) -> None:
    rows = numbered(drawn)
    expected: list[tuple[int, int]] = []
    for group in groups_of(rows):
        texts = first_of_each_text(rows, group)
        pairs = [
            (better, worse)
            for better, worse in product(texts, texts)
            if rows[better].eligibility == 0
            and rows[better].reward - rows[worse].reward > TIE
            and rows[better].reward - rows[worse].reward >= margin - TIE
        ]
        pairs.sort(key=lambda pair: (rows[pair[1]].reward - rows[pair[0]].reward, *pair))
        expected += pairs[:count]
    choice = chosen(rows, SelectOptions("pairs", count, margin=margin))
    assert list(zip(choice.picked, choice.rejected, strict=True)) == expected
    for number, group in enumerate(groups_of(rows)):
        rewards = [rows[k].reward for k in group]
        reason = choice.dropped_groups.get(number)
        assert (reason == "single") == (len(group) == 1)
        assert (reason == "no_spread") == (len(group) > 1 and max(rewards) - min(rewards) <= TIE)


@examples(60)
@given(st.lists(ROW, max_size=20), st.sampled_from([(0.0, 1.0), (0.0, 0.5), (0.25, 0.75)]))
def test_curriculum(drawn: list[Row], limits: tuple[float, float]) -> None:
    rows = numbered(drawn)
    expected = []
    for group in groups_of(rows):
        rewards = [rows[k].reward for k in group]
        rate = Fraction(sum(rows[k].passed for k in group), len(group))
        if len(group) > 1 and max(rewards) - min(rewards) > TIE and limits[0] <= rate <= limits[1]:
            expected.append((-rate, -sum(map(Fraction, rewards)) / len(group), group[0]))
    choice = chosen(rows, SelectOptions("curriculum", min_pass_rate=limits[0], max_pass_rate=limits[1]))
    assert list(choice.picked) == [first for *_, first in sorted(expected)]
    assert choice.kept_groups == len(expected)


def test_a_tie_is_one_up_to_rounding() -> None:
    """DAPO's rule: sums that differ only in their last bits are equal, and are no pair."""
    nearly = [Row(0, 0.1 + 0.2, 0, 0, True), Row(0, 0.3, 1, 0, True)]
    assert nearly[0].reward != nearly[1].reward
    for mode in ("pairs", "curriculum"):
        assert chosen(nearly, SelectOptions(mode)).dropped_groups == {0: "no_spread"}
    apart = [Row(0, 0.3 + 2e-9, 0, 0, True), Row(0, 0.3, 1, 0, True)]
    assert len(chosen(apart, SelectOptions("pairs")).picked) == 1
    rows = [Row(0, 0.3, 0, 0, True), Row(0, 0.1, 1, 0, True)]
    assert 0.3 - 0.1 < 0.2
    assert chosen(rows, SelectOptions("pairs", margin=0.2)).kept_groups == 1
    assert chosen(rows, SelectOptions("pairs", margin=0.21)).dropped_groups == {0: "below_margin"}
    made = columns([Row(0, reward, k, 0, k == 0) for k, reward in enumerate((0.1,) * 10)])
    assert figures_of(made, range(10)) == (10, 0.1, 0.1, 0.0)  # summed one by one, the mean is 0.09999999999999999


def test_the_most_pairs_of_a_large_group_need_no_list_of_all() -> None:
    rows = [Row(0, k / 30_000, k, 0, True) for k in range(30_000)]
    choice = chosen(rows, SelectOptions("pairs", 3))
    assert list(zip(choice.picked, choice.rejected, strict=True)) == [(29_999, 0), (29_998, 0), (29_999, 1)]
