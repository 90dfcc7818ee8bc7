"""All routes of the service, with their endpoints and contracts: which need a key, which may queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from ..explain.schema import EXAMPLE_EXPLAIN_REQUEST, ExplainRequest, Explanation
from ..wire.contract import (
    EXAMPLE_EVALUATION,
    EXAMPLE_REQUEST,
    ConfigReply,
    EvaluateReply,
    EvaluateRequest,
    IndexReply,
    ScoreReply,
    ScoreRequest,
    StatusReply,
    TaskRewardRequest,
    TasksReply,
    VersionReply,
)
from ..wire.media_types import ARROW, JSON
from .endpoints import docs
from .endpoints.about import About, Probes
from .endpoints.docs import (
    EXAMPLE_REPLY,
    RUN_PARAMETERS,
    SCORE_PARAMETERS,
    STREAMS,
    Playground,
    body_of,
    problems_of,
    text_reply,
)
from .endpoints.evaluate import MAX_BODY_BYTES, evaluate_endpoint, explain_endpoint
from .endpoints.score import ScoreEndpoint
from .endpoints.trainers import contract as trainers
from .endpoints.trainers.dialects import Dialect, OpenRlhf, Slime
from .endpoints.trainers.endpoint import TrainerEndpoint, query_parameters
from .endpoints.trainers.eval_protocol import EvalProtocol
from .endpoints.trainers.nemo_gym import NemoGym, Sessions, aggregate_endpoint
from .endpoints.trainers.roll import MAX_RESULT_REQUEST, Roll, roll_result
from .request.access import Keys
from .request.exchange import EXCHANGE
from .request.intake import Intake
from .state import ServiceState

SCORING_KINDS = (
    "not-json",
    "bad-encoding",
    "too-large",
    "unsupported-media-type",
    "unsupported-encoding",
    "invalid-request",
    "over-capacity",
    "memory-full",
    "not-ready",
    "deadline",
)


GUARDED = ("/v1/", "/compat/")
"""Prefixes of the paths that need a key if keys are configured."""

PROBES = ("/compat/nemo-gym",)
"""Exceptions: trainers check there whether the service is up."""

MAX_QUEUE_SECONDS = {
    "/compat/openrlhf": 170.0,
    "/compat/slime": 110.0,
    "/compat/nemo-gym": 600.0,
    "/compat/roll": 18.0,
}
"""Seconds that requests to these paths, and below them, may queue instead of being refused; also their deadline. It is
just under the timeout of the trainer's client: OpenRLHF gives up after 180 s, and after five refusals one second
apart continues without a reward, ignoring `Retry-After`; slime waits 120 s; NeMo Gym has no limit, and a refusal ends
its run; ROLL gives up after 20 s."""


class DirectRoute(APIRoute):
    """A route that FastAPI describes but does not call: its dependency solving costs more than scoring one response."""

    intake: Intake | None = None
    """Reads the bodies of requests; None for routes that take no body."""
    keys: Keys | None = None
    """The accepted keys; None for routes that need no key."""
    traced = True
    """False for probes and metrics, which are called every few seconds: most spans would come from them."""
    models: tuple[Any, ...] = ()
    """The models of requests and replies, or unions of them, whose schemas belong to the OpenAPI document."""

    def __init__(self, path: str, endpoint: Any, **description: Any) -> None:
        super().__init__(path, endpoint, **description)
        limits = (seconds for base, seconds in MAX_QUEUE_SECONDS.items() if is_below(path, base))
        self.max_queue_seconds = next(limits, None)
        self.app = self.serve

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the key, read the body, and call the endpoint with the exchange."""
        exchange = scope[EXCHANGE]
        if self.keys is not None:
            self.keys.check(exchange)
        if self.max_queue_seconds is not None:
            exchange.max_queue_seconds = self.max_queue_seconds
        if self.intake is not None:
            exchange.request_body = await self.intake.take(exchange)
        await self.endpoint(exchange)


def is_below(path: str, base: str) -> bool:
    return path == base or path.startswith(f"{base}/")


def is_guarded(path: str) -> bool:
    return path.startswith(GUARDED) and path not in PROBES


