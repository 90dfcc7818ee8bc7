"""What a resources server of NeMo Gym answers besides rewards: that it is there, sessions, which hold nothing, and
whether saved rollouts can be scored again.
"""

from __future__ import annotations

from functools import partial

from ...request.exchange import Exchange
from ...request.intake import Body
from ...wire.json_codec import Limits
from .json_document import ABSENT, Document, Names

__all__ = ["alive", "reverify_mode", "session"]

ALIVE = b'{"status":"ok"}'
STATELESS = b'"stateless"'
NO_STATE = b"{}"
SESSION_ID = "resources_session_id"
NAMES = Names(SESSION_ID)


async def alive(exchange: Exchange) -> None:
    """200 once there can be rewards: who waits for this server must not send its first rollout too early."""
    exchange.service.readiness.check()
    await exchange.reply(ALIVE)


async def reverify_mode(exchange: Exchange) -> None:
    """Say that a reward follows from its request alone, so that `gym eval reverify` may score saved rollouts again."""
    await exchange.reply(STATELESS)


async def session(exchange: Exchange) -> None:
    """Begin or close a rollout, whatever its row: nothing is kept between requests, so there is nothing to do.

    A caller that gives its session a name (Gym's environment servers do since 0.7) gets the name back.
    """
    service, body = exchange.service, exchange.taken
    if not body.inline:
        reply = await service.workers.run(partial(confirmed, body, service.limits), exchange)
    else:
        reply = confirmed(body, service.limits) if body.data else NO_STATE
    await exchange.reply(reply)


def confirmed(body: Body, limits: Limits) -> bytes:
    """The reply's bytes; raises Problem unless the body is a JSON object. What is no text is no name of a session."""
    document = Document(body.plain(limits.max_body_bytes), NAMES)
    (span,) = document.spans
    if span == ABSENT or document.text(span) is None:
        return NO_STATE
    return b'{"%b":%b}' % (SESSION_ID.encode(), document.raw(span))
