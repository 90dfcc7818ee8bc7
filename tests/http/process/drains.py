"""Clients without retries during the shutdown of a server."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from http.client import HTTPConnection
from urllib.parse import urlsplit

from tests.http.samples import REQUEST
from tests.servers import LiveServer, launched

BODY = json.dumps(REQUEST).encode()
UNREACHABLE = (ConnectionRefusedError, FileNotFoundError)
BEFORE_SECONDS = 0.3


class Connection(HTTPConnection):
    """A connection to a server, by its port or by the path of its socket."""

    def __init__(self, url: str) -> None:
        super().__init__(urlsplit(url).netloc or "assay", timeout=30)
        self._path = url.removeprefix("unix:") if url.startswith("unix:") else None

    def connect(self) -> None:
        if self._path is None:
            super().connect()
        else:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)


class Drain:
    """One drain under load; `answered` and `lost` are the outcomes of requests on established connections."""

    def __init__(self, server: LiveServer, clients: int) -> None:
        self.answered = 0
        self.lost: list[str] = []
        self._server = server
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._client, args=(k % 2 == 0,)) for k in range(clients)]

    def run(self) -> int:
        """Run the drain; return the exit code of the server."""
        for thread in self._threads:
            thread.start()
        time.sleep(BEFORE_SECONDS)
        self._server.process.send_signal(signal.SIGTERM)
        code = self._server.process.wait(60)
        for thread in self._threads:
            thread.join()
        return code

    def _client(self, keeps: bool) -> None:
        """Send requests until the server is unreachable, on one connection if possible."""
        connection = Connection(self._server.url)
        while True:
            try:
                if connection.sock is None:
                    connection.connect()
            except UNREACHABLE:
                connection.close()
                return
            try:
                connection.request("POST", "/v1/score", BODY, {"Content-Type": "application/json"})
                reply = connection.getresponse()
                reply.read()
                found = "" if reply.status == 200 else str(reply.status)
            except OSError as error:
                found = repr(error)
                connection.close()
            if not keeps:
                connection.close()
            with self._lock:
                self.answered += not found
                self.lost += [found] if found else []


def drains(number: int, clients: int, *flags: str) -> list[Drain]:
    """Run `number` drains of a server with these flags; each must end with exit code 0."""
    found = []
    for _ in range(number):
        with launched("--drain-seconds", "0.3", *flags) as server:
            server.wait_until_ready()
            while "--workers" in flags and server.log.count("is ready") < 2:
                time.sleep(0.05)
            drain = Drain(server, clients)
            assert drain.run() == 0
            assert "Traceback" not in server.log
            found.append(drain)
    return found
