"""What a resources server of NeMo Gym answers besides rewards: that it is there, sessions, which hold nothing, and
whether saved rollouts can be scored again.
"""

from __future__ import annotations

from functools import partial

from ...request.exchange import Exchange
from ...request.paths import Paths
from ...wire.compression import Body
from ...wire.json_codec import Limits
from .json_document import ABSENT, Document, Names

__all__ = ["Sessions"]

ALIVE = b'{"status":"ok"}'
STATELESS = b'"stateless"'
NO_STATE = b"{}"
SESSION_ID = "resources_session_id"
NAMES = Names(SESSION_ID)


class Sessions:
    """The routes of a resources server that give no reward; `paths` has the threads for long requests."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    async def alive(self, exchange: Exchange) -> None:
        """200 once there can be rewards: who waits for this server must not send its first rollout too early."""
        _ = self._paths.scorer
        await exchange.reply(ALIVE)

    async def reverify_mode(self, exchange: Exchange) -> None:
        """Say that rewards depend on their request alone, so that `gym eval reverify` may score rollouts again."""
        await exchange.reply(STATELESS)

    async def session(self, exchange: Exchange) -> None:
        """Begin or close a rollout, whatever its row: nothing is kept between requests, so there is nothing to do.

        A caller that gives its session a name (Gym's environment servers do since 0.7) gets the name back.
        """
        body = exchange.taken
        general = partial(confirmed, body, self._paths.limits)
        await exchange.reply(await self._paths.answer(exchange, lambda: None if body.data else NO_STATE, general))


def confirmed(body: Body, limits: Limits) -> bytes:
    """The reply's bytes; raises Problem unless the body is a JSON object. What is no text is no name of a session."""
    document = Document(body.plain(limits.max_body_bytes), NAMES)
    (span,) = document.spans
    if span == ABSENT or document.text(span) is None:
        return NO_STATE
    return b'{"%b":%b}' % (SESSION_ID.encode(), document.raw(span))
