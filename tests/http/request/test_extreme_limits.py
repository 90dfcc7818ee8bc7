"""Limits at their extremes: every request gets a documented reply, soon."""

from __future__ import annotations

import json
import time

import pytest

from assay.service.config import Config, ServerSettings
from assay.service.http.app import create_app
from tests.http.samples import REQUEST
from tests.servers import running, wait_for

BODIES = [json.dumps(REQUEST).encode() + b" " * padding for padding in (0, 100_000, 1_000_000)]

EXTREMES = [
    ({"max_work_bytes": 1}, {200}),
    ({"max_work_bytes": 50_000}, {200}),
    ({"max_queued": 1, "max_queued_bytes": 0}, {200}),
    ({"max_body_bytes": 1}, {413}),
    ({"inline_bytes": 0}, {200}),
    ({"inline_bytes": 1 << 24}, {200}),
    ({"inline_bytes": 0, "max_work_bytes": 1, "max_queued": 1, "max_queued_bytes": 0, "threads": 1}, {200}),
    ({"threads": 1}, {200}),
    ({"body_seconds": 1e-9}, {200, 408}),
    ({"deadline_seconds": 1e-9}, {504}),
    ({"head_seconds": 1e-9}, {200}),
]


@pytest.mark.parametrize(("limits", "statuses"), EXTREMES, ids=str)
def test_every_request_gets_a_documented_reply(limits, statuses):
    """Bodies of three lengths, with a declared length and in chunks, one after the other."""
    app = create_app(Config(server=ServerSettings(**limits)))
    with running(app) as client:
        wait_for(client, "/readyz", 200)
        started = time.monotonic()
        for body in BODIES:
            for content in (body, (body[start : start + 60_000] for start in range(0, len(body), 60_000))):
                reply = client.post("/v1/score", content=content, headers={"content-type": "application/json"})
                assert reply.status_code in statuses, reply.text
        assert time.monotonic() - started < 30
        while "assay_work_bytes 0.0" not in client.get("/metrics").text:  # a job returns its bytes after the reply
            assert time.monotonic() - started < 30
