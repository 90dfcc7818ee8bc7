"""The self-test of the server itself: one long body through a connection and back.

Connections are uvicorn's with parts that only Assay has, which use private names of uvicorn (`protocol.py`). Under a
uvicorn that has changed there, single requests can work while every batch is read wrong.
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
"""128 KiB of which no two pieces are alike; uvicorn hands over 64 KiB at most at once."""

SECONDS = 30.0
"""Time for the whole exchange, which takes a few milliseconds."""


class Echo:
    """An application that gathers the request's body as a whole and sends it back."""

    def __init__(self) -> None:
        self.gathering = asyncio.Event()
        """Set once the application waits for the body."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: GuardedProtocol = scope[CONNECTION]
        body = connection.collect(send)
        self.gathering.set()
        assert body is not None
        assert not (await receive())["body"]
        connection.send_whole(send, 200, [], bytes(body))


def check_protocol(protocol: type[GuardedProtocol]) -> None:
    """Send a long body through a connection of this class, on an event loop of its own.

    Raises SelfTestFailed where the same bytes do not come back.
    """
    app = Echo()
    guard = replace(protocol.guard, max_descriptor=sys.maxsize)  # however many connections there are already
    tested = type("Tested", (protocol,), {"guard": guard})
    config = uvicorn.Config(app, http=tested, loop="uvloop", ws="none", log_config=None, access_log=False)
    config.load()
    try:
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            reply = runner.run(asyncio.wait_for(exchanged(tested, config, app), SECONDS))
    except Exception as error:  # of whatever kind: with it no body would arrive
        raise SelfTestFailed(f"{blamed()}: {type(error).__name__} {error}".strip()) from error
    if reply != BODY:
        raise SelfTestFailed(f"{blamed()}: {len(reply)} bytes came back, which are not the {len(BODY)} of the body")


def blamed() -> str:
    return f"self-test of the server on uvicorn {uvicorn.__version__}"


async def exchanged(protocol: type[GuardedProtocol], config: uvicorn.Config, app: Echo) -> bytes:
    """Send the head, the body once the application waits for it, and return the body of the reply."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    state = uvicorn.server.ServerState()
    await loop.connect_accepted_socket(lambda: protocol(config, state, {}, loop), theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(b"POST / HTTP/1.1\r\nHost: self-test\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY))
    await app.gathering.wait()
    writer.write(BODY)
    await reader.readuntil(b"\r\n\r\n")
    reply = await reader.read()
    writer.close()
    return reply
