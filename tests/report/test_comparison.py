"""Paired bootstrap and correlations against SciPy's, and which records are paired."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.research.reports.coefficients import average_ranks, pearson, spearman
from assay.research.reports.differences import (
    Draws,
    PairedSide,
    differences,
    means_of_differences,
    pair_records,
    statistics,
)
from assay.research.reports.inference import bootstrap_p, interval_of
from assay.service.tasks.evaluation import task_named
from assay.service.tasks.task import Evaluation, mean_of

RESAMPLES, SEED = 499, 7


def samples(columns, baseline, corpus=None, over=()) -> tuple[PairedSide, PairedSide]:
    """Return two samples with pairs of equal rows; `over` has names of columns by value of `corpus`."""
    rows = np.arange(len(next(iter(columns.values()))))

    def sample(side):
        named = {name: [side[key] for key in keys] for name, keys in dict(over).items()}
        return PairedSide(Evaluation(side, corpus=corpus and partial(corpus, side), over=named), rows)

    return sample(columns), sample(baseline)


def draws(n: int) -> Draws:
    return Draws(np.arange(n), RESAMPLES, SEED)


def scipys(statistic, *columns):
    """Return SciPy's percentile interval of a statistic of paired columns, from the same seed."""
    stats = pytest.importorskip("scipy.stats")
    options = {"paired": True, "vectorized": False, "method": "percentile"}
    return list(stats.bootstrap(columns, statistic, n_resamples=RESAMPLES, rng=SEED, **options).confidence_interval)


@pytest.mark.parametrize("n", [2, 3, 64, 700])  # the last one is drawn in several pieces
def test_intervals_of_mean_differences_are_scipys(n):
    generator = np.random.default_rng(n)
    a, b = generator.normal(size=n), generator.normal(size=n)
    ties = generator.integers(0, 2, n).astype(float)
    model, baseline = samples({"x": a, "ties": ties}, {"x": b, "ties": ties[::-1].copy()})
    by_metric = {interval.metric: interval for interval in differences(["x", "ties"], model, baseline, draws(n))}
    for name, interval in by_metric.items():
        x, y = model.evaluation.columns[name], baseline.evaluation.columns[name]
        assert interval.n == n
        assert interval.difference == pytest.approx(x.mean() - y.mean(), abs=1e-12)
        expected = scipys(lambda x, y: np.mean(x - y), x, y)
        assert interval.interval == pytest.approx(expected, abs=1e-12)


def test_questions_are_drawn_with_all_their_rows(monkeypatch):
    """As SciPy draws the questions, whose sums and sizes give the mean of the rows."""
    differences, questions = np.array([1.0, -2.0, 4.0, 0.5, 8.0, 3.0]), np.array([0, 3, 0, 5, 3, 0])
    sums, sizes = np.array([8.0, 6.0, 0.5]), np.array([3.0, 2.0, 1.0])
    drawn = means_of_differences(differences[:, None], questions, RESAMPLES, SEED)
    expected = scipys(lambda x, n: x.sum() / n.sum(), sums, sizes)
    assert interval_of(drawn[:, 0], 3) == pytest.approx(expected, abs=1e-12)
    monkeypatch.setattr("assay.research.reports.differences.MAX_CELLS", 7)  # pieces continue the same draws
    assert (means_of_differences(differences[:, None], questions, RESAMPLES, SEED) == drawn).all()
    again = statistics(lambda rows: [differences[rows].mean()], questions, RESAMPLES, SEED)
    assert again == pytest.approx(drawn)


def test_pairs_without_a_difference_or_an_interval():
    nan = np.nan
    model, baseline = samples({"x": np.array([1.0, nan, 0.5, 2.0])}, {"x": np.array([0.0, 5.0, nan, 1.5])})
    (interval,) = differences(["x"], model, baseline, draws(4))
    assert (interval.n, interval.difference) == (2, 0.75)
    assert interval.interval == pytest.approx(scipys(np.mean, np.array([1.0, 0.5])))
    columns = {"x": np.array([1.0, 0.0, 0.0])}

    def corpus(side, rows):
        return {"recall": mean_of(np.where(side["x"][rows] > 0, 1.0, np.nan))}

    (interval,) = differences(["recall"], *samples(columns, columns, corpus=corpus, over={"recall": ["x"]}), draws(3))
    assert (interval.difference, interval.interval) == (0.0, None)
    assert interval_of(np.zeros(99), 10) == (0.0, 0.0)
    assert bootstrap_p(np.zeros(99), 10) == 1.0
    assert bootstrap_p(np.arange(1.0, 100.0), 10) == 2 / 100  # the share of both sides
    assert bootstrap_p(np.array([-1.0] * 9 + [1.0] * 90), 10) == 20 / 100


