"""Explains why a response has its reward, in the service's sentences."""

from __future__ import annotations

import json
from weakref import WeakKeyDictionary

from assay_client import AsyncClient
from assay_client.adapters.common import async_client
from assay_client.errors import InvalidRequest
from assay_client.tasks import SCORE

from .rows import PreparedRow
from .scoring import Scored

__all__ = ["explanation"]

_reasons: WeakKeyDictionary[AsyncClient, dict[str, dict[str, str]]] = WeakKeyDictionary()


async def explanation(row: PreparedRow, response: str, score: Scored) -> str:
    client = async_client()
    if row.task == SCORE:
        try:
            return await _explained(client, row, response)
        except InvalidRequest:  # the response is longer than what the service explains, and has a reason all the same
            pass
    if client not in _reasons:
        about = await client.request("/v1/tasks")
        _reasons[client] = {task["name"]: task["reward"]["reasons"] for task in about["tasks"] if task["reward"]}
    parts = ", ".join(f"{name} {value:.4f}" for name, value in score.components.items())
    return f"Reward {score.reward:.4f} ({parts}): {_reasons[client][row.task][score.reason]}"


async def _explained(client: AsyncClient, row: PreparedRow, response: str) -> str:
    config = json.loads(client.settings.merged(None))
    asked = {"response": response, "reference": row.reference, "config": config, "suggestions": 0}
    reply = await client.request("/v1/explain", asked)
    failure, headline = reply["failure"], str(reply["headline"])
    return headline if failure is None else f"Fails the {failure['gate']} gate ({failure['reason']}). {headline}"
