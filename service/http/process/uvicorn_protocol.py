"""The private names of uvicorn's HTTP protocol that the service uses, under public names.

No other module uses private names of uvicorn. `tests/http/process/test_uvicorn_names.py` lists the names that a version
of uvicorn lacks or has changed, and pyproject.toml excludes versions that have not been tested.
"""

from __future__ import annotations

from starlette.types import Receive, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ..request.exchange import CONNECTION

MAX_JOINED = 1 << 16
"""Bytes of a body that is copied after its head, so that one write sends both."""


class UvicornProtocol(HttpToolsProtocol):
    """uvicorn's protocol: the state of a connection and of its latest request."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.scope is not None:  # break the cycle, so that the garbage collector need not find it
            self.scope.pop(CONNECTION, None)  # type: ignore[misc]

    def close_after_reply(self) -> None:
        """Close the connection once all has been answered; called after a reply with `Connection: close`."""
        raise NotImplementedError

    half_closed = False
    """True if the client has closed its sending side and waits for a reply."""

    def has_disconnected(self) -> bool:
        """Return whether the client has disconnected, not only closed its sending side."""
        raise NotImplementedError

    # Parsing

    def feed(self, data: bytes) -> None:
        self.parser.feed_data(data)

    @property
    def http_version(self) -> str:
        return self.parser.get_http_version()

    @property
    def request_headers(self) -> list[tuple[bytes, bytes]]:
        return self.headers

    @property
    def request_target(self) -> bytes:
        return self.url

    # The latest request

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if not self.parser.should_keep_alive():
            self.cycle.keep_alive = False  # uvicorn before 0.53 checks it only in its own `send`

    @property
    def answered(self) -> bool:
        """True unless a request is in work or waits."""
        return self.cycle is None or self.cycle.response_complete

    def keep_alive_no_longer(self) -> None:
        if self.cycle is not None:
            self.cycle.keep_alive = False

    @staticmethod
    def has_message(receive: Receive) -> bool:
        """Return whether the `receive` of a request returns at once, because a part of the body has arrived."""
        cycle = getattr(receive, "__self__", None)
        return isinstance(cycle, RequestResponseCycle) and cycle.message_event.is_set()

    def abandon_request(self) -> None:
        """Drop the reply to the latest request, and tell its endpoint that the client has disconnected."""
        self.cycle.disconnected = True
        self.cycle.waiting_for_100_continue = False
        self.cycle.message_event.set()

    # Pipelined requests

    @property
    def pipelined(self) -> int:
        """Requests that wait for earlier ones."""
        return len(self.pipeline)

    def drop_waiting_request(self) -> bool:
        """Drop the latest request if it waits for earlier ones; return whether it did."""
        waits = bool(self.pipeline) and self.pipeline[0][0] is self.cycle
        if waits:
            self.pipeline.popleft()
        return waits

    # Flow

    @property
    def write_paused(self) -> bool:
        """True while bytes that were written are unsent."""
        return self.flow.write_paused

    async def drain(self) -> None:
        """Wait until all that was written is sent, or the client has disconnected."""
        await self.flow.drain()

    def pause_reading(self) -> None:
        self.flow.pause_reading()

    def resume_reading(self) -> None:
        self.flow.resume_reading()

    def stop_idle_timer(self) -> None:
        self._unset_keepalive_if_required()

    # Sending

    def send_whole(
        self, send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes, waited: bool
    ) -> bool:
        """Write a reply with one call instead of two messages; return False if the client has disconnected.

        Only if the request has `waited`, or the client has half-closed, the kernel is asked, which takes microseconds.

        `send` belongs to the request's cycle, which afterwards is in the same state as after a call of `send`. Two
        messages, and the two small writes that follow from them, make a request with one response a sixth slower
        (docs/decisions/uvicorn-protocol-extended.md).
        """
        cycle = send.__self__  # type: ignore[attr-defined]
        assert isinstance(cycle, RequestResponseCycle)
        transport = self.transport
        if cycle.disconnected or cycle.response_started:
            return False
        if transport.is_closing() or ((waited or self.half_closed) and self.has_disconnected()):
            cycle.disconnected = True  # uvicorn reports it only to the latest request
            transport.abort()
            return False
        lines = [STATUS_LINE[status]]
        closing = False
        for name, value in (*cycle.default_headers, *headers):
            closing = closing or name == b"connection"
            lines += (name, b": ", value, b"\r\n")
        if not cycle.keep_alive and not closing:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        if cycle.scope["method"] == "HEAD":
            body = b""
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = cycle.chunked_encoding = False
        cycle.keep_alive = cycle.keep_alive and not closing
        if len(body) > MAX_JOINED:
            transport.writelines((b"".join(lines), body))
        else:
            lines.append(body)
            transport.write(b"".join(lines))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.close_after_reply()
        cycle.on_response()
        return True
