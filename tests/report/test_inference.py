"""What few or equal values claim: sign-flip p-values against SciPy's and a textbook's, and no spread out of nothing."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.research.reports.agreement import agreement_of
from assay.research.reports.coefficients import pearson, student_p
from assay.research.reports.differences import Draws, PairedSide, differences
from assay.research.reports.inference import (
    MAX_EXACT,
    bootstrap_p,
    exchange_p,
    exchange_p_of_means,
    interval_of,
    standard_error,
)
from assay.research.reports.labels import Labelled
from assay.research.reports.samples import mean_over
from assay.service.tasks.evaluation import evaluate
from assay.service.tasks.task import Evaluation
from tests.command_line import write_rows

RESAMPLES, SEED = 999, 5

tenths = st.integers(-20, 20).map(lambda value: value / 10)


def textbook_p(differences: list[float]) -> float:
    """Return the p-value of the sign-flip test from every assignment of signs, with sums rounded to 9 decimals."""
    as_far = abs(round(sum(differences), 9))
    sums = [
        abs(round(sum(sign * value for sign, value in zip(signs, differences, strict=True)), 9))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(value >= as_far for value in sums) / len(sums)


@given(st.lists(st.tuples(tenths, st.floats(-9, 9)), min_size=1, max_size=9))
def test_sign_flip_p_values_are_the_textbooks(rows) -> None:
    """Also with ties, with zeros and with a sum of zero, which is as far from 0 as every other."""
    columns = np.array(rows)
    columns[:, 1] = columns[:, 1].round(3)
    assert exchange_p(columns, RESAMPLES, SEED) == pytest.approx([textbook_p(column.tolist()) for column in columns.T])


@pytest.mark.parametrize("n", [2, 3, 13, 14, 16])
def test_sign_flip_p_values_are_scipys(n: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    generator = np.random.default_rng(n)
    columns = np.column_stack([generator.integers(-2, 4, n), generator.normal(0.5, 1.0, n)]).astype(float)
    expected = [
        stats.permutation_test(
            (column,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=True
        ).pvalue
        for column in columns.T
    ]
    assert exchange_p(columns, RESAMPLES, SEED) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("n", "least"), [(1, 1.0), (2, 0.5), (3, 0.25), (10, 2 / 2**10), (MAX_EXACT, 2 / 2**MAX_EXACT)]
)
def test_the_least_p_value_of_n_pairs(n: int, least: float) -> None:
    equal = np.full((n, 1), 100.0)
    assert exchange_p(equal, RESAMPLES, SEED)[0] == least
    assert (
        exchange_p(np.vstack([equal, np.zeros((70, 1))]), RESAMPLES, SEED)[0] == least
    )  # equal answers change nothing
    assert exchange_p(np.zeros((n, 1)), RESAMPLES, SEED)[0] == 1.0
    assert bootstrap_p(np.full(RESAMPLES, 100.0), n) == (None if n == 1 else max(least, 2 / (1 + RESAMPLES)))


def test_random_exchanges_of_more_pairs() -> None:
    """The p-value is never 0, is that of all exchanges but for chance, and does not depend on other metrics."""
    generator = np.random.default_rng(1)
    columns = np.column_stack([np.ones(30), generator.normal(0.3, 1.0, 30), generator.normal(0.0, 1.0, 30)])
    columns[:12, 2] = 0.0  # 18 pairs differ: exact
    p = exchange_p(columns, 9_999, SEED)
    assert p[0] == 1 / 10_000
    z = columns[:, 1].sum() / np.sqrt((columns[:, 1] ** 2).sum())
    stats = pytest.importorskip("scipy.stats")
    assert p[1] == pytest.approx(2 * stats.norm.sf(abs(z)), abs=0.02)
    assert p[2] == exchange_p(columns[12:, 2:], 1, 0)[0]
    assert p[1:2] == exchange_p(columns[:, 1:2], 9_999, SEED)


@given(st.lists(st.lists(st.tuples(tenths, tenths), min_size=2, max_size=2), min_size=2, max_size=7))
def test_exchanges_of_a_mean_of_means(rows) -> None:
    """Swap the values of both models in every column of a pair; a column's missing values stay with their answers."""
    values = np.array(rows)  # (pairs, columns, models)
    present = np.ones_like(values)
    present[0, 1, 0] = 0.0  # the first pair has no value of the second column by the model
    sides = [np.stack([values[..., k] * present[..., k], present[..., k]], axis=-1) for k in range(2)]

    def difference(swapped: tuple[bool, ...]) -> float:
        order = np.array(swapped)[:, None, None]
        model, baseline = (np.where(order, b, a).sum(axis=0) for a, b in (sides, sides[::-1]))
        return float((model[:, 0] / model[:, 1] - baseline[:, 0] / baseline[:, 1]).mean())

    every = [round(abs(difference(swapped)), 9) for swapped in itertools.product((False, True), repeat=len(rows))]
    expected = sum(value >= every[0] for value in every) / len(every)
    assert exchange_p_of_means(sides[0], sides[1], RESAMPLES, SEED) == pytest.approx(expected)


