"""Clients that do not read their replies: their memory is bounded, and others are served."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.http.process.watching import metric
from tests.http.raw_connection import RawConnection, post
from tests.http.samples import REFERENCE, REQUEST, REWARDS
from tests.servers import LiveServer, ready

pytestmark = pytest.mark.attack

WORK_BYTES = 4 << 20
ROWS = 65_000
LARGE = gzip.compress(
    json.dumps({"references": [REFERENCE], "responses": [""] * ROWS, "include": ["components", "advantages"]}).encode()
)
"""A short request with a reply of five megabytes, more than the socket buffers."""


@pytest.fixture
def server() -> Iterator[LiveServer]:
    flags = ("--max-work-bytes", str(WORK_BYTES), "--body-seconds", "20", "--drain-seconds", "0")
    with ready(*flags) as server:
        yield server


def test_unread_replies_delay_further_ones_and_their_clients_are_disconnected(server):
    """Without a bound, 40 of these clients would hold 200 MB."""
    with ExitStack() as stack:
        unread = []
        for _ in range(40):
            connection = stack.enter_context(RawConnection(server.url))
            connection.send(post(LARGE, "Content-Encoding: gzip", "Content-Type: application/json"))
            unread.append(connection)
        end = time.monotonic() + 10
        most = 0.0
        while time.monotonic() < end and most <= WORK_BYTES:
            most = max(most, metric(server, "assay_unread_reply_bytes"))
        assert most > WORK_BYTES
        assert most < WORK_BYTES + 8 * (5 << 20)  # plus one reply per thread
        with server.client() as client:  # clients that read are served once the others are disconnected
            assert client.post("/v1/score", json=REQUEST).json()["rewards"] == pytest.approx(REWARDS)
            body = json.dumps(REQUEST | {"responses": REQUEST["responses"] * 1_000, "reference_index": [0] * 3_000})
            reply = client.post("/v1/score", content=body, headers={"content-type": "application/json"})
        assert reply.status_code == 200
        assert len(reply.json()["rewards"]) == 3_000
    end = time.monotonic() + 30
    while metric(server, "assay_unread_reply_bytes") or metric(server, "assay_work_bytes"):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert metric(server, 'assay_rejections_total{reason="too_slow"}') > 0
