"""W3C Trace Context: the `traceparent` headers of a request and its reply."""

from __future__ import annotations

import secrets

from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, format_span_id, format_trace_id, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["continue_trace", "format_traceparent", "parent_context"]

MAX_BYTES = 512
"""Maximum length of a `traceparent`; the propagator would log a warning if it were longer."""

PROPAGATOR = TraceContextTextMapPropagator()


def parent_context(traceparent: bytes) -> Context:
    """Return the context of the client's span; an empty one if the header is missing or invalid."""
    if len(traceparent) > MAX_BYTES:
        return Context()
    return PROPAGATOR.extract({"traceparent": traceparent.decode("latin-1")}, Context())


def continue_trace(traceparent: bytes) -> SpanContext | None:
    """Return a new span in the trace that a `traceparent` continues; None if it is invalid."""
    parent = get_current_span(parent_context(traceparent)).get_span_context()
    if not parent.is_valid:
        return None
    return SpanContext(parent.trace_id, secrets.randbits(64) or 1, is_remote=False, trace_flags=parent.trace_flags)


def format_traceparent(span: SpanContext) -> bytes:
    return f"00-{format_trace_id(span.trace_id)}-{format_span_id(span.span_id)}-{span.trace_flags:02x}".encode("ascii")
