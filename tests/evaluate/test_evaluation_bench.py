"""`loadtests/evaluation_bench.py`: every evaluation beside its twin, with the answers checked."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from assay.service.bench.measure import WrongAnswerError
from loadtests.evaluation_bench import COMPARISONS, benchmarks_of, checked, main
from loadtests.evaluation_twins import records_of
from tests.conftest import ROOT


@pytest.mark.usefixtures("compiled")
def test_json(capsys):
    main(["--records", "30", "--repeats", "2", "--json"])
    document = json.loads(capsys.readouterr().out)
    measured = set(document["evaluations"])
    assert measured | {c.name for c in COMPARISONS if c.title in document["skipped"]} == {c.name for c in COMPARISONS}
    assert {"score_paper", "score_thoth", "pqa", "ord", "err"} <= measured
    for found in document["evaluations"].values():
        assert 0 < found["low"] <= found["median"] <= found["high"]
        assert found["records"] == 30
    assert document["evaluations"]["pqa"]["script_microseconds"] == 3.5


@pytest.mark.usefixtures("compiled")
def test_it_runs_in_a_checkout():
    command = [sys.executable, "-m", "loadtests.evaluation_bench", "--records", "5", "--repeats", "1"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "SCORE, profile paper" in result.stdout
    assert "script: CPU time" in result.stdout


def test_wrong_answers_are_not_timed():
    comparison = next(comparison for comparison in COMPARISONS if comparison.name == "score_thoth")
    ours, plain = benchmarks_of(comparison, records_of(5, 1)["score"])
    for benchmark in (ours, plain):
        with benchmark.start() as run:
            assert run().seconds > 0
    with pytest.raises(WrongAnswerError, match="step_m"):
        checked(lambda: {"step_m": [0.25] * 5}, {"step_m": [0.5] * 5})
