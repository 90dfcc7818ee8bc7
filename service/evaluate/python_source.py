"""Python's own parser for text that a model wrote: quiet, with one error, and within limits that bound its cost.

Its time and memory are linear in the text but for three forms, on Python 3.11 to 3.13:

- a field of an f-string takes time in proportion to what precedes it in the string (3.11 only);
- a dotted name in an import is built again, and kept, for each of its names;
- normalizing an identifier (NFKC) takes quadratic time on a run of combining marks.

Each has a limit, also where its characters are in strings and comments. The limits are the same on every version,
because rewards must not depend on the interpreter.
"""

from __future__ import annotations

import ast
import re
import threading
import unicodedata
import warnings
from typing import Any

__all__ = ["MAX_BRACES", "MAX_MARKS", "MAX_NAMES", "MAX_TOKENS", "Unreadable", "depth", "parse_python"]

MAX_TOKENS = 131_072  # the parser takes up to 3.5 KB of memory for each
MAX_BRACES = 2_000  # in a text with an f-string, so that it has at most as many fields
MAX_NAMES = 100  # in one dotted name, in a text with an import
MAX_MARKS = 100
BRACKET = re.compile(r"[][(){}]")
TOKEN = re.compile(r"[\w\u0080-\U0010ffff]++|[^\w\s]")
F_STRING = re.compile(r"""[fF][rR]?["']|[rR][fF]["']""")
DOTTED = re.compile(r"\w++(?:[\s\\]*+\.[\s\\]*+\w++)++")

_quiet = threading.Lock()


class Unreadable(ValueError):
    """A text that a metric cannot read; `reason` is one of the task's failures."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def parse_python(text: str, max_length: int, max_depth: int, mode: str = "exec") -> Any:
    """Return the tree of a text; raises Unreadable with `too_large` beyond the limits, or with `syntax_error`.

    Within them the parser may still reach its limit of recursion, which is a `syntax_error` too.
    """
    if len(text) > max_length or depth(text) > max_depth or is_costly(text):
        raise Unreadable("too_large")
    try:
        with _quiet, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Unreadable("syntax_error") from None


def is_costly(text: str) -> bool:
    return (
        (len(text) > MAX_TOKENS and sum(1 for _ in TOKEN.finditer(text)) > MAX_TOKENS)
        or (text.count("{") > MAX_BRACES and F_STRING.search(text) is not None)
        or (text.count(".") >= MAX_NAMES and "import" in text and longest_name(text) > MAX_NAMES)
        or (len(text) > MAX_MARKS and not text.isascii() and longest_run_of_marks(text) > MAX_MARKS)
    )


def longest_name(text: str) -> int:
    return max((match[0].count(".") + 1 for match in DOTTED.finditer(text)), default=0)


def longest_run_of_marks(text: str) -> int:
    marks = "".join(filter(is_mark, set(text)))
    return max(map(len, re.findall(f"[{marks}]++", text)), default=0) if marks else 0


def is_mark(character: str) -> bool:
    return not character.isascii() and unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) > 0


def depth(text: str) -> int:
    """Return the maximum nesting of brackets, including those in strings and comments."""
    deepest = level = 0
    for bracket in BRACKET.finditer(text):
        level = level + 1 if bracket[0] in "([{" else max(0, level - 1)
        deepest = max(deepest, level)
    return deepest
