"""The streaming statistics of a report, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.files.rows.rows import Location, Rollout
from assay.service.report.counts import Distribution, Grid, Groups, log_edges, prompt_label
from assay.service.report.examples import EXAMPLES, MAX_LENGTH, Examples
from tests.strategies import examples

PIECES = st.lists(st.lists(st.floats(-0.5, 2.0), max_size=30), max_size=6)


@given(PIECES)
@examples(100)
def test_distribution(pieces):
    counted = Distribution(np.linspace(0.0, 1.0, 101))
    for piece in pieces:
        counted.add(np.array(piece))
    values = np.array([value for piece in pieces for value in piece])
    assert counted.number == len(values) == counted.counts.sum()
    if not len(values):
        return
    assert counted.mean == pytest.approx(values.mean(), abs=1e-12)
    assert counted.deviation == pytest.approx(values.std(ddof=1) if len(values) > 1 else 0.0, abs=1e-9)
    assert counted.quantile(0.0) == values.min()
    assert counted.quantile(1.0) == values.max()
    inside = np.clip(values, 0.0, 1.0)
    for share in (0.05, 0.5, 0.95):
        below, above = np.quantile(inside, share, method="lower"), np.quantile(inside, share, method="higher")
        assert below - 0.0101 <= min(max(counted.quantile(share), 0.0), 1.0) <= above + 0.0101


def test_quantiles_of_few_different_values_are_exact():
    counted = Distribution(np.linspace(0.0, 1.0, 11))
    values = np.array([0.0] * 60 + [0.25] * 30 + [1.0] * 10)
    counted.add(values)
    for share in (0.0, 0.05, 0.5, 0.599, 0.6, 0.75, 0.8985, 0.95, 1.0):
        assert counted.quantile(share) == pytest.approx(np.quantile(values, share), abs=1e-12)
    edges, counts = counted.coarse(5)
    assert counts.tolist() == [60, 30, 0, 0, 10]
    assert edges == pytest.approx(np.linspace(0.0, 1.0, 6))


@given(st.lists(st.tuples(st.floats(1, 1e5), st.floats(0, 1)), min_size=3, max_size=40))
@examples(100)
def test_grid(pairs):
    counted = Grid(log_edges(1e5), np.linspace(0.0, 1.0, 11))
    x, y = (np.array(column) for column in zip(*pairs, strict=True))
    for part in (slice(0, 2), slice(2, None)):
        counted.add(x[part], y[part])
    assert counted.counts.sum() == len(x)
    present = [mean for mean in counted.means if mean is not None]
    assert min(y) - 1e-9 <= min(present) <= max(present) <= max(y) + 1e-9
    if counted.correlation is not None and x.std() > 1 and y.std() > 0.01:
        assert counted.correlation == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-6)


def test_grid_without_variation():
    counted = Grid(np.arange(5.0), np.linspace(0.0, 1.0, 3))
    assert counted.correlation is None
    counted.add(np.array([2.0, 2.0]), np.array([0.0, 1.0]))
    assert counted.correlation is None


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.1, 0.30000000000000004, 1.0])), max_size=40))
@examples(100)
def test_groups(rows):
    groups = Groups()
    for k, (group, reward) in enumerate(rows):
        groups.add({"prompt": group, "x": 1}, Location("line", k + 1), reward)
    order = list(dict.fromkeys(group for group, _ in rows))
    assert len(groups) == len(order)
    for found, group in zip(groups, order, strict=True):
        rewards = np.array([reward for other, reward in rows if other == group])
        assert found.size == len(rewards)
        assert found.mean == pytest.approx(rewards.mean())
        assert found.deviation == pytest.approx(rewards.std(ddof=1) if len(rewards) > 1 else 0.0)
        assert found.flat == (len(rewards) > 1 and len(set(rewards.tolist())) == 1)
        assert found.first.number == 1 + [other for other, _ in rows].index(group)


def test_equal_prompts_are_one_group_however_they_are_written():
    groups = Groups()
    groups.add({"a": 1, "b": 2}, Location("line", 1), 0.5)
    groups.add({"b": 2, "a": 1}, Location("line", 2), 0.5)
    groups.add("\ud800", Location("line", 3), 0.5)
    assert [group.size for group in groups] == [2, 1]


def test_groups_are_bounded():
    groups = Groups(max_groups=3)
    for k in range(10):
        groups.add(f"prompt {k % 5}", Location("line", k), 0.5)
    assert (len(groups), groups.left_out) == (3, 4)
    assert [group.size for group in groups] == [2, 2, 2]


def test_labels_are_the_ends_of_prompts():
    assert prompt_label("short\n prompt") == "short prompt"
    label = prompt_label("system " * 1000 + "the question")
    assert label.startswith("…")
    assert label.endswith("the question")
    assert len(label) < 200


def rollout(k: int, response: str = "r") -> Rollout:
    return Rollout(Location("line", k), b"", response=response, reference="x")


def test_examples():
    kept = Examples()
    for k in range(1000):
        kept.add(rollout(k), (k * 7919 % 1000) / 1000, 0)
        kept.add(rollout(10_000 + k), 0.0, 3)
    assert [example.reward for example in kept.best()] == [0.999, 0.998, 0.997]
    assert [example.reward for example in kept.worst()] == [0.0, 0.001, 0.002]
    assert [example.reason for example in kept.by_reason()] == ["missing_sections"]


def test_of_equal_rewards_the_first_stay():
    kept = Examples()
    for k in range(10):
        kept.add(rollout(k), 0.5, 0)
    assert [example.location.number for example in kept.best()] == [0, 1, 2]
    assert kept.worst() == []
    assert EXAMPLES == 3


def test_long_examples_are_cut():
    kept = Examples()
    kept.add(rollout(1, "x" * (MAX_LENGTH + 1)), 0.0, 1)
    (example,) = kept.by_reason()
    assert not example.whole
    assert len(example.response) < 10_000
