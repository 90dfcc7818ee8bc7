"""The addresses that trainers speak to, each with its endpoint and its description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel

from ...request.intake import Intake
from . import aggregate, sessions
from . import contract as schema
from .dialect import Dialect
from .endpoint import TrainerRoute
from .nemo_gym import NemoGym
from .openrlhf import OpenRlhf
from .query_settings import query_parameters
from .slime import Slime

__all__ = ["Address", "addresses"]


class Address(NamedTuple):
    """One route of a trainer."""

    method: str
    path: str
    endpoint: Any
    intake: Intake | None
    """How its body comes in, where that is not the usual way."""
    summary: str
    request: type[BaseModel] | None
    reply: Any
    example: tuple[Any, Any] | None
    """A request, and the reply to it."""
    parameters: list[dict[str, Any]]
    """Of the address."""


def addresses() -> Iterator[Address]:
    """The routes of one application."""
    models, examples = schema, schema.EXAMPLES
    yield scoring(OpenRlhf(), "/compat/openrlhf", "OpenRLHF", models.OpenRlhfRequest, models.OpenRlhfReply, "openrlhf")
    yield scoring(Slime(), "/compat/slime", "slime", models.SlimeRequest, models.SlimeReply | float, "slime")
    gym = "/compat/nemo-gym"
    yield scoring(
        NemoGym(), f"{gym}/verify", "NeMo Gym", models.VerifyRequest, models.VerifyReply | models.MaskedReply, "verify"
    )
    for name, summary in (("seed_session", "NeMo Gym: begin a rollout"), ("close_session", "NeMo Gym: end a rollout")):
        yield Address(
            "POST",
            f"{gym}/{name}",
            sessions.session,
            None,
            summary,
            models.SessionRequest,
            models.SessionReply,
            examples[name],
            [],
        )
    yield Address(
        "POST",
        f"{gym}/aggregate_metrics",
        aggregate.aggregate,
        None,
        "NeMo Gym: statistics of all rollouts",
        models.AggregateRequest,
        models.AggregateReply,
        examples["aggregate"],
        [],
    )
    yield Address("GET", gym, sessions.alive, None, "NeMo Gym: there can be rewards", None, models.AliveReply, None, [])
    summary = "NeMo Gym: saved rollouts can be scored again"
    yield Address(
        "GET", f"{gym}/reverify_mode", sessions.reverify_mode, None, summary, None, models.ReverifyMode, None, []
    )


def scoring(dialect: Dialect, path: str, trainer: str, request: type[BaseModel], reply: Any, example: str) -> Address:
    """A route that scores."""
    route = TrainerRoute(dialect)
    intake, parameters = Intake(check_query=route.check_query), query_parameters(dialect.options)
    summary, example_pair = f"{trainer}: rewards", schema.EXAMPLES[example]
    return Address("POST", path, route.answer, intake, summary, request, reply, example_pair, parameters)
