"""OpenTelemetry tracing: a span for each request except probes, exported as the OTEL_… variables say.

Enabled by the setting `traces`; OpenTelemetry's SDK and exporter (the extra `otel`) are imported only then.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from ...errors import AssayError
from ...version import VERSION
from ...wording import install_command
from .exchange import Exchange, parent_context

SERVER_ERROR = 500
METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
"""The methods that the semantic conventions name; the method of other spans is `_OTHER`."""

UNKNOWN_PATH = "REDACTED"
"""The path of a span without a route: the client's text is private."""


class TracingUnavailable(AssayError, ImportError):
    """The setting `traces` is on, but OpenTelemetry is not installed."""


class Tracing:
    """Starts and ends the spans of requests; the request's `traceparent` is the parent.

    Attributes follow OpenTelemetry's semantic conventions of HTTP servers, but none has text of the request: neither an
    unknown path, nor the query, nor the client's name for the server or for itself.
    """

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("assay", VERSION)

    def begin(self, exchange: Exchange, route: str, *, has_path: bool) -> Span:
        """Start the span of a request to `route`, empty for none; `has_path`: some method has a route of its path."""
        scope = exchange.scope
        method, server = scope["method"], scope.get("server") or (None, None)
        attributes = {
            "http.request.method": method if method in METHODS else "_OTHER",
            "http.request.method_original": None if method in METHODS else method,
            "http.route": route or None,
            "url.path": scope["path"] if has_path else UNKNOWN_PATH,
            "url.scheme": scope.get("scheme", "http"),
            "server.address": server[0],
            "server.port": server[1],
            "network.protocol.version": scope["http_version"],
        }
        attributes = {name: value for name, value in attributes.items() if value is not None}
        name = f"{method if method in METHODS else 'HTTP'} {route}".rstrip()
        context = parent_context(exchange.raw_headers.get(b"traceparent", b""))
        span: Span = self._tracer.start_span(name, context, SpanKind.SERVER, attributes)
        exchange.span = span.get_span_context()
        return span

    def end(self, span: Span, exchange: Exchange) -> None:
        status, times = exchange.status, exchange.times
        span.set_attribute("assay.request_id", exchange.request_id.decode("ascii"))
        if exchange.run:
            span.set_attribute("assay.run", exchange.run)
        for stage in times.ran():
            span.set_attribute(f"assay.{stage}_seconds", getattr(times, stage))
        if status:
            span.set_attribute("http.response.status_code", status)
        if not status or status >= SERVER_ERROR:
            span.set_attribute("error.type", str(status or "no_reply"))
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def close(self) -> None:
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

    name = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "assay"}
    provider = TracerProvider(resource=Resource.create(name | {"service.version": VERSION}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)
