"""Python's own parser for text that a model wrote: limited in length and depth, quiet, and with one error."""

from __future__ import annotations

import ast
import re
import threading
import warnings
from typing import Any

__all__ = ["Unreadable", "depth", "parse_python"]

BRACKET = re.compile(r"[][(){}]")

_quiet = threading.Lock()


class Unreadable(ValueError):
    """A text that a metric cannot read; `reason` is one of the task's failures."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def parse_python(text: str, max_length: int, max_depth: int, mode: str = "exec") -> Any:
    """Return the tree of a text, `ast.Module` or with mode "eval" `ast.Expression`.

    Raises Unreadable with `too_large` if it exceeds the limits, or with `syntax_error`.

    The limits bound the time and the C stack that the parser takes. It may still find an expression too deep (a long
    run of signs), and then raises one of the last two errors without harm.
    """
    if len(text) > max_length or depth(text) > max_depth:
        raise Unreadable("too_large")
    try:
        with _quiet, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Unreadable("syntax_error") from None


def depth(text: str) -> int:
    """Return the maximum nesting of brackets, including those in strings and comments."""
    deepest = level = 0
    for bracket in BRACKET.finditer(text):
        level = level + 1 if bracket[0] in "([{" else max(0, level - 1)
        deepest = max(deepest, level)
    return deepest
