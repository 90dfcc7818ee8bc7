"""The application in a thread of this process, for tests that reach inside."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn

from assay.service.http.app import Application


@contextmanager
def running(app: Application) -> Iterator[httpx.Client]:
    """A client of `app` behind uvicorn on a free loopback port."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="on", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def wait_for(client: httpx.Client, path: str, status: int) -> httpx.Response:
    """The first reply with this status."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        reply = client.get(path)
        if reply.status_code == status:
            return reply
        time.sleep(0.01)
    raise AssertionError(f"{path} has not answered {status}: {reply.text}")
