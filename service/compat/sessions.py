"""What a resources server of NeMo Gym answers besides rewards: that it is there, and sessions, which hold nothing."""

from __future__ import annotations

from functools import partial

from ..asgi import Exchange
from ..body import decompress
from ..codec import Limits
from .document import Document, Names
from .trainer_route import body_of_trainer, until_ready

__all__ = ["alive", "seed"]

ALIVE = b'{"status":"ok"}'
NO_STATE = b"{}"
NO_NAMES = Names()


async def alive(exchange: Exchange) -> None:
    """200 once there can be rewards: who waits for this server must not send its first rollout too early."""
    exchange.service.readiness.check()
    await exchange.reply(ALIVE)


async def seed(exchange: Exchange) -> None:
    """Begin a rollout, whatever its row: nothing is kept between requests, so there is nothing to begin."""
    service = exchange.service
    deadline = await until_ready(exchange)
    body, encoding = await body_of_trainer(exchange, deadline)
    deadline.check()
    if encoding or len(body) >= service.config.server.inline_bytes:
        await service.workers.run(partial(check, body, encoding, service.limits), exchange, deadline)
    elif body:
        check(body, encoding, service.limits)
    await exchange.reply(NO_STATE)


def check(body: bytes | bytearray, encoding: bytes, limits: Limits) -> None:
    """Raise Problem unless the body is a JSON object."""
    Document(decompress(body, encoding, limits.max_body_bytes), NO_NAMES)
