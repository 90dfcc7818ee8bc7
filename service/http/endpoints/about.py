"""Endpoints about the service itself: probes, version, configuration, tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import cached_property
from typing import Any

import orjson
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

from ...config import Config
from ...rewards.registry import REWARD_TASKS, Reward, reward_of
from ...settings import RULES_VERSION, ScoreSettings
from ...tasks.evaluation import every_task
from ...tasks.task import Task
from ...version import VERSION
from ...wire.problems import Problem
from ..request.exchange import Exchange
from ..request.readiness import Readiness

VERSION_REPLY = orjson.dumps({"version": VERSION})


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
        return orjson.dumps({"tasks": [task_document(task) for task in every_task()]})


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


def task_document(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "description": task.description,
        "record": task.record.model_json_schema(),
        "options": task.options.model_json_schema(),
        "metrics": [asdict(metric) for metric in task.metrics],
        "failures": dict(task.failures),
        "reward": description_of(reward_of(task.name)) if task.name in REWARD_TASKS else None,
    }


def description_of(reward: Reward) -> dict[str, Any]:
    return {
        "number": reward.number,
        "description": reward.description,
        "reasons": reward.reasons,
        "reason_codes": {reason: code for code, reason in enumerate(reward.reasons)},
        "components": list(reward.components),
        "passed_if": list(reward.passed_if),
        "config": reward.schema(),
    }


LIVE = b'{"status":"live"}'
READY = b'{"status":"ready"}'
PROMETHEUS_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TEXT = CONTENT_TYPE_LATEST.encode("ascii")


class Probes:
    """The probes of one process; `exposition` returns the metrics of all, as OpenMetrics if its argument is true."""

    def __init__(self, readiness: Readiness, exposition: Callable[[bool], Awaitable[bytes]]) -> None:
        self._readiness = readiness
        self._exposition = exposition
        self._turn = asyncio.Lock()

    async def live(self, exchange: Exchange) -> None:
        """Return 200 while the process can answer at all."""
        await exchange.reply(LIVE)

    async def ready(self, exchange: Exchange) -> None:
        """Return 200 once the kernels of all workers are compiled and tested; 503 before, and after SIGTERM."""
        self._readiness.check()
        if not self._readiness.complete:
            raise Problem("not-ready", "The other workers are starting.")
        if self._readiness.draining:
            raise Problem("not-ready", "The service is shutting down.")
        await exchange.reply(READY)

    async def metrics(self, exchange: Exchange) -> None:
        """Return the metrics of all processes as Prometheus text, or as OpenMetrics if the client accepts it."""
        openmetrics = asks_for_openmetrics(exchange.raw_headers.get(b"accept", b""))
        body = await self._exposition(openmetrics)
        async with self._turn:  # many clients may have waited for this: let other requests in between
            await asyncio.sleep(0)
        await exchange.reply(body, OPENMETRICS_TEXT if openmetrics else PROMETHEUS_TEXT)


def asks_for_openmetrics(accept: bytes) -> bool:
    for entry in accept.lower().split(b","):
        media_type, *parameters = (part.strip() for part in entry.split(b";"))
        pairs = (parameter.partition(b"=") for parameter in parameters)
        versions = {value.strip(b' "') for name, _, value in pairs if name.strip() == b"version"}
        if media_type == b"application/openmetrics-text" and versions <= {b"1.0.0"}:
            return True
    return False