def test_means_of_means_and_other_values_are_computed_for_each_resample():
    generator = np.random.default_rng(3)
    sides = [{"a": generator.normal(size=30), "b": generator.normal(size=30)} for _ in range(2)]
    for side in sides:
        side["a"][:3] = np.nan  # it has a mean of its other values

    def corpus(columns, rows):
        a, b = columns["a"][rows], columns["b"][rows]
        return {"avg": (np.nanmean(a) + b.mean()) / 2, "ratio": b.max() / (1 + abs(b.min()))}

    model, baseline = samples(*sides, corpus=corpus, over={"avg": ["a", "b"], "ratio": ["b"]})
    assert [model.is_mean_of_means(name) for name in ("avg", "ratio", "a")] == [True, False, False]
    by_metric = {interval.metric: interval for interval in differences(["avg", "ratio"], model, baseline, draws(30))}
    assert (by_metric["avg"].n, by_metric["ratio"].n) == (27, 30)
    rows = np.arange(30)
    for name, interval in by_metric.items():
        expected = scipys(lambda r, _, name=name: corpus(sides[0], r)[name] - corpus(sides[1], r)[name], rows, rows)
        assert interval.interval == pytest.approx(expected, abs=1e-12), name
        assert interval.difference == pytest.approx(corpus(sides[0], rows)[name] - corpus(sides[1], rows)[name])


@given(st.lists(st.tuples(st.integers(-3, 3), st.floats(-1e6, 1e6)), min_size=3, max_size=30))
def test_correlations_are_scipys(pairs):
    stats = pytest.importorskip("scipy.stats")
    x, y = np.array(pairs, float).T
    assert average_ranks(y).tolist() == stats.rankdata(y).tolist()
    constant = len(set(x)) == 1 or len(set(y)) == 1
    assert (pearson(x, y) is None) == (spearman(x, y) is None) == constant
    if not constant:
        assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
    if not constant and np.ptp(y) > 1e-6 * np.abs(y).max():
        assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-6)


def records(*questions, ids=None):
    plain = [{"response": f"r{k}", "reference": text} for k, text in enumerate(questions)]
    return [{**record, "id": identifier} for record, identifier in zip(plain, ids, strict=True)] if ids else plain


@pytest.mark.parametrize(
    ("left", "right", "by", "pairs"),
    [
        (records("x", "y", ids=[7, "b"]), records("y", "x", ids=["b", "7"]), "id", [(1, 0), (0, 1)]),
        (records("x", "y", ids=["a", "b"]), records("y", "x"), "question", [(1, 0), (0, 1)]),
        (records("x", "x", "y"), records("x", "z", "x", "x"), "question", [(0, 0), (1, 2)]),
        (records("x", "y"), records("p", "q"), "position", [(0, 0), (1, 1)]),
        (records("x", "y"), records("p"), "", []),
    ],
)
def test_pairs_of_records(left, right, by, pairs):
    pairing = pair_records(task_named("score"), left, right)
    assert pairing.by == by
    assert list(zip(pairing.rows.tolist(), pairing.baseline_rows.tolist(), strict=True)) == pairs
    assert pairing.unpaired == [k for k in range(len(left)) if k not in pairing.rows]
    assert pairing.baseline_unpaired == [k for k in range(len(right)) if k not in pairing.baseline_rows]
    assert pairing.contradictory == []


def test_equal_ids_of_different_questions_and_records_without_one():
    pairs = pair_records(task_named("score"), records("x", "y", ids=[1, 2]), records("x", "z", ids=[1, 2]))
    assert (pairs.by, pairs.contradictory, pairs.questions.tolist()) == ("id", [1], [0, 1])
    task = task_named("bioprobench.err")
    verdicts = [{"is_correct": k % 2 == 0, "generated_response": "x"} for k in range(4)]
    pairs = pair_records(task, verdicts[::-1], verdicts)
    assert (pairs.by, pairs.rows.tolist(), pairs.questions.tolist()) == ("position", [0, 1, 2, 3], [0, 1, 2, 3])
    named = [{**record, "id": k} for k, record in enumerate(verdicts)]
    other = [{**record, "is_correct": True} for record in named[::-1]]
    pairs = pair_records(task, other, named)
    assert (pairs.by, pairs.rows.tolist(), pairs.contradictory) == ("id", [3, 2, 1, 0], [1, 3])
