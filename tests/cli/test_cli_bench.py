"""`assay bench`: every benchmark runs, every result is checked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from assay.service.bench.benchmarks.singles import Size
from assay.service.bench.build import build
from assay.service.bench.ratios import RATIOS
from assay.service.bench.report import Results, as_text
from assay.service.cli.bench import BENCHMARKS
from tests.command_line import KEY_LINE, ROOT, environment

SMALL = ["--prompts", "3", "--samples", "2", "--plain-responses", "4", "--singles", "80", "--connections", "8"]


def has_pyarrow() -> bool:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def test_a_small_run_of_every_benchmark(run) -> None:
    result = run("bench", *SMALL, "--repeats", "2", "--json", cwd=ROOT)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert next(iter(found)) == "ratios"
    missing = set() if has_pyarrow() else {"http_arrow"}
    assert found["skipped"].keys() == missing
    assert set(found["lanes"]) == set(BENCHMARKS) - missing
    assert set(found["ratios"]) == {ratio.name for ratio in RATIOS if ratio.of not in missing}
    sizes = {**dict.fromkeys(BENCHMARKS, 6), "plain_python": 4, "singles": 80, "singles_bare": 80}
    assert {name: benchmark["responses"] for name, benchmark in found["lanes"].items()} == {
        n: sizes[n] for n in found["lanes"]
    }
    assert all(len(benchmark["seconds"]) == len(benchmark["cpu_seconds"]) == 2 for benchmark in found["lanes"].values())
    assert {name for name, benchmark in found["lanes"].items() if benchmark["client_share"]} == {
        "singles",
        "singles_bare",
    }
    assert found["batch"]["responses"] == 6
    assert found["batch"]["references"] == 3


def test_chosen_benchmarks_as_text_compared_with_an_earlier_run(run, tmp_path: Path) -> None:
    chosen = ["--repeats", "1", "--lanes", "in_process, plain_python"]
    earlier = run("bench", *SMALL, *chosen, "--json", cwd=ROOT)
    assert earlier.returncode == 0, earlier.stderr
    file = tmp_path / "earlier.json"
    file.write_bytes(earlier.stdout)
    result = run("bench", *SMALL, "--seed", "1", *chosen, "--compare", file, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    text = result.stdout.decode()
    assert "in process, 1 thread" in text
    assert "floor" not in text
    assert "now over earlier.json" in text
    assert "batch.seed: 1 now, 0 then" in text


def test_a_setting_of_the_caller_does_not_reach_the_servers(run) -> None:
    keys = {**environment(), "ASSAY_API_KEYS": "secret", "ASSAY_MAX_BODY_BYTES": "10"}
    result = run("bench", *SMALL, "--repeats", "1", "--lanes", "http_json", cwd=ROOT, env=keys)
    assert result.returncode == 0, result.stderr


def test_without_pyarrow_the_arrow_benchmark_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "assay.service.bench.benchmarks.over_arrow", raising=False)
    request = {"responses": ["x"], "references": [KEY_LINE], "reference_index": [0]}
    benchmarks, skipped = build(("in_process", "http_arrow"), request, 1, Size(1, 1))
    assert [benchmark.name for benchmark in benchmarks] == ["in_process"]
    batch = dict.fromkeys(("responses", "mean_response_bytes", "references", "body_bytes", "repeats"), 1)
    assert "http_arrow was skipped: pyarrow is not installed" in as_text(Results((), batch, skipped))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lanes", "in_process,swift"], b"unknown: 'swift'"),
        (["--compare", "nothing.json"], b"nothing.json: No such file"),
    ],
)
def test_a_wrong_call_names_the_error(run, arguments: list[str], message: bytes) -> None:
    result = run("bench", *SMALL, *arguments, cwd=ROOT)
    assert result.returncode == 2
    assert message in result.stderr


def test_outside_a_checkout_the_missing_file_is_named(run, tmp_path: Path) -> None:
    result = run("bench", cwd=tmp_path)
    assert result.returncode == 2
    assert b"examples/rollouts.py not found" in result.stderr
