"""`assay bench`: every benchmark runs, every result is checked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from assay.service.bench import TITLES
from assay.service.bench.benchmarks import RATIOS, Results, build, notes
from assay.service.bench.measure import NotACheckoutError, plain_scorer
from tests.command_line import KEY_LINE, ROOT, environment

SMALL = ["--prompts", "3", "--samples", "2", "--plain-responses", "4", "--singles", "80", "--connections", "8"]


def has_pyarrow() -> bool:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


@pytest.mark.slow
def test_a_small_run_of_every_benchmark(run) -> None:
    result = run("bench", *SMALL, "--repeats", "2", "--json", cwd=ROOT)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert next(iter(found)) == "ratios"
    missing = set() if has_pyarrow() else {"http_arrow"}
    assert found["skipped"].keys() == missing
    assert set(found["lanes"]) == set(TITLES) - missing
    assert set(found["ratios"]) == {ratio.name for ratio in RATIOS if ratio.of not in missing}
    sizes = {**dict.fromkeys(TITLES, 6), "plain_python": 4, "singles": 80, "singles_bare": 80}
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


def test_chosen_benchmarks_as_text_with_the_settings_of_a_caller(run) -> None:
    """The servers do not get them."""
    keys = {**environment(), "ASSAY_API_KEYS": "secret", "ASSAY_MAX_BODY_BYTES": "10"}
    result = run("bench", *SMALL, "--repeats", "1", "--lanes", "http_json, plain_python", cwd=ROOT, env=keys)
    assert result.returncode == 0, result.stderr
    text = result.stdout.decode()
    for shown in ("HTTP JSON, times as fast as plain Python", "over HTTP, JSON ", "plain Python, 1 thread "):
        assert shown in text
    assert "floor" not in text
    assert "\x1b" not in text


def test_without_pyarrow_the_arrow_benchmark_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    request = {"responses": ["x"], "references": [KEY_LINE], "reference_index": [0]}
    benchmarks, skipped = build(
        ("in_process", "http_arrow"), request, {"plain_responses": 1, "singles": 1, "connections": 1}
    )
    assert [benchmark.name for benchmark in benchmarks] == ["in_process"]
    missing = "over HTTP, Arrow is not measured: pyarrow is not installed: "
    assert any(note.startswith(missing) for note in notes(Results((), {}, skipped)))


def test_a_wrong_name_is_reported(call) -> None:
    result = call("bench", *SMALL, "--lanes", "in_process,swift")
    assert result.exit_code == 2
    assert "unknown: swift" in result.stderr


def test_outside_a_checkout_the_missing_file_is_named(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = call("bench")
    assert result.exit_code == 2
    assert "examples/rollouts.py not found: run assay bench in a checkout of Assay" in result.stderr
    with pytest.raises(NotACheckoutError, match=r"tests/reference/scorer.py not found"):
        plain_scorer()
