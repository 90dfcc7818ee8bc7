"""The load tests with small counts: every scenario against a real service."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest

from assay.service.config import Config
from assay.service.http.endpoints.about import config_of
from assay.service.version import VERSION
from tests.own_process import environment
from tests.servers import launched

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--seconds", "30", "--ramp", "0", "--prompts", "60", "--users", "4", "--pace", "0", "--rate", "200")
WELL, WRONG, INVALID = 0, 1, 3
"""Allowed exit codes: a busy machine makes figures invalid, but never an answer wrong."""


def started(output: Path, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the load tests to their end. Each load ends with its last request."""
    command = [sys.executable, "loadtests/run.py", *SMALL, *flags, "--output", str(output)]
    variables = environment(**variables)
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=600, check=False)


def run(output: Path, *flags: str, **variables: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """Run the load tests; return the report and the records by load."""
    shown = started(output, *flags, **variables)
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


# A service at an address


@pytest.mark.usefixtures("locust")
def test_a_service_at_an_address_with_a_key_and_settings_of_its_own(tmp_path):
    flags = ("--host", "127.0.0.2", "--order", "lcs", "--max-responses", "500", "--drain-seconds", "0")
    with launched(*flags, environ={"ASSAY_API_KEYS": "the-key"}) as server:
        server.wait_until_ready()
        url = f"{server.url}/"
        without = started(tmp_path, "--url", url)
        assert without.returncode == WRONG
        assert "/v1/config answered 401; give its key: KEY=…, or the variable ASSAY_API_KEY" in without.stderr
        only = ("--only", "mixed", "batches", "--only", "mixed")
        report, records = run(tmp_path, "--requests", "60", *only, "--url", url, ASSAY_API_KEY="the-key")
    assert records.keys() == {"mixed", "batches"}
    check(records, 60)
    assert report.startswith(f"# Load on {url[:-1]}, version {VERSION}\n")
    assert "the-key" not in report


class Liar(BaseHTTPRequestHandler):
    """A service of this version that gives every response the reward 1."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(config_of(Config()))

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        n, settings = len(request["responses"]), Config().score
        identity = {"config_id": settings.config_id, "signature": settings.signature}
        self.answer({"rewards": [1.0] * n, "reasons": ["ok"] * n, **identity})

    def answer(self, document: dict[str, Any]) -> None:
        content = orjson.dumps(document)
        self.send_response(200)
        self.send_header("x-request-id", self.headers["x-request-id"] or "none")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.usefixtures("locust")
def test_a_service_that_lies_is_found_out(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Liar) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        shown = started(tmp_path, "--requests", "30", "--only", "singles", "--url", url)
        server.shutdown()
    assert shown.returncode == WRONG, shown.stdout + shown.stderr
    record = json.loads((tmp_path / "singles.json").read_text())
    assert record["sent"] == record["answered"] == 30
    assert 0 < record["wrong"] < 30  # some responses do get the reward 1
    assert "single: rewards[0] is 1.0, not 0" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--url", "127.0.0.1:8000"), "--url must begin with http:// or https://"),
        (("--url", "http://127.0.0.1:1"), "there is no service at http://127.0.0.1:1: "),
        (("--only", "singles", "doubles"), "invalid choice: 'doubles'"),
    ],
)
@pytest.mark.usefixtures("locust")
def test_a_wrong_address_or_name_is_refused_at_once(tmp_path, flags, message):
    shown = started(tmp_path, *flags)
    assert shown.returncode in (1, 2)
    assert message in shown.stderr
    assert "Traceback" not in shown.stderr
