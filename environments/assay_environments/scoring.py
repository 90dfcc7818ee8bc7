"""Scores responses to prepared rows through the client: a service at ASSAY_URL, or on this machine (`local`).

A failure raises AssayError and is never a reward. Errors name rows by their `id`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay_client import Score
from assay_client.adapters.common import async_client, sync_client
from assay_client.results import Scores
from assay_client.settings import MIXED
from assay_client.tasks import OWN_COMPONENTS

from .rows import PreparedRow

__all__ = ["Scored", "metrics_of", "score_response_async", "score_responses", "score_responses_async"]

Scored = Score
"""The client's score of one response, with only the components that its task has."""

Config = Mapping[str, Any]
"""Settings of the reward that override the client's: SCORE's by name, another task's under its name."""


def score_responses(
    rows: Sequence[PreparedRow], responses: Sequence[str], config: Config | None = None
) -> list[Scored]:
    """Return the scores of the response to each row, from one request."""
    scores = sync_client().score(responses, [row.reference for row in rows], **_arguments(rows, config))
    return _scored(scores)


async def score_responses_async(
    rows: Sequence[PreparedRow], responses: Sequence[str], config: Config | None = None
) -> list[Scored]:
    scores = await async_client().score(responses, [row.reference for row in rows], **_arguments(rows, config))
    return _scored(scores)


async def score_response_async(row: PreparedRow, response: str, config: Config | None = None) -> Scored:
    """Return the score of the response to one row; concurrent calls share requests, whatever their tasks."""
    client = async_client()
    if config:  # as the client's own settings: with settings of a call, requests would hold one task each
        client = async_client(config=client.settings.merged(config, MIXED))
    return _with_own_components(await client.score_one(response, row.reference, record=row.id or None, task=row.task))


def _arguments(rows: Sequence[PreparedRow], config: Config | None) -> dict[str, Any]:
    return {
        "records": [row.id or number for number, row in enumerate(rows)],
        "task": [row.task for row in rows],
        "config": config,
    }


def _scored(scores: Scores) -> list[Scored]:
    return list(map(_with_own_components, scores.rows()))


def _with_own_components(score: Score) -> Scored:
    """Remove the components of other tasks, which are 0 in a mixed batch: they would distort means."""
    return score._replace(components={name: score.components[name] for name in OWN_COMPONENTS[score.task]})


def metrics_of(score: Scored) -> dict[str, float]:
    shares = {"score_passed": score.passed, "score_readable": float(score.reason == "ok")}
    return shares | {f"score_{name}": value for name, value in score.components.items()}
