"""Descriptions of the service: index, configuration, tasks and version, each encoded once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import orjson

from ....kernels.score import COMPONENTS
from ...config import Config
from ...evaluate.evaluation import every_task
from ...evaluate.task import Task
from ...evaluate.task_rewards import SCORE, TOO_LONG, reward_schema
from ...settings import RULES_VERSION, ScoreSettings
from ...version import VERSION
from ..request.exchange import Exchange

__all__ = ["About"]

VERSION_REPLY = orjson.dumps({"version": VERSION})

SCORE_REASONS = {
    "ok": "The response was scored.",
    "too_long": "It has too many bytes or steps.",
    "think_not_opened": "The four sections would be there with <think> put before the response: set think_prefilled.",
    "missing_sections": "The four sections are not there.",
    "no_steps": "The <key> section is empty.",
    "bad_step_line": "A key line is not of the form 'Step N: {...}'.",
    "bad_step_json": "The braces of a key line do not hold one valid JSON object.",
    "bad_step_schema": "A key step is not an action with objects and parameters.",
    "key_numbering": "The key steps are not numbered 1, 2, 3, ….",
    "orc_numbering": "The orc steps are not numbered 1, 2, 3, ….",
    "step_count": "<key> and <orc> have different numbers of steps.",
    "low_coverage": "The words of a key step are missing from its orc step.",
}
"""In the order of docs/rules.md, Reasons."""


class About:
    """Replies that are constant for the life of the process, encoded once."""

    def __init__(self, settings: Config) -> None:
        self.index_reply = orjson.dumps(index_of(settings))
        self._config_reply = orjson.dumps(config_of(settings))

    async def index(self, exchange: Exchange) -> None:
        """Return the name and version of the service, and links to its routes."""
        await exchange.reply(self.index_reply)

    async def config(self, exchange: Exchange) -> None:
        """Return the default configuration, its id, the limits, and the JSON schema of the settings."""
        await exchange.reply(self._config_reply)

    async def tasks(self, exchange: Exchange) -> None:
        """Return every task: its metrics, its reward, and the schemas of its records and options."""
        await exchange.reply(self.tasks_reply)

    async def version(self, exchange: Exchange) -> None:
        """Return the version of the service."""
        await exchange.reply(VERSION_REPLY)

    @cached_property
    def tasks_reply(self) -> bytes:
        """The reply of GET /v1/tasks; imports every task."""
        return orjson.dumps({"tasks": [task_of(task) for task in every_task()]})


def index_of(settings: Config) -> dict[str, Any]:
    links = {
        "score": "/v1/score",
        "evaluate": "/v1/evaluate",
        "config": "/v1/config",
        "tasks": "/v1/tasks",
        "metrics": "/metrics",
        "explain": "/v1/explain",
    }
    if settings.server.docs:
        links |= {"docs": "/docs", "openapi": "/openapi.json"}
    return {"name": "assay", "version": VERSION, "links": links}


def config_of(settings: Config) -> dict[str, Any]:
    names = ("max_body_bytes", "max_responses", "max_reference_bytes", "deadline_seconds")
    return {
        "version": VERSION,
        "rules_version": RULES_VERSION,
        "config_id": settings.score.config_id,
        "signature": settings.score.signature,
        "config": settings.score.model_dump(),
        "limits": {name: getattr(settings.server, name) for name in names},
        "schema": ScoreSettings.model_json_schema(),
    }


def task_of(task: Task) -> dict[str, Any]:
    """Return the description of one task."""
    return {
        "name": task.name,
        "description": task.description,
        "record": task.record.model_json_schema(),
        "options": task.options.model_json_schema(),
        "metrics": [metric._asdict() for metric in task.metrics],
        "failures": dict(task.failures),
        "reward": score_reward() if task.name == SCORE else reward_of(task),
    }


def score_reward() -> dict[str, Any]:
    """Return the description of the SCORE reward."""
    return {
        "description": "SCORE of a Sketch-and-Fill answer, mapped by `reward_scale`; from 0 to 1 by default.",
        "reasons": SCORE_REASONS,
        "components": list(COMPONENTS),
        "config": ScoreSettings.model_json_schema(),
    }


def reward_of(task: Task) -> dict[str, Any] | None:
    if task.reward is None:
        return None
    return {
        "description": task.reward,
        "reasons": {**task.reasons, TOO_LONG: "The response has too many bytes: it got what an empty one gets."},
        "components": list(task.components),
        "config": reward_schema(task),
    }