class RouteTable:
    def __init__(self, app: FastAPI, state: ServiceState) -> None:
        self._app = app
        self._keys = state.keys
        self.by_address: dict[tuple[str, str], DirectRoute] = {}
        self.intake = partial(Intake, state.config.server, state.readiness, state.admission)

    def add(
        self,
        method: str,
        path: str,
        endpoint: Any,
        kinds: tuple[str, ...] = (),
        *,
        intake: Intake | None = None,
        models: tuple[type[BaseModel], ...] = (),
        traced: bool = True,
        reply: Mapping[str, Any] | None = None,
        **description: Any,
    ) -> None:
        """Register one route with its kinds of errors."""
        guarded = is_guarded(path)
        responses = problems_of(("unauthorized", *kinds) if guarded else kinds)
        responses[200] = dict(reply or {})
        self._app.router.add_api_route(
            path,
            endpoint,
            methods=[method],
            operation_id=f"{method.lower()}{path.translate(str.maketrans('/.-', '___'))}",
            responses=responses,
            route_class_override=DirectRoute,
            **description,
        )
        route = self._app.router.routes[-1]
        assert isinstance(route, DirectRoute)
        self.by_address[path, method] = route
        route.models = (*models, description.get("response_model"))
        route.traced = traced
        if guarded:
            route.keys = self._keys
        route.intake = intake

    def add_with_body(
        self,
        path: str,
        endpoint: Any,
        *models: type[BaseModel],
        example: tuple[Any, Any],
        method: str = "POST",
        intake: Intake | None = None,
        kinds: tuple[str, ...] = SCORING_KINDS,
        parameters: Iterable[dict[str, Any]] = (),
        content: Mapping[str, Any] = MappingProxyType({}),
        **description: Any,
    ) -> None:
        """Register a route by the models of its body, an example of request and reply, and further media types."""
        request, reply = example
        extra = body_of(*models, example=request)
        extra["parameters"] = [*parameters, *extra["parameters"]]
        extra["requestBody"]["content"].update(content)
        if reply is not None:
            description["reply"] = {"content": {"application/json": {"example": reply}, **content}}
        intake = intake or self.intake()
        self.add(method, path, endpoint, kinds, models=models, intake=intake, openapi_extra=extra, **description)

    def add_heads(self) -> None:
        for (path, method), route in list(self.by_address.items()):
            if method == "GET" and route.intake is None:
                self.add("HEAD", path, route.endpoint, traced=route.traced, include_in_schema=False)


def add_routes(app: FastAPI, state: ServiceState, about: About) -> dict[tuple[str, str], DirectRoute]:
    table = RouteTable(app, state)
    add_scoring(table, state)
    add_evaluation(table, state, about)
    add_trainers(table, state)
    description: dict[str, Any] = {"response_model": ConfigReply, "summary": "Configuration", "tags": ["description"]}
    table.add("GET", "/v1/config", about.config, **description)
    add_index(table, about, with_playground=state.config.server.playground)
    add_probes(table, state, about)
    if state.config.server.docs:
        add_docs(table)
    table.add_heads()
    return table.by_address


def add_scoring(table: RouteTable, state: ServiceState) -> None:
    endpoint = ScoreEndpoint(state.paths, state.rewarders, state.metrics)
    table.add_with_body(
        "/v1/score",
        endpoint.score,
        *(ScoreRequest, TaskRewardRequest),
        example=(EXAMPLE_REQUEST, EXAMPLE_REPLY),
        kinds=("not-arrow", *SCORING_KINDS),
        intake=table.intake(media_types=(JSON, ARROW), check_query=endpoint.check_query, named_runs=True),
        parameters=[*RUN_PARAMETERS, *SCORE_PARAMETERS],
        content=STREAMS,
        response_model=ScoreReply,
        summary="Score responses",
        tags=["scoring"],
    )
    table.add_with_body(
        "/v1/explain",
        explain_endpoint(state.paths, state.evaluators),
        ExplainRequest,
        example=(EXAMPLE_EXPLAIN_REQUEST, None),
        intake=table.intake(max_bytes=MAX_BODY_BYTES),
        response_model=Explanation,
        summary="Explain one reward",
        tags=["scoring"],
    )


def add_evaluation(table: RouteTable, state: ServiceState, about: About) -> None:
    table.add_with_body(
        "/v1/evaluate",
        evaluate_endpoint(state.paths.limits, state.evaluators),
        EvaluateRequest,
        example=(EXAMPLE_EVALUATION, None),
        response_model=EvaluateReply,
        summary="Evaluate records",
        tags=["evaluation"],
    )
    tasks: dict[str, Any] = {"response_model": TasksReply, "tags": ["evaluation"]}
    table.add("GET", "/v1/tasks", about.tasks, summary="Tasks and metrics", **tasks)


