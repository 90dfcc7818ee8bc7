"""Bodies that would run code if anything deserialized them, sent under the timings that once made a service do so.

A job that is abandoned while the next process starts is the moment in which one request's bytes could reach another's
process: short time-outs, many kinds of jobs, and batches that keep the processors busy.
"""

from __future__ import annotations

import itertools
import marshal
import pickle
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import orjson

from examples.rollouts import as_request, generate
from tests.http.samples import paths_with_bodies
from tests.servers import LiveServer

__all__ = ["ROUTES", "hostile_bodies", "storm"]

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
