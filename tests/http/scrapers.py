"""A process with clients that ask for /metrics again as soon as they have it: `scrapers.py URL CLIENTS`."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit


@contextmanager
def scraping(url: str, clients: int) -> Iterator[None]:
    """Run such a process, in which every client has had a reply."""
    process = subprocess.Popen([sys.executable, __file__, url, str(clients)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.read(clients) == b"." * clients
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def scrape(url: str) -> None:
    connection = HTTPConnection(urlsplit(url).netloc)
    began = False
    while True:
        connection.request("GET", "/metrics")
        reply = connection.getresponse()
        reply.read()
        if not began:
            print(end="." if reply.status == 200 else "x", flush=True)
        began = True


if __name__ == "__main__":
    for _ in range(int(sys.argv[2])):
        threading.Thread(target=scrape, args=(sys.argv[1],)).start()