def test_questions_are_exchanged_with_all_their_pairs() -> None:
    """Four pairs of two questions, all of them 1: two signs, so that p is 0.5."""
    rows, zeros = np.arange(4), np.zeros(4)
    model, baseline = (PairedSide(Evaluation({"x": column}), rows) for column in (np.ones(4), zeros))
    (of_questions,) = differences(["x"], model, baseline, Draws(np.array([0, 0, 1, 1]), RESAMPLES, SEED))
    (of_pairs,) = differences(["x"], model, baseline, Draws(rows, RESAMPLES, SEED))
    assert [(each.p, each.interval, each.units) for each in (of_questions, of_pairs)] == [
        (0.5, None, 2),
        (0.125, None, 4),
    ]


@pytest.mark.parametrize("n", range(1, 12))
def test_equal_values_have_no_spread_to_claim(n: int) -> None:
    """Ten values are enough to say that they do not differ."""
    values = np.full(n, 0.1)
    means = np.array([np.mean(values[np.random.default_rng(k).integers(0, n, n)]) for k in range(99)])
    assert (interval_of(means, n) is None) == (mean_over(values).error is None) == (n < 10)
    assert standard_error(n, 1.0, 0.0, 3.0) == (None if n == 1 else 1.0 / np.sqrt(n))
    interval = interval_of(np.arange(101.0), n)
    assert interval == (None if n == 1 else pytest.approx((2.5, 97.5)))


def test_two_values_are_always_correlated() -> None:
    x, y = np.array([1.0, 2.0]), np.array([3.0, 7.0])
    assert pearson(x, y) is None
    assert pearson(np.array([1.0, 2.0, 3.0]), np.array([3.0, 7.0, 8.0])) == pytest.approx(0.945, abs=1e-3)
    assert [student_p(1.0, n) for n in (3, 4, 5)] == [1 / 3, 1 / 12, 1 / 60]


@pytest.mark.parametrize("n", [1, 2, 3, 9, 10])
def test_labels_of_few_records(n: int) -> None:
    records = [{"response": "", "reference": "Step 1: x", "rating": k, "judge": k} for k in range(n)]
    result = evaluate("score", records)
    result.per_record["order_s"] = np.arange(n) / n
    agreement = agreement_of([Labelled("a", records, result)], ["rating", "judge"])
    assert agreement is not None
    entries = [
        entry for _, entries in agreement.correlations["rating"] for entry in entries if entry["metric"] == "order_s"
    ]
    expected = {1: (None, None), 2: (None, None), 3: (1.0, 1 / 3), 9: (1.0, None), 10: (1.0, None)}[n]
    rho, p = expected
    assert entries[0]["spearman"] == (None if rho is None else pytest.approx(rho))
    if n <= 3:
        assert entries[0]["p"] == (None if p is None else pytest.approx(p))
    notes = "\n".join(note for table in agreement.tables({}) for note in table.notes)
    assert ("A correlation of fewer than 10 records says little." in notes) == (1 < n < 10)
    assert ("Fewer than 10 labels say little" in notes) == (n < 10)
    rates = [each for each in agreement.raters.statistics if each.name == "Agreement rate"]
    assert all((each.interval is None) == (n < 10) for each in rates)  # of complete agreement, if it has categories


@pytest.mark.parametrize("n", [1, 2, 3, 9, 10])
def test_a_comparison_of_few_equal_pairs_says_so(call, tmp_path: Path, n: int) -> None:
    """Two models whose answers all differ: 0.3.0 printed the interval 100 to 100, and p = 0.0002."""
    steps = '{"action": "mix", "objects": ["water"], "parameters": []}'
    good = (
        f"<think>\nx\n</think>\n<key>\nStep 1: {steps}\n</key>\n<orc>\nStep 1: Mix water.\n</orc>\n<note>\nx\n</note>"
    )
    files = [
        write_rows(
            tmp_path / name, [{"id": f"r{k}", "response": text, "reference": f"Step 1: {steps}"} for k in range(n)]
        )
        for name, text in (("base.jsonl", ""), ("tuned.jsonl", good))
    ]
    result = call("evaluate", *files, "--metrics", "order_s,semantic_a", "--json", tmp_path / "out.json")
    assert result.exit_code == 0, result.output
    (difference,) = [
        each
        for each in json.loads((tmp_path / "out.json").read_bytes())["comparison"]["all"]["differences"]
        if each["metric"] == "order_s"
    ]
    least = None if n == 1 else 2.0 / 2**n
    line = next(line.split() for line in result.stdout.splitlines() if "Order-S" in line and "100.00" in line.split())
    assert (difference["difference"], difference["p"]) == (1.0, least)
    if n < 10:
        assert difference["low"] is None
        assert line[-3:] == ["100.00", "–", "–" if least is None else f"{least:.4f}"]
    else:
        assert line[-5:] == ["100.00", "100.00", "to", "100.00", "0.0020"]
    document = json.loads((tmp_path / "out.json").read_bytes())
    for text in (result.stdout, "\n".join(document["notes"])):
        assert text.count("Fewer than 10 pairs say little") == (n < 10)
        assert text.count("An interval without width") == (n >= 10)
    assert [each["aggregate"]["order_s"] for each in document["models"]] == [0.0, 1.0]
    assert ("No ± of a mean: fewer than 10 values" in result.stdout) == (1 < n < 10)
