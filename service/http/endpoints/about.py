"""Descriptions of the service: index, configuration, tasks and version, each encoded once."""

from __future__ import annotations

from dataclasses import asdict
from functools import cached_property
from typing import Any

import orjson

from ....kernels.score import COMPONENTS
from ...config import Config
from ...evaluate.evaluation import every_task
from ...evaluate.task import Task
from ...evaluate.task_rewards import REWARD_TASKS, SCORE, passed_if, reasons_of, reward_schema
from ...settings import RULES_VERSION, ScoreSettings
from ...version import VERSION
from ..request.exchange import Exchange

__all__ = ["About"]

VERSION_REPLY = orjson.dumps({"version": VERSION})

SCORE_REWARD = "SCORE of a Sketch-and-Fill answer, mapped by `reward_scale`; from 0 to 1 by default."

SCORE_REASONS = {
    "ok": "The response passes both gates.",
    "too_long": "The response has too many bytes or steps.",
    "think_not_opened": "<think> is missing; with it, all four sections would be found. If the prompt ends with "
    "<think>, set think_prefilled.",
    "missing_sections": "The sections <think>, <key>, <orc> and <note> are not all found, in this order.",
    "no_steps": "The <key> section has no steps.",
    "bad_step_line": "A line of <key> is not of the form 'Step N: {...}'.",
    "bad_step_json": "The braces of a line of <key> do not contain one valid JSON object.",
    "bad_step_schema": "A line of <key> has fields other than action (a string with at least one word), objects and "
    "parameters (arrays of strings).",
    "key_numbering": "The steps of <key> are not numbered 1, 2, 3, ….",
    "orc_numbering": "The steps of <orc> are not numbered 1, 2, 3, ….",
    "step_count": "<key> and <orc> have different numbers of steps.",
    "low_coverage": "A step of <orc> does not contain enough of the words of its key step.",
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
    return {
        "name": task.name,
        "description": task.description,
        "record": task.record.model_json_schema(),
        "options": task.options.model_json_schema(),
        "metrics": [asdict(metric) for metric in task.metrics],
        "failures": dict(task.failures),
        "reward": reward_of(task) if task.name in REWARD_TASKS else None,
    }


def reward_of(task: Task) -> dict[str, Any]:
    is_score = task.name == SCORE
    reasons = SCORE_REASONS if is_score else reasons_of(task.name)
    return {
        "number": REWARD_TASKS.index(task.name),
        "description": SCORE_REWARD if is_score else task.reward,
        "reasons": reasons,
        "reason_codes": {reason: code for code, reason in enumerate(reasons)},
        "components": list(COMPONENTS if is_score else task.components),
        "passed_if": list(passed_if(task.name)),
        "config": ScoreSettings.model_json_schema() if is_score else reward_schema(task),
    }
