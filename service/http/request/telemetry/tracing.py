"""OpenTelemetry tracing: one span per request, exported as the OTEL_… environment variables say.

Enabled by the setting `traces`; OpenTelemetry's SDK and exporter (the extra `otel`) are imported only then.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from ....errors import AssayError
from ....extras import install_command
from ....version import VERSION
from ...wire.stage_times import STAGES
from ..exchange import Exchange
from ..trace_context import parent_context

__all__ = ["Tracing", "TracingUnavailable", "otlp_tracing", "require_opentelemetry"]

SERVER_ERROR = 500


class TracingUnavailable(AssayError, ImportError):
    """The setting `traces` is on, but OpenTelemetry is not installed."""


class Tracing:
    """Starts and ends the span of each request; the request's `traceparent` is its parent."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("assay", VERSION)

    def begin(self, exchange: Exchange) -> Span:
        """Start the span of a request, and set its ids for the reply and the log."""
        context = parent_context(exchange.header(b"traceparent"))
        span: Span = self._tracer.start_span(exchange.scope["method"], context, SpanKind.SERVER)
        exchange.span = span.get_span_context()
        return span

    def end(self, span: Span, exchange: Exchange, route: str) -> None:
        """Set the attributes of the span, none of which has texts of the request, and end it."""
        method = exchange.scope["method"]
        span.update_name(f"{method} {route}")
        span.set_attributes(
            {
                "http.request.method": method,
                "http.route": route,
                "http.response.status_code": exchange.status,
                "assay.request_id": exchange.request_id.decode("ascii"),
                **({"assay.run": exchange.run} if exchange.run else {}),
                **{f"assay.{stage}_seconds": getattr(exchange.times, stage) for stage in STAGES},
            }
        )
        if exchange.status >= SERVER_ERROR:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def close(self) -> None:
        """Export the remaining spans."""
        self._provider.shutdown()


def require_opentelemetry() -> None:
    """Raise TracingUnavailable unless the packages for `otlp_tracing` are installed."""
    for name in ("opentelemetry.sdk", "opentelemetry.exporter", "opentelemetry.exporter.otlp"):
        if find_spec(name) is None:
            raise TracingUnavailable(f"The setting `traces` needs OpenTelemetry: {install_command('otel')}")


def otlp_tracing() -> Tracing:
    """Return tracing that exports spans in batches by OTLP over HTTP; raise TracingUnavailable."""
    require_opentelemetry()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "assay"}
    provider = TracerProvider(resource=Resource.create(named | {"service.version": VERSION}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)
