"""Several samples of a prompt: pass@k and best of k against all draws, and what `assay evaluate` shows of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from assay.research.reports.samples import best_of, draws, mean_over, means_by, prompt_numbers
from tests.command_line import write_rows

Call = Callable[..., Result]

VALUE = st.one_of(st.none(), st.just(math.nan), st.floats(-2, 2), st.sampled_from([0.0, 1.0]))
"""A value, NaN where the metric does not apply, None for a failed answer."""


def best_by_all_draws(values: list[float | None], k: int, failed_as_zero: bool) -> float:
    """Return the mean of the best value of every draw of k samples, NaN without any."""
    drawn = [value for value in values if value is None or not math.isnan(value)]
    best = []
    for draw in combinations(drawn, k):
        valued = [value for value in draw if value is not None]
        if valued or failed_as_zero:
            best.append(max(valued, default=0.0))
    return sum(best) / len(best) if best else math.nan


@given(st.lists(st.lists(VALUE, min_size=1, max_size=6), min_size=1, max_size=4), st.integers(1, 4), st.randoms())
def test_the_best_of_k_is_the_mean_over_all_draws(prompts, k, random) -> None:
    rows = [(number, value) for number, values in enumerate(prompts) for value in values]
    random.shuffle(rows)
    numbers = np.array([number for number, _ in rows])
    values = np.array([math.nan if value is None else value for _, value in rows])
    failed = np.array([value is None for _, value in rows])
    for failed_as_zero in (False, True):
        best = best_of(numbers, values, failed, k, failed_as_zero)
        expected = [best_by_all_draws(some, k, failed_as_zero) for some in prompts]
        np.testing.assert_allclose(best, expected, rtol=1e-12, atol=1e-12)


@given(st.integers(1, 300), st.data())
def test_pass_at_k_is_the_unbiased_estimator(n, data) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    values = np.array([1.0] * c + [0.0] * (n - c))
    (best,) = best_of(np.zeros(n, np.int64), values, np.zeros(n, bool), k, True)
    assert best == pytest.approx(1 - math.comb(n - c, k) / math.comb(n, k), rel=1e-12, abs=1e-12)


@given(st.integers(1, 5_000))
def test_draws_double_up_to_the_number_of_samples(samples) -> None:
    sizes = draws(samples)
    assert sizes[0] == 1 or samples == 1
    assert sizes == [*(2**power for power in range(20) if 2**power < samples), samples]


def test_standard_errors_are_over_prompts() -> None:
    prompts = prompt_numbers(["a", "b", "a", "c", "b", "a"])
    assert prompts.tolist() == [0, 1, 0, 2, 1, 0]
    means = means_by(prompts, np.array([1.0, 0.0, math.nan, math.nan, 1.0, 0.0]))
    np.testing.assert_array_equal(means, [0.5, 0.5, math.nan])
    mean = mean_over(np.array([0.0, 1.0, 1.0, math.nan]))
    assert (mean.value, mean.n) == (pytest.approx(2 / 3), 3)
    assert mean.error == pytest.approx(np.std([0, 1, 1], ddof=1) / math.sqrt(3))
    assert prompt_numbers(["a", "b"]) is None
    assert prompt_numbers(["a", "a", ""]) is None


def answer(text: str, confidence: int = 90) -> str:
    return f"[ANSWER_START]{text} & {confidence}[ANSWER_END]"


RIGHT, WRONG, UNREAD = answer("100"), answer("50"), "I do not know."
ANSWERS = {
    "a": [RIGHT, WRONG, WRONG, UNREAD],
    "b": [RIGHT, RIGHT, RIGHT, WRONG],
    "c": [UNREAD, UNREAD, UNREAD, UNREAD],
    "d": [WRONG, WRONG, WRONG, WRONG, RIGHT],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [
        {
            "id": name,
            "question": f"How much? {name}",
            "choices": ["50", "100"],
            "answer": "100",
            "generated_response": text,
        }
        for name, texts in ANSWERS.items()
        for text in texts
    ]
    return write_rows(tmp_path / "sampled.jsonl", rows)


def test_several_samples_of_a_prompt_have_a_table(file: Path, tmp_path: Path, call: Call) -> None:
    page = tmp_path / "page.html"
    flags = ("--task", "bioprobench.pqa", "--metrics", "accuracy,brier,accuracy_over_all", "-q")
    done = call("evaluate", file, *flags, "--json", tmp_path / "all.json", "--html", page)
    assert done.exit_code == 0, done.output
    document = json.loads((tmp_path / "all.json").read_text())["samples"]
    assert (document["prompts"], document["smallest"], document["largest"]) == (4, 4, 5)
    metrics = {entry["metric"]: entry for entry in document["metrics"]}
    accuracy = metrics["accuracy"]
    assert accuracy["estimate"] == "pass@k"
    assert accuracy["mean"]["prompts"] == 3  # nothing of c could be read
    assert accuracy["mean"]["value"] == pytest.approx(np.mean([1 / 3, 3 / 4, 1 / 5]))
    at = {entry["k"]: entry for entry in accuracy["k"]}
    passed = {1: [1 / 4, 3 / 4, 0, 1 / 5], 2: [1 / 2, 1, 0, 2 / 5], 4: [1, 1, 0, 4 / 5]}
    assert at.keys() == passed.keys()
    for k, values in passed.items():
        assert (at[k]["value"], at[k]["prompts"]) == (pytest.approx(np.mean(values)), 4)
        assert at[k]["error"] == pytest.approx(np.std(values, ddof=1) / 2)
    brier = metrics["brier"]
    assert brier["estimate"] == "best of k"
    best = {entry["k"]: entry["value"] for entry in brier["k"]}
    assert best[4] == pytest.approx(np.mean([0.01, 0.01, 4 / 5 * 0.01 + 1 / 5 * 0.81]))  # less is better
    assert best[4] < best[2] < best[1]
    assert best[1] == pytest.approx(brier["mean"]["value"])
    assert "±: standard error of the mean over the prompts, whose samples are averaged first." in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["Acc", "pass@k"] in [line[:2] for line in lines]
    assert "4 prompts with 4 to 5 samples each." in done.stdout
    assert "A failed answer without a value" in done.stdout
    text = page.read_text(encoding="utf-8")
    assert "<h2>Samples</h2>" in text
    for flag, said in (("--markdown", "| Acc | pass@k |"), ("--latex", "pass@k")):
        assert said in call("evaluate", file, *flags, flag, "-").stdout


def test_a_comparison_has_the_samples_of_each_model(file: Path, tmp_path: Path, call: Call) -> None:
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    single = write_rows(tmp_path / "single.jsonl", list({row["id"]: row for row in rows}.values()))
    flags = ("--task", "bioprobench.pqa", "--metrics", "accuracy_over_all", "--resamples", 99, "-q")
    other = write_rows(tmp_path / "other.jsonl", [*rows, rows[0]])
    done = call("evaluate", file, other, *flags)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines if line[-1:] and "pass@k" in line] == ["sampled", "other"], done.output
    done = call("evaluate", single, file, *flags, "--json", tmp_path / "all.json")
    assert "pass@k" in done.stdout
    first, second = json.loads((tmp_path / "all.json").read_text())["models"]
    assert "samples" not in first
    assert second["samples"]["prompts"] == 4
