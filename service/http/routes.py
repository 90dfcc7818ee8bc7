"""Every address of the service with its endpoint and its contract."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from ..explain.schema import EXAMPLE_EXPLAIN_REQUEST, ExplainRequest, Explanation
from .endpoints import about, docs
from .endpoints import evaluate as evaluating
from .endpoints import explain as explaining
from .endpoints import score as scoring
from .endpoints.openapi import EXAMPLE_REPLY, body_of, problems_of, text_of
from .endpoints.playground import Playground
from .endpoints.trainers.routes import addresses
from .request import readiness as health
from .request.intake import Intake
from .request.telemetry import metrics
from .wire.contract import (
    EXAMPLE_EVALUATION,
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
from .wire.media_types import ARROW, JSON

__all__ = ["EXCHANGE", "DirectRoute", "add_routes", "guarded_paths", "methods_of", "routes_by_address"]

EXCHANGE = "assay.exchange"
"""Where the scope of a request holds its exchange."""

GUARDED = ("/v1/", "/compat/")
"""Addresses that need a key, where keys are configured, begin so."""

PROBES = ("/compat/nemo-gym",)
"""Those among them that need none: asking whether there is anybody."""


PATIENCE = {"/compat/openrlhf": 170.0, "/compat/slime": 110.0, "/compat/nemo-gym": 600.0}
"""Seconds that requests to these addresses, and to those below them, wait for their turn rather than be refused: just
under what that trainer's client waits for a reply. OpenRLHF's gives up after 180 s, and after five refusals a second
apart goes on without a reward, whatever `Retry-After` says; slime's waits 120 s; NeMo Gym's has no limit of its own,
and takes a refusal for the end of the run. The deadline of such a request is its patience."""


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
"""Errors of routes that take a body."""


class DirectRoute(APIRoute):
    """A route that FastAPI matches and describes, but whose endpoint is called without FastAPI's own machinery.

    Dependency solving and response models cost more than scoring one response.
    """

    intake: Intake | None = None
    """How the route's requests come in; None for routes that read no body."""

    def __init__(self, path: str, endpoint: Any, **description: Any) -> None:
        super().__init__(path, endpoint, **description)
        self.methods: set[str]
        self.guarded = is_guarded(path)
        self.patience = next((seconds for base, seconds in PATIENCE.items() if is_below(path, base)), None)
        self.app = self.serve

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the key if one is needed, take the body in, and hand the exchange to the endpoint."""
        exchange = scope[EXCHANGE]
        if self.guarded:
            exchange.service.keys.check(exchange)
        if self.patience is not None:
            exchange.patience = self.patience
        if self.intake is not None:
            exchange.taken = await self.intake.take(exchange)
        await self.endpoint(exchange)


def is_below(path: str, base: str) -> bool:
    return path == base or path.startswith(f"{base}/")


def is_guarded(path: str) -> bool:
    """Whether an address needs a key where keys are configured."""
    return path.startswith(GUARDED) and path not in PROBES


def add_routes(app: FastAPI, *, with_docs: bool, with_playground: bool) -> None:
    """Register every route."""
    add_scoring(app)
    add_evaluation(app)
    add_trainers(app)
    add_descriptions(app)
    add_index(app, with_playground=with_playground)
    add_probes(app)
    if with_docs:
        add_docs(app)
    for route in [route for route in app.routes if isinstance(route, DirectRoute) and "GET" in route.methods]:
        add(app, "HEAD", route.path, route.endpoint, include_in_schema=False)


def add(
    app: FastAPI,
    method: str,
    path: str,
    endpoint: Any,
    kinds: tuple[str, ...] = (),
    intake: Intake | None = None,
    **description: Any,
) -> None:
    """Register one route; `kinds` are its own errors. Without an `intake`, bodies come in the usual way."""
    if is_guarded(path):
        kinds = ("unauthorized", *kinds)
    responses = problems_of(kinds)
    responses[200] = description.pop("reply", {})
    app.router.add_api_route(
        path,
        endpoint,
        methods=[method],
        operation_id=f"{method.lower()}{path.translate(str.maketrans('/.-', '___'))}",
        responses=responses,
        route_class_override=DirectRoute,
        **description,
    )
    if method == "POST":
        route = app.router.routes[-1]
        assert isinstance(route, DirectRoute)
        route.intake = intake or Intake()


def add_scoring(app: FastAPI) -> None:
    kinds = ("not-arrow", *SCORING_KINDS)
    reply = {"content": {"application/json": {"example": EXAMPLE_REPLY}}}
    description: dict[str, Any] = {
        "response_model": ScoreReply,
        "openapi_extra": body_of(ScoreRequest, TaskRewardRequest),
        "reply": reply,
        "tags": ["scoring"],
    }
    intake = Intake((JSON, ARROW))
    add(app, "POST", "/v1/score", scoring.score, kinds, intake, summary="Score responses", **description)
    description = {
        "response_model": Explanation,
        "openapi_extra": body_of(ExplainRequest, example=EXAMPLE_EXPLAIN_REQUEST),
        "summary": "Explain one reward",
        "tags": ["scoring"],
    }
    intake = Intake(max_bytes=explaining.MAX_BODY_BYTES)
    add(app, "POST", "/v1/explain", explaining.explain, SCORING_KINDS, intake, **description)


def add_evaluation(app: FastAPI) -> None:
    extra = body_of(EvaluateRequest, example=EXAMPLE_EVALUATION)
    description: dict[str, Any] = {"response_model": EvaluateReply, "openapi_extra": extra, "tags": ["evaluation"]}
    add(app, "POST", "/v1/evaluate", evaluating.evaluate, SCORING_KINDS, summary="Evaluate records", **description)
    tasks: dict[str, Any] = {"response_model": TasksReply, "tags": ["evaluation"]}
    add(app, "GET", "/v1/tasks", about.tasks, summary="Tasks and metrics", **tasks)


def add_trainers(app: FastAPI) -> None:
    for method, path, endpoint, intake, summary, request, model, example, parameters in addresses():
        description: dict[str, Any] = {"response_model": model, "summary": summary, "tags": ["trainers"]}
        if request is None or example is None:
            add(app, method, path, endpoint, ("not-ready",), **description)
            continue
        body, reply = example
        extra = body_of(request, example=body)
        extra["parameters"] = [*parameters, *extra["parameters"]]
        reply = {"content": {"application/json": {"example": reply}}}
        add(app, method, path, endpoint, SCORING_KINDS, intake, openapi_extra=extra, reply=reply, **description)


def add_descriptions(app: FastAPI) -> None:
    tags = ["description"]
    add(app, "GET", "/v1/config", about.config, response_model=ConfigReply, summary="Configuration", tags=tags)


def add_index(app: FastAPI, *, with_playground: bool) -> None:
    description: dict[str, Any] = {"response_model": IndexReply, "summary": "Index", "tags": ["description"]}
    if not with_playground:
        add(app, "GET", "/", about.index, **description)
        return
    playground = Playground()
    add(app, "GET", "/", playground.index, reply=text_of("text/html"), **description)
    for address, file in playground.files.items():
        add(app, "GET", address, file.reply, include_in_schema=False)


def add_probes(app: FastAPI) -> None:
    probe: dict[str, Any] = {"response_model": StatusReply, "tags": ["operation"]}
    for path in ("/livez", "/v2/health/live"):
        add(app, "GET", path, health.live, summary="Alive", **probe)
    for path in ("/readyz", "/v2/health/ready", "/health", "/ping"):
        add(app, "GET", path, health.ready, ("not-ready",), summary="Ready to score", **probe)
    add(app, "GET", "/version", about.version, response_model=VersionReply, summary="Version", tags=["operation"])
    exposition: dict[str, Any] = {
        "reply": text_of("text/plain", "application/openmetrics-text"),
        "response_class": PlainTextResponse,
    }
    add(app, "GET", "/metrics", metrics.expose, summary="Metrics", tags=["operation"], **exposition)


def add_docs(app: FastAPI) -> None:
    tags = ["description"]
    page: dict[str, Any] = {"response_class": HTMLResponse, "response_model": None}
    add(app, "GET", "/docs", docs.page, summary="This description, for people", tags=tags, **page)
    description: dict[str, Any] = {"response_class": JSONResponse, "response_model": dict[str, Any]}
    add(app, "GET", "/openapi.json", docs.openapi, summary="This description", tags=tags, **description)


def guarded_paths(app: FastAPI) -> list[str]:
    """Addresses that need a key where keys are configured."""
    return [route.path for route in app.routes if isinstance(route, DirectRoute) and route.guarded]


def routes_by_address(app: FastAPI) -> dict[tuple[str, str], DirectRoute]:
    """Every route by its path and method."""
    routes = [route for route in app.routes if isinstance(route, DirectRoute)]
    return {(route.path, method): route for route in routes for method in route.methods}


def methods_of(app: FastAPI, path: str) -> list[str]:
    """The methods of an address, sorted."""
    return sorted(method for known, method in routes_by_address(app) if known == path)
