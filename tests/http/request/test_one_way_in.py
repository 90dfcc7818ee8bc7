"""All routes that take a body read it by the same rules."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
import zstandard

from assay.service.config import Config, ServerSettings
from assay.service.http.app import create_app
from assay.service.http.request.intake import Intake
from assay.service.http.routes import MAX_QUEUE_SECONDS, DirectRoute, is_below
from tests.http.process.watching import comes_to
from tests.http.raw_connection import RawConnection, head
from tests.http.samples import paths_with_bodies, problem_of
from tests.servers import LiveServer, ready, running, wait_for

pytestmark = pytest.mark.attack

MAX_BODY_BYTES = 1 << 20


PATHS = paths_with_bodies()
PATIENT = [path for path in PATHS if any(is_below(path, base) for base in MAX_QUEUE_SECONDS)]


@pytest.fixture(scope="module")
def small_server() -> Iterator[LiveServer]:
    """Start a server with one key and a body limit of 1 MiB."""
    flags = ("--max-body-bytes", str(MAX_BODY_BYTES), "--max-work-bytes", str(2 * MAX_BODY_BYTES))
    with ready(*flags, "--max-queued-bytes", "0", environ={"ASSAY_API_KEYS": "k"}) as server:
        yield server


@pytest.fixture(scope="module")
def keyed(small_server: LiveServer) -> Iterator[httpx.Client]:
    with small_server.client(headers={"authorization": "Bearer k", "content-type": "application/json"}) as client:
        yield client


def test_every_route_with_a_body_has_an_intake_and_no_other_has():
    app = create_app(Config())
    app_routes: list[Any] = app.routes
    routes = {(route.path, method): route for route in app_routes for method in route.methods}
    assert all(isinstance(route, DirectRoute) for route in routes.values())
    taking = {path for (path, method), route in routes.items() if isinstance(route.intake, Intake) and method != "GET"}
    assert taking == set(PATHS) == {path for path, method in routes if method in ("POST", "PUT", "PATCH", "DELETE")}


@pytest.mark.parametrize("path", PATHS)
def test_a_body_over_the_limit_is_refused_before_it_is_sent(small_server, path):
    with RawConnection(small_server.url) as connection:
        connection.send(head(f"Content-Length: {MAX_BODY_BYTES + 1}", "Authorization: Bearer k", path=path))
        reply = connection.reply()
    assert reply.status == 413
    assert reply.json()["errors"][0]["reason"] == "too_large"


ZEROS, SPACES = bytes(8 * MAX_BODY_BYTES), b" " * (MAX_BODY_BYTES - 2)
REFUSALS: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "gzip over the limit": (413, gzip.compress(ZEROS), {"content-encoding": "gzip"}),
    "zstd over the limit": (413, zstandard.compress(ZEROS), {"content-encoding": "zstd"}),
    "frames over the limit": (413, zstandard.compress(SPACES) * 3, {"content-encoding": "zstd"}),
    "a damaged stream": (400, zlib.compress(b"{}"), {"content-encoding": "gzip"}),
    "another encoding": (415, b"{}", {"content-encoding": "br"}),
    "another media type": (415, b"{}", {"content-type": "text/csv"}),
    "another charset": (415, b"{}", {"content-type": "application/json; charset=latin-1"}),
    "a deadline that has passed": (504, b"{}", {"x-request-timeout": "0.000001"}),
    "an invalid deadline": (422, b"{}", {"x-request-timeout": "soon"}),
    "another key": (401, b"{}", {"authorization": "Bearer other"}),
}


@pytest.mark.parametrize("path", PATHS)
def test_every_route_refuses_the_same_requests(keyed, client, path):
    for name, (status, body, headers) in REFUSALS.items():
        reply = keyed.post(path, content=body, headers=headers)
        assert problem_of(reply, status), name
    if path != "/v1/score":
        problem_of(keyed.post(path, content=b"", headers={"content-type": "application/vnd.apache.arrow.stream"}), 415)
    pieces = (b" " * (1 << 16) for _ in range(2 * MAX_BODY_BYTES >> 16))
    problem_of(keyed.post(path, content=pieces), 413)
    body = zstandard.compress(b'{"x":"' + b" " * (2 << 20) + b'"}')
    headers = {"content-encoding": "zstd", "content-type": "application/json"}
    document = problem_of(client.post(path, content=body, headers=headers), 413)
    assert "times its compressed size" in document["detail"]


@pytest.mark.parametrize("path", PATHS)
def test_a_batch_is_charged_as_it_arrives_and_its_permit_is_returned(small_server, keyed, path):
    unfinished = head(f"Content-Length: {MAX_BODY_BYTES}", "Authorization: Bearer k") + b" " * (MAX_BODY_BYTES - 1)
    with ExitStack() as stack:
        for number in range(1, 4):  # the third one exceeds the budget, so that one body at least can be complete
            time.sleep(0.3)  # until nothing more is expected of the others
            stack.enter_context(RawConnection(small_server.url)).send(unfinished)
            assert comes_to(small_server, work_bytes=number * (MAX_BODY_BYTES - 1))
        body = b" " * (1 << 17)
        if path in PATIENT:
            problem_of(keyed.post(path, content=body, headers={"x-request-timeout": "0.2"}), 504)
        else:
            reply = keyed.post(path, content=body)
            problem_of(reply, 429)
            assert int(reply.headers["retry-after"]) >= 1
    assert comes_to(small_server, work_bytes=0)
    problem_of(keyed.post(path, content=body), 400)
    assert comes_to(small_server, work_bytes=0)


def test_a_batch_is_refused_close_to_the_memory_ceiling():
    app = create_app(Config(server=ServerSettings(inline_bytes=1_000)))
    service = app.state.service
    with running(app) as client:
        wait_for(client, "/readyz", 200)
        for count, path in enumerate(sorted(set(PATHS) - set(PATIENT)), 1):
            service.admission.resident.limit = 1
            reply = client.post(path, json={"x": "y" * 2_000})
            document = problem_of(reply, 429)
            assert document["type"].endswith("memory-full")
            assert int(reply.headers["retry-after"]) >= 1
            assert client.post(path, json={}).status_code in (200, 422)  # short bodies are not refused
            assert f'assay_rejections_total{{reason="memory_full"}} {count}.0' in client.get("/metrics").text
            service.admission.resident.limit = 1 << 60
            assert client.post(path, json={"x": "y" * 2_000}).status_code == 422
