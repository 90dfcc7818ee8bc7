"""Scores responses to prepared rows through the client: a service at ASSAY_URL, or on this machine (`local`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from assay_client import AsyncClient, Client
from assay_client.adapters.common import async_client, sync_client
from assay_client.results import Scores

from .rows import PreparedRow

__all__ = ["Scored", "score_responses", "score_responses_async"]


class Scored(NamedTuple):
    """The score of one response."""

    reward: float
    passed: float
    """1 if the response passes: in SCORE both gates, with the right order of actions; else 0."""
    components: dict[str, float]
    reason: str
    task: str
    signature: str
    """How the reward was computed, in one line."""


def score_responses(
    rows: Sequence[PreparedRow], responses: Sequence[str], config: dict[str, Any] | None = None
) -> list[Scored]:
    """Score the response to each row, all in one request; raises AssayError, and never gives a reward for an error."""
    client: Client = sync_client()
    return _scored(client.score(responses, [row.reference for row in rows], **_arguments(rows, config)))


async def score_responses_async(
    rows: Sequence[PreparedRow], responses: Sequence[str], config: dict[str, Any] | None = None
) -> list[Scored]:
    """Do the same in an event loop."""
    client: AsyncClient = async_client()
    return _scored(await client.score(responses, [row.reference for row in rows], **_arguments(rows, config)))


def _arguments(rows: Sequence[PreparedRow], config: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "reference_index": list(range(len(rows))),
        "records": [row.id or number for number, row in enumerate(rows)],
        "task": [row.task for row in rows],
        "config": config,
    }


def _scored(scores: Scores) -> list[Scored]:
    return [
        Scored(row.reward, row.passed, dict(row.components), row.reason, row.task, row.signature)
        for row in scores.rows()
    ]
