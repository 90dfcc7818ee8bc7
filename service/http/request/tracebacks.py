"""Tracebacks of errors: what of them may be logged, and that nothing outlives its request because of one."""

from __future__ import annotations

import traceback

__all__ = ["forget_frames", "stack_of"]


def stack_of(error: BaseException) -> str:
    """Format the error's stack and those of its causes, outermost cause first: files, lines and types.

    Messages are left out, because they may quote a request.
    """
    parts = []
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        parts.append(stack_of(cause))
    parts.extend(traceback.format_tb(error.__traceback__))
    parts.append(f"{type(error).__module__}.{type(error).__qualname__}\n")
    return "".join(parts)


def forget_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error that has been answered, and of those that it was raised from.

    Their frames hold the request's body, and often a future that holds the error: a cycle, which would keep the body in
    memory until the garbage collector happens to run.
    """
    current: BaseException | None = error
    while current is not None:
        cause = current.__cause__ or current.__context__
        current.__traceback__ = current.__cause__ = current.__context__ = None
        current = cause
