"""Self-test of the server: sends a long body through a connection and back.

`connection.py` uses private names of uvicorn. If a uvicorn release changes them, single requests may work while every
batch is read wrong.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from dataclasses import replace

import uvicorn
from starlette.types import Receive, Scope, Send

from ...scoring.self_test import SelfTestFailed
from ..request.exchange import CONNECTION
from .connection import GuardedProtocol

__all__ = ["BODY", "check_protocol"]

BODY = b"".join(b"%08x" % k for k in range(1 << 14))
"""128 KiB without repetition; uvicorn passes on at most 64 KiB at once."""

SECONDS = 30.0
"""Timeout of the exchange, which takes a few milliseconds."""


class Echo:
    """An application that collects the request body as a whole and sends it back."""

    def __init__(self) -> None:
        self.collecting = asyncio.Event()
        """Set once the application waits for the body."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: GuardedProtocol = scope[CONNECTION]
        body = connection.collect(send)
        self.collecting.set()
        assert body is not None
        assert not (await receive())["body"]
        connection.send_whole(send, 200, [], bytes(body))


def check_protocol(protocol: type[GuardedProtocol]) -> None:
    """Send a long body through a connection of this class, on a separate event loop.

    Raises SelfTestFailed if the reply differs.
    """
    app = Echo()
    guard = replace(protocol.guard, max_descriptor=sys.maxsize)  # however many connections are open
    tested = type("Tested", (protocol,), {"guard": guard})
    config = uvicorn.Config(app, http=tested, loop="uvloop", ws="none", log_config=None, access_log=False)
    config.load()
    try:
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            reply = runner.run(asyncio.wait_for(exchange(tested, config, app), SECONDS))
    except Exception as error:  # any error means that bodies do not arrive
        raise SelfTestFailed(f"{self_test_name()}: {type(error).__name__} {error}".strip()) from error
    if reply != BODY:
        raise SelfTestFailed(f"{self_test_name()}: {len(reply)} bytes came back, not the {len(BODY)} sent")


def self_test_name() -> str:
    return f"self-test of the server on uvicorn {uvicorn.__version__}"


async def exchange(protocol: type[GuardedProtocol], config: uvicorn.Config, app: Echo) -> bytes:
    """Send the head, then the body once the application waits for it; return the body of the reply."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    state = uvicorn.server.ServerState()
    await loop.connect_accepted_socket(lambda: protocol(config, state, {}, loop), theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(b"POST / HTTP/1.1\r\nHost: self-test\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY))
    await app.collecting.wait()
    writer.write(BODY)
    await reader.readuntil(b"\r\n\r\n")
    reply = await reader.read()
    writer.close()
    return reply
