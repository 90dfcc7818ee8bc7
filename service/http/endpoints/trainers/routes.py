"""The trainers' routes, each with its endpoint and its description."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel

from ...request.exchange import Exchange
from ...request.paths import Paths
from ...request.processes import Processes
from ...request.telemetry.metrics import Metrics
from ...request.telemetry.refusal_log import RefusalLog
from . import contract as models
from .aggregate import AggregateEndpoint
from .contract import EXAMPLES
from .dialect import Dialect
from .endpoint import TrainerEndpoint
from .nemo_gym import NemoGym
from .openrlhf import OpenRlhf
from .query_settings import query_parameters
from .sessions import Sessions
from .slime import Slime

__all__ = ["TrainerRoute", "trainer_routes"]

CheckQuery = Callable[[Exchange, bytes], None]


class TrainerRoute(NamedTuple):
    """One route of a trainer."""

    method: str
    path: str
    endpoint: Callable[[Exchange], Awaitable[None]]
    check_query: CheckQuery | None
    """Check of its query, if it takes one."""
    summary: str
    request: type[BaseModel] | None
    reply: Any
    example: tuple[Any, Any] | None
    """A request and its reply."""
    parameters: list[dict[str, Any]]
    """Query parameters."""


def trainer_routes(
    paths: Paths, processes: Processes, metrics: Metrics, refusals: RefusalLog
) -> Iterator[TrainerRoute]:
    """Yield the routes of one application; `processes` compute statistics."""

    def scoring(
        dialect: Dialect, path: str, trainer: str, request: type[BaseModel], reply: Any, name: str
    ) -> TrainerRoute:
        endpoint = TrainerEndpoint(dialect, paths, metrics, refusals)
        parameters, summary = query_parameters(dialect.options), f"{trainer}: rewards"
        return TrainerRoute(
            "POST", path, endpoint.answer, endpoint.check_query, summary, request, reply, EXAMPLES[name], parameters
        )

    def get(path: str, endpoint: Any, summary: str, reply: Any) -> TrainerRoute:
        return TrainerRoute("GET", path, endpoint, None, summary, None, reply, None, [])

    def post(path: str, endpoint: Any, summary: str, request: type[BaseModel], reply: Any, name: str) -> TrainerRoute:
        return TrainerRoute("POST", path, endpoint, None, summary, request, reply, EXAMPLES[name], [])

    yield scoring(OpenRlhf(), "/compat/openrlhf", "OpenRLHF", models.OpenRlhfRequest, models.OpenRlhfReply, "openrlhf")
    yield scoring(Slime(), "/compat/slime", "slime", models.SlimeRequest, models.SlimeReply | float, "slime")
    gym, sessions, statistics = "/compat/nemo-gym", Sessions(paths), AggregateEndpoint(paths.limits, processes)
    verify_reply = models.VerifyReply | models.MaskedReply
    yield scoring(NemoGym(), f"{gym}/verify", "NeMo Gym", models.VerifyRequest, verify_reply, "verify")
    for name, summary in (("seed_session", "NeMo Gym: begin a rollout"), ("close_session", "NeMo Gym: end a rollout")):
        yield post(f"{gym}/{name}", sessions.session, summary, models.SessionRequest, models.SessionReply, name)
    summary = "NeMo Gym: statistics of all rollouts"
    path, request, reply = f"{gym}/aggregate_metrics", models.AggregateRequest, models.AggregateReply
    yield post(path, statistics.aggregate, summary, request, reply, "aggregate")
    yield get(gym, sessions.alive, "NeMo Gym: ready to score", models.AliveReply)
    summary = "NeMo Gym: rescoring of saved rollouts"
    yield get(f"{gym}/reverify_mode", sessions.reverify_mode, summary, models.ReverifyMode)
