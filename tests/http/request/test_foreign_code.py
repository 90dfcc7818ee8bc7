"""Nothing that a request contains is executed.

Bodies that would run code if anything deserialized them are sent under the timings that once made a service do so. A
job that is abandoned while the next process starts is the moment in which one request's bytes could reach another's
process: short time-outs, many kinds of jobs, and batches that keep the processors busy.
"""

from __future__ import annotations

import ast
import itertools
import marshal
import os
import pickle
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from assay.service.http.process.template import JOBS
from examples.rollouts import as_request, generate
from tests.http.samples import paths_with_bodies
from tests.servers import LiveServer

ROOT = Path(__file__).resolve().parents[3]
EXECUTING = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "multiprocessing", "pebble", "joblib"}
"""Modules that execute what they deserialize, or pass objects between processes with one that does."""


@pytest.mark.attack
def test_no_module_of_the_service_imports_what_executes_bytes() -> None:
    """Look for a deserializer that could be given a body by mistake."""
    imported = [
        (path.relative_to(ROOT).as_posix(), name)
        for folder in ("service", "research", "loadtests", "clients")
        for path in (ROOT / folder).rglob("*.py")
        if not path.is_relative_to(ROOT / "service" / "ray")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in names_of(node)
        if name.partition(".")[0] in EXECUTING
    ]
    assert imported == []


def names_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""] if not node.level else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute) and node.args:
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        first = node.args[0]
        if name in ("import_module", "__import__") and isinstance(first, ast.Constant):
            return [str(first.value)]
    return []


def test_the_table_of_jobs_is_closed() -> None:
    assert sorted(JOBS) == ["aggregate", "evaluate", "explain", "reward"]


ROUTES = paths_with_bodies()

TIMEOUTS = (0.04, 0.02, 0.01, 0.005, 0.04, 0.08, 0.003)
"""Seconds, so that jobs are abandoned in every stage, whatever the machine."""

TEXTS = [f"word{k} pellet {'lysate ' * (k % 50)}" for k in range(40)]


class Payload:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"import os; os.makedirs({str(self.path)!r}, exist_ok=True)",)


def hostile_bodies(path: Path) -> list[bytes]:
    """Return pickles of every protocol that make the folder `path`, as they are and behind what a reader may skip."""
    pickles = [pickle.dumps(Payload(path), protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    code = compile(f"import os; os.makedirs({str(path)!r}, exist_ok=True)", "x", "exec")
    return [*pickles, *(bytes(8) + body for body in pickles), marshal.dumps(code)]


def lexical(offset: int) -> bytes:
    """Return a request whose rewards differ for each offset."""
    texts = TEXTS[offset:] + TEXTS[:offset]
    config = {"reward": "rouge_l"}
    return orjson.dumps({"task": "lexical", "responses": TEXTS, "references": texts, "config": config})


def storm(server: LiveServer, path: Path, seconds: float) -> Counter[str]:
    """Attack for some seconds; return counts of replies by status, of connections that failed, and of wrong rewards."""
    counts: Counter[str] = Counter()
    bodies = hostile_bodies(path)
    with server.client() as client:
        right = {offset: client.post("/v1/score", content=lexical(offset)).json()["rewards"] for offset in range(3)}
    batch = orjson.dumps(as_request(generate(128, 5, 7)))
    end = time.monotonic() + seconds

    def send(client: httpx.Client, route: str, body: bytes, timeout: float) -> httpx.Response | None:
        headers = {"content-type": "application/json", "x-request-timeout": str(timeout)}
        try:
            reply = client.post(route, content=body, headers=headers)
        except httpx.TransportError:
            counts["failed"] += 1
            return None
        counts[str(reply.status_code)] += 1
        return reply

    def abandon(_number: int) -> None:
        """Ask for rewards of another task that are ready too late, most of them; check those that are in time."""
        with server.client() as client:
            for offset, timeout in zip(itertools.cycle(range(3)), itertools.cycle(TIMEOUTS), strict=False):
                if time.monotonic() > end:
                    return
                reply = send(client, "/v1/score", lexical(offset), timeout)
                if reply is not None and reply.status_code == 200 and reply.json()["rewards"] != right[offset]:
                    counts["wrong"] += 1

    def deliver(number: int) -> None:
        """Send hostile bodies: most to evaluations, which pass their bodies to a process."""
        with server.client() as client:
            for k in itertools.count(number):
                if time.monotonic() > end:
                    return
                route = "/v1/evaluate" if k % 8 else ROUTES[k // 8 % len(ROUTES)]
                send(client, route, bodies[k // 4 % len(bodies)], 0.15)

    def load(_number: int) -> None:
        with server.client() as client:
            while time.monotonic() < end:
                send(client, "/v1/score", batch, 30)

    work = [(abandon, 0), (abandon, 1), *((deliver, k) for k in range(4)), (load, 0), (load, 1), (load, 2)]
    threads = [threading.Thread(target=target, args=(number,)) for target, number in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


@pytest.mark.attack
@pytest.mark.parametrize("route", ROUTES)
def test_pickles_of_every_protocol_are_not_json(client, route: str, tmp_path: Path) -> None:
    """Send bodies that would make a folder if they were unpickled."""
    target = tmp_path / "made"
    for body in hostile_bodies(target):
        for headers in ({}, {"content-type": "application/json"}, {"x-request-timeout": "0.001"}):
            reply = client.post(route, content=body, headers=headers)
            assert reply.status_code in (400, 422, 504), reply.text
    assert not target.exists()


@pytest.mark.attack
def test_abandoned_jobs_never_read_the_bytes_of_others(fresh_server, tmp_path: Path) -> None:
    """Abandon jobs all the time while others send pickles, so that a process may meet another request's descriptor."""
    counts = storm(fresh_server, tmp_path / "made", float(os.environ.get("ATTACK_SECONDS", "6")))
    assert not (tmp_path / "made").exists()
    assert counts["wrong"] == counts["failed"] == counts["500"] == 0, counts
    assert counts["504"] > 10, counts
    assert counts["400"] > 10, counts
    assert counts["200"] > 3, counts
