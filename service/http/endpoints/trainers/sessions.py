"""Routes of a NeMo Gym resources server besides rewards: readiness, stateless sessions, and the reverify mode."""

from __future__ import annotations

from functools import partial

from ...request.exchange import Exchange
from ...request.paths import Paths
from ...wire.compression import Body
from ...wire.json_codec import Limits
from .json_document import ABSENT, Document, MemberNames

__all__ = ["Sessions"]

ALIVE = b'{"status":"ok"}'
STATELESS = b'"stateless"'
NO_STATE = b"{}"
SESSION_ID = "resources_session_id"
NAMES = MemberNames(SESSION_ID)


class Sessions:
    """The endpoints of a resources server that score nothing."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    async def alive(self, exchange: Exchange) -> None:
        """Return 200 once the service is ready to score, so that Gym sends no rollout too early."""
        _ = self._paths.scorer
        await exchange.reply(ALIVE)

    async def reverify_mode(self, exchange: Exchange) -> None:
        """Return `stateless`: rewards depend only on their request, so `gym eval reverify` may rescore rollouts."""
        await exchange.reply(STATELESS)

    async def session(self, exchange: Exchange) -> None:
        """Begin or close a rollout; sessions have no state, so there is nothing to do.

        Return the name of the session if the request has one (Gym's environment servers send one since 0.7).
        """
        body = exchange.request_body
        general = partial(confirmed, body, self._paths.limits)
        await exchange.reply(await self._paths.answer(exchange, lambda: None if body.data else NO_STATE, general))


def confirmed(body: Body, limits: Limits) -> bytes:
    """Return the bytes of the reply, with the session's name if it is a string; raise Problem."""
    document = Document(body.plain(limits.max_body_bytes), NAMES)
    (span,) = document.spans
    if span == ABSENT or document.text(span) is None:
        return NO_STATE
    return b'{"%b":%b}' % (SESSION_ID.encode(), document.raw(span))
