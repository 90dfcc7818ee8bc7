"""Tracebacks of errors: formatted without texts of requests, and dropped after the reply."""

from __future__ import annotations

import traceback

__all__ = ["forget_frames", "format_traceback"]


def format_traceback(error: BaseException) -> str:
    """Format the tracebacks of an error and its causes, root cause first; no messages, which may quote a request."""
    parts = []
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        parts.append(format_traceback(cause))
    parts.extend(traceback.format_tb(error.__traceback__))
    parts.append(f"{type(error).__module__}.{type(error).__qualname__}\n")
    return "".join(parts)


def forget_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error that has been answered, and of its causes.

    Their frames refer to the request's body, and often to a future that refers to the error: a cycle, which would keep
    the body in memory until the next garbage collection.
    """
    current: BaseException | None = error
    while current is not None:
        cause = current.__cause__ or current.__context__
        current.__traceback__ = current.__cause__ = current.__context__ = None
        current = cause
