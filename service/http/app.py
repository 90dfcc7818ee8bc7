"""The application: routes, the middleware of every request, and a warm-up that runs while probes are answered."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from time import perf_counter
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from ...kernels.warmup import warmup as compile_kernels
from ..config import Config
from ..errors import forget_frames, format_traceback
from ..version import VERSION
from ..wire.problems import Problem
from .endpoints.about import About
from .endpoints.docs import complete
from .request.exchange import CONNECTION, EXCHANGE, ClientGone, Exchange
from .request.refusal_log import log_ids
from .routes import DirectRoute, add_routes, is_guarded
from .state import ServiceState

log = logging.getLogger("assay")

CLIENT_GONE = 499
"""Status in the metrics for requests whose client has disconnected."""


class RequestMiddleware:
    """Pure ASGI middleware that neither copies bodies nor wraps `receive` and `send`; routing is one lookup."""

    def __init__(self, app: ASGIApp, state: ServiceState, routes: Mapping[tuple[str, str], DirectRoute]) -> None:
        self.app = app
        self.state = state
        self.routes = routes
        self.paths = frozenset(path for path, _ in routes)
        self.tracing = state.tracing
        self.access_log = state.config.server.access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = scope[EXCHANGE] = Exchange(scope, receive, send, self.state.readiness, self.state.admission)
        path = scope["path"]
        if path[-1:] == "/" and path != "/":
            path = scope["path"] = path.rstrip("/") or "/"
        route = scope["route"] = self.routes.get((path, scope["method"]))
        span = None
        if self.tracing is not None and (route is None or route.traced):
            span = self.tracing.begin(exchange, "" if route is None else path, has_path=path in self.paths)
        cut_off = False
        try:
            if self.state.origin is not None:
                self.state.origin.check(scope["method"], exchange.raw_headers)
            await (self.app if route is None else route.serve)(scope, receive, send)
        except Exception as error:
            await self.answer(exchange, error)
            forget_frames(error)
        except CancelledError:  # by the server, which stops before the request is done: answer while there is time
            self.state.aborted_requests += 1
            cut_off = True
            connection = scope.get(CONNECTION)
            if connection is None or not connection.write_paused:  # do not wait for a client that does not read
                await self.answer(exchange, Problem("not-ready", "The service is shutting down."))
        finally:
            for share in (exchange.permit, exchange.reply_share):
                if share is not None:
                    share.release()
            self.count(exchange)
            if scope["method"] == "POST" and exchange.status not in (0, CLIENT_GONE) and not cut_off:
                self.state.metrics.answered += 1
            if self.tracing is not None and span is not None:
                self.tracing.end(span, exchange)
            del scope[EXCHANGE]  # so that the garbage collector need not find the cycle

    async def answer(self, exchange: Exchange, error: Exception) -> None:
        if isinstance(error, ClientGone):
            self.count_gone(exchange)
            return
        problem = self.problem_of(exchange, error)
        self.state.metrics.rejected(problem.kind)
        if not exchange.status:
            if isinstance(error, (Problem, HTTPException)):  # anything else is logged already
                self.log_refusal(exchange, problem)
            try:
                await exchange.reply_problem(problem)
            except ClientGone:
                self.count_gone(exchange)

    def count_gone(self, exchange: Exchange) -> None:
        self.state.metrics.disconnects.inc()
        exchange.status = CLIENT_GONE

    def log_refusal(self, exchange: Exchange, problem: Problem) -> None:
        """Log why a request was refused, at a limited rate, but no failed probes and unknown paths."""
        method, path = exchange.scope["method"], exchange.scope["path"]
        route = self.routes.get((path, method))
        if method != "POST" and (route is None or route.keys is None):
            return
        address = path if (path, "GET") in self.routes else route_of(exchange)  # unknown paths are never logged
        self.state.refusals.log(exchange, address, problem)

    def problem_of(self, exchange: Exchange, error: Exception) -> Problem:
        if isinstance(error, Problem):
            return error
        if isinstance(error, HTTPException) and error.status_code == HTTPStatus.NOT_FOUND:
            return Problem("not-found", "There is no such path.")
        if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            path = exchange.scope["path"]
            allowed = ", ".join(sorted(method for routed, method in self.routes if routed == path))
            headers = [(b"allow", allowed.encode("ascii"))]
            return Problem("method-not-allowed", f"This path allows {allowed}.", headers=headers)
        request_id = exchange.request_id.decode()
        log.error("request %s failed\n%s", request_id, format_traceback(error), extra=log_ids(exchange))
        if isinstance(error, MemoryError):
            detail = "The service could not allocate enough memory for this request; nothing was scored."
            return Problem("out-of-memory", detail)
        return Problem("internal", "The request failed inside the service; nothing was scored.")

    def count(self, exchange: Exchange) -> None:
        route = route_of(exchange)
        seconds = perf_counter() - exchange.started
        self.state.metrics.requests.observe(seconds, route, str(exchange.status))
        if exchange.times.queue:
            self.state.metrics.waits.observe(exchange.times.queue)
        if self.access_log:
            method, status = exchange.scope["method"], exchange.status
            extra = log_ids(exchange) | {"method": method, "route": route, "status": status, "seconds": seconds}
            log.info("%s %s %d in %.1f ms", method, route, status, 1e3 * seconds, extra=extra)


def route_of(exchange: Exchange) -> str:
    return getattr(exchange.scope.get("route"), "path", "unmatched")


DESCRIPTION = "Exact SCORE rewards for laboratory protocols. Every error is a problem document (RFC 9457)."


class Application(FastAPI):
    """FastAPI without its own middleware: `RequestMiddleware` answers all errors."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the middleware directly: FastAPI's telemetry costs a single request a fifth of its time."""
        scope["app"] = self
        if self.middleware_stack is None:
            self.middleware_stack = self.build_middleware_stack()
        await self.middleware_stack(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        app: ASGIApp = self.router
        for cls, args, kwargs in reversed(self.user_middleware):
            app = cls(app, *args, **kwargs)
        return app

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            self.openapi_schema = complete(self, is_guarded)
        return self.openapi_schema


def create_app(
    config: Config | None = None, warmup: Callable[[], Any] = compile_kernels, state: ServiceState | None = None
) -> Application:
    """Create an application, ready once its lifespan has run `warmup`; a worker passes the `state` with its channel."""
    config = config or Config()
    state = state or ServiceState(config, warmup)
    about = About(config)

    def prepare() -> None:
        _ = about.tasks_reply
        state.prepare()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        preparing = state.readiness.start(prepare)
        if state.fleet is not None:
            await state.fleet.join(state.readiness, state.metrics, preparing)
        yield
        state.close()

    app = Application(
        title="Assay",
        version=VERSION,
        description=DESCRIPTION,
        lifespan=lifespan,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.service = state
    app.add_middleware(RequestMiddleware, state=state, routes=add_routes(app, state, about))
    return app
