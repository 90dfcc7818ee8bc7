"""Refused requests in the log: the errors, at a limited rate, without texts of requests."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable
from urllib.parse import quote

import pytest

from assay.service.errors import Issue
from assay.service.http.request.refusal_log import LINE_SECONDS, MAX_KINDS, RefusalLog
from assay.service.wire.problems import KINDS, Problem
from tests.http.request.exchanges import FakeExchange
from tests.http.samples import PERFECT, REFERENCE, REQUEST, problem_of
from tests.servers import launched, ready

pytestmark = pytest.mark.attack

SECRET = "swordfish"
FORGED = f"{SECRET}\n2026-01-01 00:00:00,000 ERROR assay the reward is wrong\x1b[2J\u2028"
"""A secret text that would forge a log line and clear a terminal."""

GOOD = {"response": PERFECT, "label": REFERENCE}


def test_the_cause_of_a_refusal_is_logged(fresh_server):
    with fresh_server.client() as client:
        body = {"response": PERFECT, "label": SECRET}
        problem_of(client.post("/compat/slime", json=body, headers={"x-request-id": "find-me"}), 422)
        problem_of(client.post("/compat/slime?ordr=lcs&semantics=swordfish", json=GOOD), 422)
        problem_of(client.post("/v1/score", json=REQUEST, headers={"x-request-timeout": "1e-9"}), 504)
        problem_of(client.post("/compat/slim", json=GOOD), 404)
        problem_of(client.post("/v1/score", json=REQUEST, headers={"host": "elsewhere.example"}), 421)
        assert client.get("/v1/score").status_code == 405  # requests of browsers and probes are not logged
        problem_of(client.get("/readyz", headers={"host": "elsewhere.example"}), 421)
    refusals = [line for line in fresh_server.log.splitlines() if " refused: " in line]
    assert all(" WARNING assay POST " in line for line in refusals)
    expected = [
        r"POST /compat/slime refused: 422 invalid-request, request find-me: label: bad_step_line \(line 1 .*\)",
        r"POST /compat/slime refused: 422 .*: query\.semantics: invalid_setting .*; query\.ordr: unknown_setting ",
        r"POST /v1/score refused: 504 deadline, .*: The deadline passed ",
        r"POST unmatched refused: 404 not-found",
        r"421 wrong-host",
    ]
    assert len(refusals) == len(expected)
    for line, pattern in zip(refusals, expected, strict=True):
        assert re.search(pattern, line), line
    assert SECRET not in fresh_server.log


HOSTILE = [
    ("/v1/score", REQUEST | {FORGED: 1}),
    ("/v1/score", REQUEST | {"config": {FORGED: 1}}),
    ("/v1/score", REQUEST | {"config": {"order": FORGED}, "task": FORGED}),
    ("/v1/score", {"task": "bioprobench.ord", "references": [{"wrong_steps": {FORGED: 1}}], "responses": [FORGED]}),
    ("/v1/evaluate", {"task": "bioprobench.ord", "records": [{"wrong_steps": [{FORGED: 1}]}], "options": {FORGED: 1}}),
    ("/v1/explain", {FORGED: 1}),
    (f"/compat/slime?{quote(FORGED)}=1&{quote(FORGED)}=2&{quote('order')}={quote(FORGED)}", GOOD),
    ("/compat/slime", {"response": PERFECT, "label": FORGED}),
    ("/compat/nemo-gym/aggregate_metrics", {"verify_responses": [{FORGED: FORGED}, FORGED]}),
    (f"/{quote(FORGED)}", GOOD),
    (f"/compat/slime/{quote(FORGED)}", GOOD),
]


def test_no_text_of_a_request_is_logged():
    headers = {"content-type": SECRET, "x-request-timeout": SECRET, "content-encoding": SECRET}
    every_line = "import assay.service.http.request.refusal_log as r; r.LINE_SECONDS = 0.0"
    with launched("--drain-seconds", "0", before=every_line) as server, server.client() as client:
        server.wait_for_log(" ready: ")
        before = len(server.log.splitlines())
        for path, body in HOSTILE:
            reply = client.post(path, json=body)
            assert 400 <= reply.status_code < 500, (path, reply.text)
        for name, value in headers.items():
            reply = client.post("/v1/score", content=json.dumps(REQUEST), headers={name: value})
            assert 400 <= reply.status_code < 500
        lines = server.log.split("\n")[before:-1]
    assert len(lines) == len(HOSTILE) + len(headers)
    assert all(" refused: " in line and len(line) < 1200 for line in lines)
    assert not re.search(r"[^ -~]", "".join(lines))
    assert SECRET not in "".join(lines)


def test_json_lines_name_the_problem_but_no_key():
    flags = ("--drain-seconds", "0", "--log-format", "json")
    with ready(*flags, environ={"ASSAY_API_KEYS": "opensesame"}) as server, server.client() as client:
        sent = {"x-request-id": "find-me", "x-assay-run": "GRPO, seed 1", "traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}
        for _ in range(2):
            keyed = sent | {"authorization": "Bearer opensesame"}
            problem_of(client.post("/compat/slime", json={"response": "x"}, headers=keyed), 422)
        for _ in range(100):
            problem_of(client.post("/compat/slime", json=GOOD, headers={"authorization": "Bearer swordfish"}), 401)
        problem_of(client.get("/v1/config"), 401)
        written = server.log
    entries = [json.loads(line) for line in written.splitlines()]
    first, *keyless = [entry for entry in entries if "problem" in entry]
    assert first["level"] == "warning"
    named = ("request_id", "run", "trace_id", "method", "route", "status", "problem", "suppressed")
    expected = ["find-me", "GRPO, seed 1", "1" * 32, "POST", "/compat/slime", 422, "invalid-request", 0]
    assert [first[name] for name in named] == expected
    assert [entry["message"].partition(",")[0] for entry in keyless] == [
        "POST /compat/slime refused: 401 unauthorized",
        "GET /v1/config refused: 401 unauthorized",
    ]
    assert not re.search("opensesame|swordfish", written)


class Refused(FakeExchange):
    """A refused request."""

    request_id, run, span, scope = b"a", "", None, {"method": "POST"}


BUSY = Problem("over-capacity", "The bytes in work and in the queue have reached their limit.")


@pytest.fixture
def lines(caplog) -> Callable[..., list[logging.LogRecord]]:
    """Return a function that logs refusals and returns the records."""

    def logged(problem: Problem, routes: Iterable[str] = ("/v1/score",), refusals: RefusalLog | None = None) -> list:
        caplog.clear()
        refusals = refusals or RefusalLog()
        for route in routes:
            refusals.log(Refused(), route, problem)
        return list(caplog.records)

    return logged


def test_many_refusals_are_one_line_and_a_count(lines):
    now = 0.0
    refusals = RefusalLog(lambda: now)
    assert len(lines(BUSY, ["/v1/score"] * 1001, refusals)) == 1
    assert len(lines(BUSY, ["/compat/slime"], refusals)) == 1
    for expected in (1000, 0):
        now += LINE_SECONDS
        (record,) = lines(BUSY, ["/v1/score"], refusals)
        assert record.suppressed == expected
        assert ("1000 more since" in record.getMessage()) == bool(expected)


def test_memory_is_bounded_for_any_number_of_kinds(lines):
    refusals = RefusalLog(lambda: 0.0)
    assert len(lines(BUSY, [f"/{k}" for k in range(10 * MAX_KINDS)], refusals)) == MAX_KINDS + 1
    assert len(refusals._last) == MAX_KINDS + 1


def test_every_problem_is_one_short_line(lines):
    issues = [Issue(FORGED * 100, "unknown_field", FORGED * 100)] * 100
    for kind in KINDS:
        for problem in (Problem(kind, FORGED * 100), Problem(kind, "", issues), Problem(kind, "", issues, (), 10**9)):
            (record,) = lines(problem)
            assert re.fullmatch("[ -~]{1,1300}", record.getMessage())


NOT_SHOWN = "(a name that is not shown)"
PATHS = {
    **{path: path for path in ("config.ordr", "references[3]", "records[0].steps[12].action", "X-Request-Timeout")},
    **dict.fromkeys(["two words", "a" * 41, "caf\u00e9", "references[\u0663]", "order\n"], NOT_SHOWN),
    "a" * 40: "a" * 40,
    "query.two words": f"query.{NOT_SHOWN}",
    "config." + "x" * 41: f"config.{NOT_SHOWN}",
    "query.": f"query.{NOT_SHOWN}",
    ".".join(["ab"] * 33) + "cd": ".".join(["ab"] * 33) + "cd",
    ".".join(["ab"] * 33) + "cde": f"ab.{NOT_SHOWN}",
    "a[" + "1" * 10_000 + "].b c": NOT_SHOWN,
}


def test_names_that_may_be_texts_are_not_shown(lines):
    shown = {}
    for path in PATHS:
        (record,) = lines(Problem("invalid-request", "", [Issue(path, "why", "Because.")]))
        shown[path] = re.search(r"request a: (.*): why \(Because\.\) \(", record.getMessage())[1]
    assert shown == PATHS


def test_three_issues_are_named_and_the_others_counted(lines):
    issues = [Issue(f"x[{number}]", "why", "d" * (198 + number)) for number in range(5)]
    (record,) = lines(Problem("invalid-request", "", issues[:3]))
    assert " more" not in record.getMessage()
    assert f"({'d' * 200})" in record.getMessage()
    (record,) = lines(Problem("invalid-request", "", issues[1:]))
    assert f"({'d' * 197}...); and 1 more (" in record.getMessage()
