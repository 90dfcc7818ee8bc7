"""The load tests with small counts: every scenario against a real service."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.own_process import environment

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--seconds", "30", "--ramp", "0", "--prompts", "60", "--users", "4", "--pace", "0", "--rate", "200")
WELL, INVALID = 0, 3
"""Allowed exit codes: a busy machine makes figures invalid, but never an answer wrong."""


def run(output: Path, *flags: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """Run the load tests; return the report and the records by load. Each load ends with its last request."""
    command = [sys.executable, "loadtests/run.py", *SMALL, *flags, "--output", str(output)]
    shown = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=600, check=False
    )
    assert shown.returncode in (WELL, INVALID), shown.stdout + shown.stderr
    records = {path.stem: json.loads(path.read_text()) for path in output.glob("*.json")}
    return (output / "report.md").read_text(), records


def check(records: dict[str, dict[str, Any]], requests: int) -> None:
    for name, record in records.items():
        assert record["sent"] == record["answered"] == requests, name
        assert record["failed"] == record["wrong"] == 0, record["faults"]
        assert len(record["held"]["milliseconds"]) == requests, name


@pytest.mark.usefixtures("locust")
def test_good_and_bad_requests_side_by_side(tmp_path):
    report, records = run(tmp_path, "--requests", "80", "--only", "mixed")
    check(records, 80)
    assert "| mixed |" in report
    for suffix in ("_stats.csv", "_failures.csv", ".html"):
        assert (tmp_path / f"mixed{suffix}").stat().st_size
    kinds = {line.split(",")[1] for line in (tmp_path / "mixed_stats.csv").read_text().splitlines()}
    assert {"group", "hostile responses", "gzip", "no responses", "refused: references", "refused: NaN"} <= kinds


@pytest.mark.slow
@pytest.mark.usefixtures("locust")
def test_every_scenario(tmp_path):
    report, records = run(tmp_path, "--requests", "40")
    loads = {"batches", "pieces", "singles", "singles-reconnecting", "mixed"}
    assert records.keys() == loads | {"steady-alone", "steady-beside", "batches-beside"}
    check(records, 40)
    assert records["batches"]["responses"] == 40 * 300
    assert records["pieces"]["responses"] == 2 * 300
    assert "ratio" in report
