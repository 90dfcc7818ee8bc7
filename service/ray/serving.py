"""A Ray Serve application: the service's own HTTP routes, and scoring through a deployment handle.

    serve run assay.service.ray:application num_replicas=4 order=lcs

Inside a Ray job the handle is the shorter way: no HTTP, no JSON. Who calls it needs Ray, but neither Assay nor its
environment:

    handle = serve.get_app_handle("default")
    columns = handle.score.remote(responses, references, reference_index).result()
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

from ..config import Config, load
from ..errors import InvalidSetting, Issue, ScoringError
from ..evaluate.import_optional import import_optional
from ..http.app import Application, create_app
from ..http.wire.stage_times import StageTimes
from ..scoring.scorer import Scorer
from ..scoring.scores import Scores

__all__ = ["Replica", "application"]

READY_SECONDS = 600
"""Time for a replica that must compile every kernel; seconds where its cache has them."""

OF_SERVE = ("num_replicas", "num_cpus", "max_ongoing_requests", "max_queued_requests")
"""Arguments of `application` that are no settings of the service; all are whole numbers."""

OF_THE_LISTENER = (
    "host",
    "port",
    "uds",
    "backlog",
    "keep_alive_seconds",
    "workers",
    "drain_seconds",
    "shutdown_seconds",
)
"""Settings without a meaning here: Ray Serve listens, starts and ends processes itself."""


class Replica:
    """One replica: Ray Serve adds the HTTP application to it (`ingress`)."""

    app: Application

    async def score(
        self,
        responses: Any,
        references: Sequence[Any],
        reference_index: Any = None,
        config: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Score a batch as `POST /v1/score` does; for deployment handles.

        responses: strings. reference_index: integers (n,), as there. config: settings that override the defaults.
        Returns `rewards` float64 (n,), `reasons` a list, `components` name to float64 (n,), `config_id`.
        Raises ValueError whose arguments are a message and, for each issue, its path, reason and detail: an
        exception of Assay's own could not be read by a caller who has no Assay.
        """
        service = self.app.state.service
        times = StageTimes()
        began = perf_counter()
        try:
            scorer = service.scorer.with_overrides(config or {})
            scores = await asyncio.to_thread(scorer.score, responses, references, reference_index)
        except ScoringError as error:
            raise ValueError(str(error), [issue._asdict() for issue in error.issues]) from None
        times.score = perf_counter() - began
        service.metrics.scored(scores.rewards, scores.reason_codes, times)
        return columns_of(scorer, scores)

    def check_health(self) -> None:
        """Asked by Ray Serve; raises where the replica cannot score, so that it is replaced."""
        self.app.state.service.readiness.check()


def columns_of(scorer: Scorer, scores: Scores) -> dict[str, Any]:
    return {
        "rewards": scores.rewards,
        "reasons": scores.reasons.tolist(),
        "components": scores.components,
        "config_id": scorer.config_id,
    }


def application(arguments: Mapping[str, Any]) -> Any:
    """The Serve application for these arguments: settings of the service by name, and

    num_replicas, max_ongoing_requests, max_queued_requests: as Ray Serve has them.
    num_cpus: cores of a replica, and its scoring threads unless `threads` says otherwise.

    Values may be texts, as the command line gives them. Settings that are not given come from `ASSAY_…` variables of
    the process that builds the application. Raises InvalidSetting, and NotInstalled without Ray.
    """
    without_meaning = [Issue(name, "invalid_setting", "Ray Serve sees to this") for name in OF_THE_LISTENER]
    if issues := [issue for issue in without_meaning if issue.path in arguments]:
        raise InvalidSetting(issues)
    serve = import_optional("ray.serve", "ray", "the application", "assay.service.ray")
    given = dict(arguments)
    options = {name: int(given.pop(name)) for name in OF_SERVE if name in given}
    cores = options.pop("num_cpus", 1)
    effective = effective_settings({"threads": cores} | given)
    options = {"num_replicas": 1, "max_ongoing_requests": 256} | options
    deployment = serve.deployment(
        name="assay", ray_actor_options={"num_cpus": cores}, graceful_shutdown_timeout_s=30, **options
    )
    return deployment(serve.ingress(builder(effective))(Replica)).bind()


def effective_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting that is not at its default, by name; raises InvalidSetting.

    Texts are read as environment variables are, anything else as flags are.
    """
    texts = {f"ASSAY_{name.upper()}": value for name, value in given.items() if isinstance(value, str)}
    flags = {name: value for name, value in given.items() if not isinstance(value, str)}
    config = load(flags=flags, environ={**os.environ, **texts})
    models = {**config.server.model_dump(), **config.score.model_dump()}
    keys = tuple(key.get_secret_value() for key in config.server.api_keys)
    effective = {name: models[name] for name in config.origins} | ({"api_keys": ",".join(keys)} if keys else {})
    effective.pop("api_keys_file", None)  # read here: the replica's node may not have the file
    return effective


def builder(settings: dict[str, Any]) -> Callable[[], Application]:
    """What Ray Serve calls in each replica to get its application."""

    def build() -> Application:
        return served(load(flags=settings, environ={}))

    return build


def served(config: Config) -> Application:
    """The application, whose start is over once it is ready to score: Ray Serve has no readiness of its own."""
    app = create_app(config)
    own = app.router.lifespan_context

    @asynccontextmanager
    async def once_ready(starting: Any) -> AsyncIterator[Any]:
        async with own(starting) as state:
            await until_ready(app)
            yield state

    app.router.lifespan_context = once_ready
    return app


async def until_ready(app: Application) -> None:
    """Wait until the kernels are compiled and have given their known rewards; raises what `Readiness.check` raises."""
    readiness = app.state.service.readiness
    for _ in range(READY_SECONDS * 10):
        if readiness.obstacle is None:
            return
        await asyncio.sleep(0.1)
    readiness.check()
