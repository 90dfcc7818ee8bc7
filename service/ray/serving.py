"""A Ray Serve application: the service's own HTTP routes, and scoring through a deployment handle.

    serve run assay.service.ray:application num_replicas=4 order=lcs

Inside a Ray job, the handle is faster: no HTTP, no JSON. Callers need Ray, but not Assay:

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

from ..config import load
from ..errors import InvalidRequest, InvalidSetting, Issue, ScoringError
from ..http.app import Application, create_app
from ..http.request.run_names import run_issues
from ..rewards.scores import Scores, count_cut_off
from ..tasks.task import import_optional
from ..wire.stage_times import StageTimes

READY_SECONDS = 600
"""Time for a replica to compile every kernel; with a warm cache it takes seconds."""

AUTOSCALING_OPTIONS = ("min_replicas", "max_replicas", "target_ongoing_requests")
SERVE_OPTIONS = ("num_replicas", "num_cpus", "max_ongoing_requests", "max_queued_requests", *AUTOSCALING_OPTIONS)
"""Arguments of `application` that are not settings of the service; all are integers."""

NOT_APPLICABLE = (
    "host",
    "port",
    "uds",
    "backlog",
    "keep_alive_seconds",
    "workers",
    "drain_seconds",
    "shutdown_seconds",
)
"""Settings that do not apply: Ray Serve listens, and starts and ends processes itself."""


class Replica:
    """One replica; Ray Serve adds the HTTP application to it (`ingress`)."""

    app: Application

    async def score(
        self,
        responses: Any,
        references: Sequence[Any],
        reference_index: Any = None,
        config: Mapping[str, Any] | None = None,
        run: str = "",
        steps: bool = False,
    ) -> dict[str, Any]:
        """Score a batch like `POST /v1/score`; for deployment handles.

        responses: strings. reference_index: integers (n,). config: settings that override the defaults.
        run: name of the training run, a label of the metrics. steps: whether steps are wanted.
        Returns `rewards` float64 (n,), `reasons` a list, `components` name to float64 (n,), `config_id`, `signature`,
        and with `steps` a list of n lists of dicts, and `alternative` int64 (n,).
        Raises ValueError with a message and the path, reason and detail of each issue: callers without Assay could
        not unpickle its exceptions.
        """
        service = self.app.state.service
        times = StageTimes()
        began = perf_counter()
        try:
            if run and (issues := run_issues(run, "run")):
                raise InvalidRequest(issues)
            scorer = service.paths.scorer.with_overrides(config or {})

            def score() -> tuple[Scores, int]:
                scores = scorer.score(responses, references, reference_index, steps=steps)
                return scores, count_cut_off(scores, responses)

            scores, cut_off = await asyncio.to_thread(score)
        except ScoringError as error:
            raise ValueError(str(error), [issue._asdict() for issue in error.issues]) from None
        times.score = perf_counter() - began
        service.metrics.counting(scores, cut_off, times, run)()
        return {
            "rewards": scores.rewards,
            "reasons": scores.reasons.tolist(),
            "components": scores.components,
            **({"steps": list(scores.steps), "alternative": scores.alternative} if scores.steps is not None else {}),
            **scorer.identity,
        }

    def check_health(self) -> None:
        """Raise if the replica cannot score, so that Ray Serve replaces it."""
        self.app.state.service.readiness.check()


def application(arguments: Mapping[str, Any]) -> Any:
    """Build the Serve application. Arguments are settings of the service by name, and:

    num_replicas, max_ongoing_requests, max_queued_requests: options of Ray Serve.
    min_replicas, max_replicas, target_ongoing_requests: in place of num_replicas, for autoscaling on the requests that
    run and wait, by default 4 for each replica.
    num_cpus: cores of a replica, and its scoring threads unless `threads` is given.

    Values may be strings, as on the command line. Other settings come from the `ASSAY_…` variables of the process that
    builds the application. Raises InvalidSetting, and NotInstalled without Ray.
    """
    not_applicable = [Issue(name, "invalid_setting", "not applicable: Ray Serve does this") for name in NOT_APPLICABLE]
    if issues := [issue for issue in not_applicable if issue.path in arguments]:
        raise InvalidSetting(issues)
    serve = import_optional("ray.serve", "ray", "the application", "assay.service.ray")
    settings = dict(arguments)
    integers = {name: int(settings.pop(name)) for name in SERVE_OPTIONS if name in settings}
    cores = integers.pop("num_cpus", 1)
    options = deployment_options(integers)
    effective = effective_settings({"threads": cores} | settings)
    deployment = serve.deployment(
        name="assay", ray_actor_options={"num_cpus": cores}, graceful_shutdown_timeout_s=30, **options
    )
    return deployment(serve.ingress(builder(effective))(Replica)).bind()


def deployment_options(options: Mapping[str, int]) -> dict[str, Any]:
    """Return Ray Serve's options for these arguments; raises InvalidSetting."""
    scaling = {name: options[name] for name in AUTOSCALING_OPTIONS if name in options}
    chosen: dict[str, Any] = {name: value for name, value in options.items() if name not in scaling}
    if not scaling:
        return {"num_replicas": 1, "max_ongoing_requests": 256, **chosen}
    if "num_replicas" in options:
        raise InvalidSetting([Issue("num_replicas", "invalid_setting", f"not with {', '.join(scaling)}")])
    if "max_replicas" not in scaling:
        raise InvalidSetting([Issue("max_replicas", "invalid_setting", f"required with {', '.join(scaling)}")])
    return {
        "max_ongoing_requests": 256,
        **chosen,
        "autoscaling_config": {"min_replicas": 1, "target_ongoing_requests": 4, **scaling},
    }


def effective_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return every setting that is not the default, by name; raises InvalidSetting.

    Strings are parsed like environment variables, other values like flags.
    """
    strings = {f"ASSAY_{name.upper()}": value for name, value in settings.items() if isinstance(value, str)}
    flags = {name: value for name, value in settings.items() if not isinstance(value, str)}
    config = load(flags=flags, environ={**os.environ, **strings})
    models = {**config.server.model_dump(), **config.score.model_dump()}
    keys = tuple(key.get_secret_value() for key in config.server.api_keys)
    effective = {name: models[name] for name in config.origins} | ({"api_keys": ",".join(keys)} if keys else {})
    effective.pop("api_keys_file", None)  # read here: the replica's node may not have the file
    return effective


def builder(settings: dict[str, Any]) -> Callable[[], Application]:
    """Return the function that builds the application in each replica.

    Its startup waits until it can score, as Ray Serve has no readiness probe.
    """

    def build() -> Application:
        app = create_app(load(flags=settings, environ={}))
        lifespan = app.router.lifespan_context

        @asynccontextmanager
        async def once_ready(starting: Any) -> AsyncIterator[Any]:
            async with lifespan(starting) as state:
                await until_ready(app)
                yield state

        app.router.lifespan_context = once_ready
        return app

    return build


async def until_ready(app: Application) -> None:
    """Wait until the service is ready; raises as `Readiness.check` does."""
    readiness = app.state.service.readiness
    for _ in range(READY_SECONDS * 10):
        if readiness.obstacle is None:
            return
        await asyncio.sleep(0.1)
    readiness.check()
