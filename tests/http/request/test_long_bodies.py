"""Long bodies, most of which bypass uvicorn's parser: they arrive as they were sent, in pieces of any size."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.config import ServerSettings
from assay.service.http.process.connection import RestOfBody
from assay.service.http.request.admission import Admission
from assay.service.http.request.exchange import ClientGone, Exchange
from assay.service.http.request.intake import LONG_REST, Intake
from assay.service.http.request.readiness import Readiness
from assay.service.wire.problems import Problem
from tests.http.raw_connection import chunked, head, open_connection, post
from tests.strategies import examples

LONG = random.Random(0).randbytes(300_000)
SHORT = b"{}"


class Receiver:
    """An application that answers the digest of a body, and remembers what became of each request."""

    def __init__(self) -> None:
        self.admission = Admission(ServerSettings())
        readiness = Readiness()
        readiness.obstacle, readiness.starting = None, False
        self.intake = Intake(ServerSettings(), readiness, self.admission)
        self.readiness = readiness
        self.outcomes: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        exchange = Exchange(scope, receive, send, self.readiness, self.admission)
        try:
            body = (await self.intake.take(exchange)).data
            self.outcomes.append(hashlib.sha256(body).hexdigest())
            await exchange.reply(self.outcomes[-1].encode())
        except Problem as problem:
            self.outcomes.append(problem.kind)
            await exchange.reply_problem(problem)
        except ClientGone:
            self.outcomes.append("gone")
        finally:
            if exchange.permit is not None:
                exchange.permit.release()


class Sent:
    """What became of data that was sent in pieces: the outcomes, the rests of bodies, and the connection."""

    def __init__(self, receiver: Receiver, rests: list[RestOfBody], protocol: Any) -> None:
        self.outcomes = receiver.outcomes
        self.rests = rests
        self.in_use = receiver.admission.in_use
        self.closing = protocol.transport.is_closing()


def send(data: bytes, sizes: Sequence[int], *, seconds: float = 0.0, abort: bool = False) -> Sent:
    """Send `data` in pieces of `sizes`, over and over; wait `seconds` before the last piece."""

    async def sending() -> Sent:
        receiver, rests = Receiver(), []
        protocol, ours = await open_connection(receiver, [])
        divert = protocol.divert

        def observed(*arguments: Any) -> RestOfBody | None:
            rest = divert(*arguments)
            rests.extend([] if rest is None else [rest])
            return rest

        protocol.divert = observed
        with ours:
            start, k = 0, 0
            while start < len(data):
                for _ in range(200):
                    if not protocol.flow.read_paused:
                        break
                    await asyncio.sleep(0)
                stop = start + sizes[k % len(sizes)]
                if stop >= len(data):
                    await asyncio.sleep(seconds)
                protocol.data_received(data[start:stop])
                start, k = stop, k + 1
                await asyncio.sleep(0)
            if abort:
                protocol.transport.abort()
            for _ in range(50):
                await asyncio.sleep(0.001 if protocol.tasks else 0)
            sent = Sent(receiver, rests, protocol)
            protocol.transport.abort()
            for task in list(protocol.tasks):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        return sent

    return asyncio.run(sending())


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@given(sizes=st.lists(st.one_of(st.integers(1, 300), st.integers(1, 200_000)), min_size=1, max_size=8))
@examples(20)
def test_pieces_of_any_size(sizes):
    sizes = [max(size, 40) if max(sizes) < 2_000 else size for size in sizes]  # or it would take too long
    sent = send(post(LONG) + post(SHORT) + post(LONG[::-1]), sizes)
    assert sent.outcomes == [digest(LONG), digest(SHORT), digest(LONG[::-1])]
    assert sent.rests
    assert all(rest.left == 0 and rest.body is None for rest in sent.rests)
    assert sent.in_use == 0


@pytest.mark.parametrize("size", [LONG_REST // 2, LONG_REST, LONG_REST + 1, 200_000])
def test_one_piece_ends_the_body_and_begins_the_next_request(size):
    first = len(post(LONG)) - size
    sent = send(post(LONG) + post(SHORT), [first, size + 30, 1000])
    assert sent.outcomes == [digest(LONG), digest(SHORT)]
    assert len(sent.rests) == (size >= LONG_REST)


def test_chunks_are_parsed():
    pieces = [LONG[start : start + 70_000] for start in range(0, len(LONG), 70_000)]
    sent = send(head("Transfer-Encoding: chunked") + chunked(pieces) + post(SHORT), [50_000])
    assert sent.outcomes == [digest(LONG), digest(SHORT)]
    assert not sent.rests


def test_more_than_was_announced():
    """What follows is the next request, and not HTTP."""
    sent = send(post(LONG) + LONG[:100], [100_000])
    assert sent.outcomes == [digest(LONG)]
    assert sent.rests


def test_less_than_was_announced():
    sent = send(post(LONG)[:-1], [100_000], abort=True)
    assert sent.outcomes == ["gone"]
    assert [rest.body for rest in sent.rests] == [None]
    assert sent.in_use == 0


def test_what_arrives_after_a_refusal_is_dropped_and_the_connection_goes_on():
    late = head(f"Content-Length: {len(LONG)}", "X-Request-Timeout: 0.05") + LONG
    sent = send(late + post(SHORT), [150_000, 20_000, len(late)], seconds=0.2)
    assert sent.outcomes == ["deadline", digest(SHORT)]
    assert [rest.body for rest in sent.rests] == [None]
    assert not sent.closing
    assert sent.in_use == 0


def test_the_body_grows_as_it_arrives():
    """Announcing a body takes no memory."""
    announced = head("Content-Length: 60000000") + LONG
    sizes: list[int] = []
    receive = RestOfBody.receive

    def observed(rest: RestOfBody, data: bytes) -> bytes:
        following = receive(rest, data)
        sizes.append(len(rest.body or b""))
        return following

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RestOfBody, "receive", observed)
        assert send(announced, [100_000], abort=True).outcomes == ["gone"]
    assert sizes[-1] == len(LONG)
