"""What a resources server of NeMo Gym answers besides rewards: that it is there, and sessions, which hold nothing."""

from __future__ import annotations

from functools import partial

from ..asgi import Exchange
from ..codec import Limits
from ..intake import Body
from .document import Document, Names

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
    service, body = exchange.service, exchange.taken
    if not body.inline:
        await service.workers.run(partial(check, body, service.limits), exchange)
    elif body.data:
        check(body, service.limits)
    await exchange.reply(NO_STATE)


def check(body: Body, limits: Limits) -> None:
    """Raise Problem unless the body is a JSON object."""
    Document(body.plain(limits.max_body_bytes), NO_NAMES)