def add_trainers(table: RouteTable, state: ServiceState) -> None:
    gym = "/compat/nemo-gym"

    def add_post(path: str, endpoint: Any, summary: str, request: type[BaseModel], reply: Any, **options: Any) -> None:
        options |= {"response_model": reply, "summary": summary, "tags": ["trainers"]}
        table.add_with_body(path, endpoint, request, example=trainers.EXAMPLES[path], **options)

    def add_rewards(path: str, dialect: Dialect, trainer: str, request: type[BaseModel], reply: Any) -> None:
        endpoint = TrainerEndpoint(dialect, state.paths, state.rewarders, state.metrics, state.refusals)
        parameters = [*RUN_PARAMETERS, *query_parameters(dialect.options)]
        intake = table.intake(check_query=endpoint.check_query, named_runs=True)
        summary = f"{trainer}: rewards"
        add_post(path, endpoint.answer, summary, request, reply, parameters=parameters, intake=intake)

    add_rewards("/compat/openrlhf", OpenRlhf(), "OpenRLHF", trainers.OpenRlhfRequest, trainers.OpenRlhfReply)
    add_rewards("/compat/slime", Slime(), "slime", trainers.SlimeRequest, trainers.SlimeReply | float)
    verified = trainers.VerifyReply | trainers.MaskedReply
    add_rewards(f"{gym}/verify", NemoGym(), "NeMo Gym", trainers.VerifyRequest, verified)
    evaluate = "/compat/eval-protocol/evaluate"
    add_rewards(evaluate, EvalProtocol(), "eval-protocol", trainers.EvaluationRequest, trainers.EvaluationResult)
    add_rewards("/compat/roll/submit", Roll(), "ROLL", trainers.RollRequest, trainers.RollReply)
    table.add_with_body(
        "/compat/roll/result",
        roll_result,
        trainers.RollResultRequest,
        example=trainers.ROLL_RESULT,
        method="GET",
        intake=table.intake(max_bytes=MAX_RESULT_REQUEST),
        response_model=trainers.RollResult,
        summary="ROLL: the result of a rollout",
        tags=["trainers"],
    )
    sessions = Sessions(state.paths)
    for name, summary in (("seed_session", "NeMo Gym: begin a rollout"), ("close_session", "NeMo Gym: end a rollout")):
        add_post(f"{gym}/{name}", sessions.session, summary, trainers.SessionRequest, trainers.SessionReply)
    statistics = aggregate_endpoint(state.paths.limits, state.evaluators)
    summary, request = "NeMo Gym: statistics of all rollouts", trainers.AggregateRequest
    add_post(f"{gym}/aggregate_metrics", statistics, summary, request, trainers.AggregateReply)
    for path, probe, summary, reply in (
        (gym, sessions.alive, "NeMo Gym: ready to score", trainers.AliveReply),
        (f"{gym}/reverify_mode", sessions.reverify_mode, "NeMo Gym: rescoring of saved rollouts", Literal["stateless"]),
    ):
        description: dict[str, Any] = {"response_model": reply, "summary": summary, "tags": ["trainers"]}
        table.add("GET", path, probe, ("not-ready",), traced=path != gym, **description)


def add_index(table: RouteTable, about: About, *, with_playground: bool) -> None:
    description: dict[str, Any] = {"response_model": IndexReply, "summary": "Index", "tags": ["description"]}
    if not with_playground:
        table.add("GET", "/", about.index, **description)
        return
    playground = Playground(about.index_reply)
    table.add("GET", "/", playground.index, reply=text_reply("text/html"), **description)
    for address, file in playground.files.items():
        table.add("GET", address, file.reply, include_in_schema=False)


def add_probes(table: RouteTable, state: ServiceState, about: About) -> None:
    probes = Probes(state.readiness, (state.fleet or state.metrics).exposition)
    probe: dict[str, Any] = {"response_model": StatusReply, "tags": ["operation"], "traced": False}
    for path in ("/livez", "/v2/health/live"):
        table.add("GET", path, probes.live, summary="Alive", **probe)
    for path in ("/readyz", "/v2/health/ready", "/health", "/healthz", "/ping"):
        table.add("GET", path, probes.ready, ("not-ready",), summary="Ready to score", **probe)
    table.add("GET", "/version", about.version, response_model=VersionReply, summary="Version", tags=["operation"])
    exposition: dict[str, Any] = {
        "reply": text_reply("text/plain", "application/openmetrics-text"),
        "response_class": PlainTextResponse,
    }
    table.add("GET", "/metrics", probes.metrics, summary="Metrics", tags=["operation"], traced=False, **exposition)


def add_docs(table: RouteTable) -> None:
    tags = ["description"]
    page: dict[str, Any] = {"response_class": HTMLResponse, "response_model": None}
    table.add("GET", "/docs", docs.page, summary="API documentation", tags=tags, **page)
    description: dict[str, Any] = {"response_class": JSONResponse, "response_model": dict[str, Any]}
    table.add("GET", "/openapi.json", docs.openapi, summary="OpenAPI document", tags=tags, **description)
    table.add("GET", "/docs/openapi.json", docs.openapi_of_page, include_in_schema=False)
    for name in docs.FILES:
        table.add("GET", f"/docs/{name}", docs.file_endpoint(name), include_in_schema=False)
