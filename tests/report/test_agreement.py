"""Agreement of raters: coefficients against their definitions, textbooks and SciPy, also over resamples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.research.reports.coefficients import (
    agreement_rates,
    cohen_kappas,
    fleiss_kappas,
    permutation_p,
    spearman,
    spearmans,
    student_p,
)
from tests.reference import agreement as twin
from tests.strategies import examples

labels = st.integers(1, 4).map(float)
pairs = st.lists(st.tuples(labels, labels), min_size=1, max_size=12)


def once(n: int) -> np.ndarray:
    return np.ones((1, n))


def same(value: float, expected) -> bool:
    return math.isnan(value) if expected is None else value == pytest.approx(float(expected), abs=1e-12)


@given(pairs)
def test_two_raters(rows):
    columns, n = np.array(rows), len(rows)
    x, y = columns.T
    assert same(agreement_rates(columns, once(n))[0], twin.agreement_rate(x, y))
    assert same(cohen_kappas(columns, once(n))[0], twin.cohen_kappa(x, y))
    assert same(spearmans(columns, once(n))[0], spearman(x, y))


def counts_of(units) -> np.ndarray:
    rows = np.array(units)
    return (rows[:, :, None] == np.unique(rows)).sum(axis=1).astype(float)


@given(st.integers(2, 5).flatmap(lambda m: st.lists(st.lists(labels, min_size=m, max_size=m), min_size=1, max_size=9)))
def test_several_raters(units):
    assert same(fleiss_kappas(counts_of(units), once(len(units)))[0], twin.fleiss_kappa(units))


def test_examples_of_the_textbooks():
    x = np.array([1.0] * 25 + [0.0] * 25)
    y = np.array([1.0] * 20 + [0.0] * 5 + [1.0] * 10 + [0.0] * 15)
    assert cohen_kappas(np.column_stack([x, y]), once(50))[0] == pytest.approx(0.4)
    fleiss = [
        *([0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]),
        *([7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]),
    ]
    assert fleiss_kappas(np.array(fleiss, float), once(10))[0] == pytest.approx(0.210, abs=5e-4)


@pytest.mark.parametrize("constant", [1.0, 2.0])
def test_a_rater_with_one_category_has_no_kappa(constant):
    """The formula would give 0, or nothing if the other one has the same single category."""
    equal = np.full((3, 2), constant)
    for rows in (equal, np.array([[constant, 1.0], [constant, 2.0]])):
        assert np.isnan(cohen_kappas(rows, once(len(rows)))).all()
        assert np.isnan(cohen_kappas(rows[:, ::-1], once(len(rows)))).all()
        assert np.isnan(spearmans(rows, once(len(rows)))).all()
    assert np.isnan(fleiss_kappas(np.array([[3.0], [3.0]]), once(2))).all()
    assert agreement_rates(equal, once(3)).tolist() == [1.0]


@given(pairs, st.randoms(use_true_random=False))
def test_a_resample_is_the_sample_of_its_rows(rows, random):
    drawn = [[random.randrange(len(rows)) for _ in rows] for _ in range(3)]
    times = np.array([np.bincount(some, minlength=len(rows)) for some in drawn], float)
    columns = np.array(rows)
    for function, of_units in (
        *((function, columns) for function in (agreement_rates, cohen_kappas, spearmans)),
        (fleiss_kappas, counts_of(rows)),
    ):
        expected = [function(of_units[some], once(len(rows)))[0] for some in drawn]
        np.testing.assert_allclose(function(of_units, times), expected, atol=1e-12)


@given(st.lists(st.tuples(labels, labels, st.floats(-1e6, 1e6)), min_size=2, max_size=6))
@examples(40)
def test_p_values_of_all_orders(rows):
    a, b, y = np.array(rows).T
    p_values = permutation_p(np.array([a, b]), y, 9, 0)
    assert p_values.tolist() == pytest.approx([float(twin.permutation_p(x, y)) for x in (a, b)])


@pytest.mark.parametrize("n", [40, 501])
def test_p_values_of_random_orders_and_of_many_values(n):
    stats = pytest.importorskip("scipy.stats")
    generator = np.random.default_rng(n)
    y = generator.normal(size=n)
    x = np.round([y, y + 0.5 * n**0.5 * generator.normal(size=n), generator.normal(size=n)])
    p_values = permutation_p(x, y, 9_999, 3)
    assert p_values[0] == (1 / 10_000 if n == 40 else pytest.approx(0.0, abs=1e-99))
    assert p_values == pytest.approx([stats.spearmanr(column, y).pvalue for column in x], abs=0.015)
    assert (permutation_p(x, y, 9_999, 3) == p_values).all()
    assert (permutation_p(x[1:2], y, 9_999, 3) == p_values[1:2]).all()


@given(st.integers(3, 60), st.floats(-1, 1))
def test_p_values_of_student(n, rho):
    stats = pytest.importorskip("scipy.stats")
    t = abs(rho) * math.sqrt((n - 2) / (1 - rho**2)) if rho**2 < 1 else math.inf
    least = 2 / math.factorial(n)
    assert student_p(rho, n) == pytest.approx(max(least, 2 * stats.t.sf(t, n - 2)), abs=1e-12)


def test_p_values_of_table_8_of_bioprobench():
    printed = {(0.6718, 48): 1.71e-7, (0.4262, 48): 2.52e-3, (0.6013, 50): 3.87e-6, (0.3405, 50): 1.55e-2}
    assert [student_p(*pair) for pair in printed] == pytest.approx(list(printed.values()), rel=6e-3)
    assert student_p(1.0, 2) is None
