"""A process with clients that ask for /metrics again as soon as they have it: `scrapers.py URL CLIENTS`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def scraping(url: str, clients: int) -> Iterator[None]:
    """Run such a process, in which every client has had a reply."""
    process = subprocess.Popen([sys.executable, __file__, url, str(clients)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"all have had a reply\n"
        yield
        assert process.poll() is None  # no reply was anything but 200
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def scrape(url: str, first: asyncio.Barrier) -> None:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1 << 20)
    began = False
    while True:
        writer.write(REQUEST)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert head.startswith("http/1.1 200 "), head
        await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r")[0]))
        if not began:
            await first.wait()
        began = True


async def main(url: str, clients: int) -> None:
    first = asyncio.Barrier(clients + 1)
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(scrape(url, first))
        await first.wait()
        print("all have had a reply", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
