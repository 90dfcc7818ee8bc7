"""`assay bench --evaluate`: every evaluation beside its twin, with the answers checked."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from assay.service.bench.evaluations import COMPARISONS, EvaluationBenchmark, benchmarks_of, records_of
from assay.service.bench.measure import WrongAnswerError
from assay.service.cli.main import main
from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.usefixtures("compiled")
def test_json():
    result = CliRunner().invoke(main, ["bench", "--evaluate", "--records", "30", "--repeats", "2", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    measured = set(document["evaluations"])
    assert measured | {c.name for c in COMPARISONS if c.title in document["skipped"]} == {c.name for c in COMPARISONS}
    assert {"score_paper", "score_thoth", "pqa", "ord", "err"} <= measured
    for found in document["evaluations"].values():
        assert 0 < found["low"] <= found["median"] <= found["high"]
        assert found["records"] == 30
    assert document["evaluations"]["pqa"]["script_microseconds"] == 3.5


@pytest.mark.usefixtures("compiled")
def test_text():
    result = CliRunner().invoke(main, ["bench", "--evaluate", "--records", "5", "--repeats", "1"])
    assert result.exit_code == 0, result.output
    assert "SCORE, profile paper" in result.stdout
    assert CliRunner().invoke(main, ["bench", "--evaluate", "--compare", "x.json"]).exit_code == 2


def test_wrong_answers_are_not_timed():
    comparison = next(comparison for comparison in COMPARISONS if comparison.name == "score_thoth")
    ours, plain = benchmarks_of(comparison, records_of(5, 1)["score"])
    for benchmark in (ours, plain):
        benchmark.run()
        wrong = {"step_m": [0.5] * 5}
        with pytest.raises(WrongAnswerError, match="step_m"):
            EvaluationBenchmark(benchmark.name, benchmark.title, [{}] * 5, benchmark._work, wrong).run()
