"""Wrong, failed and invalid results of load tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import pytest
from exchanges import Exchange, RequestFailed, WrongAnswer, read_exchanges, write_exchanges
from payloads import refusals
from report import Row, latency, table
from swarm import Load, Swarm

ANSWER = {"rewards": [1.0, 0.5], "reasons": ["ok", "ok"], "config_id": "c"}
GOOD = Exchange("two", b'{"\xff', ANSWER, 2)
REFUSED = Exchange("bad", b"", {"type": "/docs#problem-x", "places": [["references[0]", "no_steps"]]}, 0, 422)
PROBLEM = {"type": "/docs#problem-x", "detail": "…", "errors": [{"path": "references[0]", "reason": "no_steps"}]}

WRONG = {
    "another reward": (ANSWER | {"rewards": [1.0, 0.25]}, r"rewards\[1\] is 0.25, not 0.5"),
    "another order": (ANSWER | {"rewards": [0.5, 1.0]}, r"rewards\[0\] is 0.5, not 1.0"),
    "another reason": (ANSWER | {"reasons": ["ok", "no_steps"]}, r"reasons\[1\] is 'no_steps', not 'ok'"),
    "a reward too few": (ANSWER | {"rewards": [1.0]}, "rewards has 1 entries, not 2"),
    "another configuration": (ANSWER | {"config_id": "d"}, "config_id differs"),
    "a column too many": (ANSWER | {"advantages": []}, "the fields are"),
}


def test_the_known_answer_is_right():
    assert GOOD.fault(200, json.dumps(ANSWER).encode()) is None
    assert REFUSED.fault(422, json.dumps(PROBLEM).encode()) is None


@pytest.mark.parametrize(("answer", "message"), WRONG.values(), ids=WRONG.keys())
def test_another_answer_is_wrong(answer, message):
    fault = GOOD.fault(200, json.dumps(answer).encode())
    with pytest.raises(WrongAnswer, match=message):
        raise fault


def test_a_broken_reply_is_wrong():
    assert isinstance(GOOD.fault(200, b"{"), WrongAnswer)
    assert isinstance(GOOD.fault(200, None), WrongAnswer)


def test_a_component_is_named():
    nested = GOOD._replace(answer={"components": {"order": [1.0], "scale": [0.0]}})
    fault = nested.fault(200, json.dumps({"components": {"order": [1.0], "scale": [1.0]}}).encode())
    assert str(fault) == "components: scale[0] is 1.0, not 0.0"


@pytest.mark.parametrize(
    ("status", "kind"), [(0, RequestFailed), (429, RequestFailed), (500, RequestFailed), (422, WrongAnswer)]
)
def test_no_answer_is_a_failure(status, kind):
    assert isinstance(GOOD.fault(status, b"{}"), kind)


def test_a_refusal_for_another_reason_is_wrong():
    errors = [{"path": "references[1]", "reason": "no_steps"}]
    assert isinstance(REFUSED.fault(422, json.dumps(PROBLEM | {"errors": errors}).encode()), WrongAnswer)
    assert isinstance(REFUSED.fault(422, json.dumps(PROBLEM | {"type": "/docs#problem-y"}).encode()), WrongAnswer)
    assert isinstance(REFUSED.fault(200, json.dumps(ANSWER).encode()), WrongAnswer)


def test_exchanges_are_read_back_from_a_file(tmp_path):
    exchanges = [GOOD, REFUSED, GOOD._replace(body=b"\n{}\n"), *refusals()]
    assert read_exchanges(write_exchanges(tmp_path / "exchanges", exchanges)) == exchanges


# Locust itself


class Stub(BaseHTTPRequestHandler):
    """Correct for the first request, then in turn wrong, over capacity, and with the id of another request."""

    protocol_version = "HTTP/1.1"
    numbers: Iterator[int]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        k = next(self.numbers) % 4
        answer = ANSWER | ({"rewards": [1.0, 0.0]} if k == 1 else {})
        content = json.dumps(answer).encode()
        self.send_response(429 if k == 2 else 200)
        self.send_header("x-request-id", "another" if k == 3 else self.headers["x-request-id"])
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def stub() -> Iterator[str]:
    Stub.numbers = count()
    with ThreadingHTTPServer(("127.0.0.1", 0), Stub) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def load(folder: Path, most: int = 8) -> Load:
    exchanges = write_exchanges(folder / "exchanges", [GOOD])
    return Load("stub", "Singles", exchanges, users=1, rate=0, ramp=0, hold=30, most=most)


@pytest.mark.usefixtures("locust")
def test_every_reply_is_checked(tmp_path, stub):
    with Swarm(load(tmp_path), stub, tmp_path) as swarm:
        record = swarm.record()
    assert (record["sent"], record["answered"], record["wrong"], record["failed"]) == (8, 8, 4, 2)
    assert sorted(record["faults"]) == [
        ["two: rewards[1] is 0.0, not 0.5", 2],
        ["two: status 429, not 200", 2],
        ["two: the reply has the id of another request", 2],
    ]


# The report


def row(name: str, milliseconds: list[float], late: float = 0.0, began: float = 10.0, **record: object) -> Row:
    held = {"began": began, "seconds": 2.0, "responses": 8, "milliseconds": milliseconds, "late_milliseconds": [late]}
    whole = {"sent": 4, "answered": 4, "responses": 8, "failed": 0, "wrong": 0, "faults": [], "held": held}
    whole |= {"first": 1.0, "last": 20.0, "cpu_share": 0.25, "cpu_warning": False}
    return Row(Load(name, name, Path(), 1, 100, 0, 2, 4), whole | record, 0.016, 8, None)


def test_the_table_has_the_figures():
    lines = table([row("singles", [1.0, 2.0, 3.0, 40.0])]).splitlines()
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells == ["singles", "2.0", "4", "2.0", "40.0", "40.0", "0", "0", "2.000", "–", "–", "25%"]
    assert len(lines) == 3


def test_lost_requests_have_failed():
    assert row("singles", [1.0], sent=6, failed=1).failed == 3


@pytest.mark.parametrize(
    ("given", "why"),
    [({"cpu_warning": True}, "warned"), ({"cpu_share": 0.95}, "95%"), ({"late": 9.0}, "9 ms late")],
)
def test_a_run_without_room_for_locust_is_invalid(given, why):
    bad = row("singles", [12.0], **given)
    assert why in bad.invalid
    assert "**invalid**" in table([bad])
    assert row("singles", [12.0], late=5.0).invalid is None
    assert row("singles", [20.0], late=9.0).invalid is None


def test_the_latency_with_concurrent_batches_is_a_ratio():
    rows = [row("steady-alone", [2.0]), row("batches-beside", [300.0]), row("steady-beside", [6.0])]
    assert "ratio 3.00" in latency(rows)
    assert "5 × 2.0 + 5 = 15.0 ms: met" in latency(rows)
    assert "INVALID" not in latency(rows)
    assert "NOT met. Batches delay single requests" in latency([*rows[:2], row("steady-beside", [15.1])])
    assert "INVALID" in latency([*rows[:2], row("steady-beside", [6.0], began=19.0)])
    assert latency(rows[:2]) == ""
