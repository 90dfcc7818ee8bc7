"""The application: routes, middleware, and a warm-up that runs while probes are answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from ...kernels.warmup import warmup as compile_kernels
from ..config import Config
from ..version import VERSION
from .endpoints.about import About
from .endpoints.openapi import complete
from .middleware import RequestMiddleware
from .routes import add_routes
from .routing import is_guarded
from .state import ServiceState

__all__ = ["Application", "create_app"]

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
