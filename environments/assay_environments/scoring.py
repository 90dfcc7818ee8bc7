"""Scores responses to prepared rows through the client: a service at ASSAY_URL, or on this machine (`local`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from assay_client import AsyncClient, Client
from assay_client.adapters.common import async_client, sync_client
from assay_client.results import Score, Scores
from assay_client.tasks import OWN_COMPONENTS

from .rows import PreparedRow

__all__ = ["Scored", "score_response_async", "score_responses", "score_responses_async"]


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

    @property
    def metrics(self) -> dict[str, float]:
        """The components of the row's own task, and whether the response passes and is readable, for averages.

        The names are those of the trainers' metrics.
        """
        numbers = {"score_passed": self.passed, "score_readable": float(self.reason == "ok")}
        return numbers | {f"score_{name}": self.components[name] for name in OWN_COMPONENTS[self.task]}


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


async def score_response_async(row: PreparedRow, response: str, config: dict[str, Any] | None = None) -> Scored:
    """Score the response to one row; concurrent calls in an event loop share requests. Errors are those of the others.

    An error that names a row fails its calls only.
    """
    client: AsyncClient = async_client()
    score = await client.score_one(response, row.reference, config=config, record=row.id or None, task=row.task)
    return _scored_row(score)


def _arguments(rows: Sequence[PreparedRow], config: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "records": [row.id or number for number, row in enumerate(rows)],
        "task": [row.task for row in rows],
        "config": config,
    }


def _scored(scores: Scores) -> list[Scored]:
    return list(map(_scored_row, scores.rows()))


def _scored_row(row: Score) -> Scored:
    return Scored(row.reward, row.passed, dict(row.components), row.reason, row.task, row.signature)
