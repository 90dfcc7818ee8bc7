"""Replies: each is bounded for the length of its request, and all together by `max_work_bytes`."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from assay.service.wire.reply_bounds import FREE_REPLY_BYTES, REPLY_BYTES
from tests.http.limits.posting import connected
from tests.http.process.watching import comes_to, resident
from tests.http.raw_connection import RawConnection, post
from tests.http.samples import ADD, PERFECT, REFERENCE
from tests.http.wire.test_reply_bounds import steps_of
from tests.servers import ready

pytestmark = [
    pytest.mark.attack,
    pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is read from /proc"),
]

WORK_BYTES = 64 << 20
CEILING = (400 << 20) + 6 * WORK_BYTES
"""What docs/size.md promises."""


@pytest.fixture(scope="module")
def server():
    with ready("--max-work-bytes", str(WORK_BYTES)) as server:
        yield server
        assert "Traceback" not in server.log


def score(rows: int, configs: int, include: list[str], response: str = steps_of(1024)) -> bytes:
    request: dict[str, Any] = {"references": [REFERENCE], "responses": [response] * rows, "include": include}
    if configs:
        request["configs"] = [{"position_decay": 1 + k / 1000} for k in range(configs)]
    return json.dumps(request).encode()


def explanation(key: str, prose: str) -> bytes:
    step = f'Step 1: {{"action": "a", "objects": [], "parameters": ["{key}"]}}'
    response = f"<think></think><key>{step}</key><orc>Step 1: a {prose}</orc><note></note>"
    return json.dumps({"response": response, "reference": step, "suggestions": 20}).encode()


def evaluation(task: str, **record: object) -> bytes:
    options = {"by": ["type"]} if task == "score" else {}
    records = [record | {"type": f"t{k}"} if task == "score" else record for k in range(3_000)]
    return json.dumps({"task": task, "records": records, "options": options}).encode()


BODIES: dict[str, tuple[str, Callable[[], bytes], tuple[int, ...]]] = {
    "steps under 64 configurations": ("/v1/score", lambda: score(4, 64, ["steps"]), (413,)),
    "steps under 12 configurations": ("/v1/score", lambda: score(4, 12, ["steps", "components"]), (200,)),
    "empty responses": ("/v1/score", lambda: score(1_000, 64, ["components"], ""), (413,)),
    "an explanation with a mark for each letter": ("/v1/explain", lambda: explanation("a", "a " * 30_000), (200,)),
    "an explanation with many words in each mark": (
        "/v1/explain",
        lambda: explanation(" ".join("a" * k for k in range(1, 200)), " ".join(["a" * 200] * 300)),
        (200,),
    ),
    "an evaluation of empty records": ("/v1/evaluate", lambda: evaluation("score", response="", reference=""), (200,)),
    "an evaluation by many types": (
        "/v1/evaluate",
        lambda: evaluation("score", response=PERFECT, reference=f"Step 1: {ADD}"),
        (200,),
    ),
    "an evaluation of words": ("/v1/evaluate", lambda: evaluation("lexical", response="a", reference="b"), (200, 413)),
}


@pytest.mark.parametrize("name", BODIES)
def test_no_reply_is_longer_than_its_request_allows(server, name):
    path, body_of, statuses = BODIES[name]
    body = body_of()
    with connected(server.url) as connection:
        status, reply = connection.send("POST", path, body)
    print(f"{name}: {len(body)} bytes, {status}, {len(reply)} bytes")
    assert status in statuses, reply[:300]
    assert len(reply) <= FREE_REPLY_BYTES + REPLY_BYTES * len(body)
    if path == "/v1/explain":
        assert json.loads(reply)["left_out"]["marks"] > 0


MIX = (
    score(10, 16, ["steps", "components"]),
    score(100, 0, ["steps"]),
    score(20, 17, ["steps"]),
    score(8_000, 7, ["components"], "x" * 150),
    explanation("a", "a " * 30_000),
)


@pytest.mark.slow
def test_memory_stays_under_its_ceiling_for_any_mix_of_replies(server):
    """Clients that never read, beside clients that do."""
    process, statuses, ended = server.process.pid, Counter[int](), threading.Event()
    most = 0

    def read(body: bytes) -> None:
        path = "/v1/explain" if b"suggestions" in body[-40:] else "/v1/score"
        while not ended.is_set():
            with connected(server.url) as connection:
                statuses[connection.send("POST", path, body)[0]] += 1

    readers = [threading.Thread(target=read, args=(body,)) for body in MIX]
    with ExitStack() as stack:
        for body in [*MIX[:3]] * 4:
            connection = stack.enter_context(RawConnection(server.url))
            connection.send(post(body))
        for reader in readers:
            reader.start()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            most = max(most, resident(process))
            time.sleep(0.02)
        ended.set()
        for reader in readers:
            reader.join()
    print(f"{most >> 20} MiB of {CEILING >> 20}: {statuses}")
    assert most < CEILING
    assert statuses[200] > 0
    assert set(statuses) <= {200, 429, 504}
    assert comes_to(server, 30, unread_reply_bytes=0, work_bytes=0)
