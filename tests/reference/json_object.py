"""One JSON object by RFC 8259, as a key step holds it (docs/rules.md, Reading a response)."""

import json
import re
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 100
STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)', re.DOTALL)
BRACKET = re.compile(r"[\[\]{}]")


def depth(text: str) -> int:
    """Return the nesting depth of arrays and objects; the outermost counts 1."""
    deepest = level = 0
    for bracket in BRACKET.findall(STRING.sub("", text)):
        level += 1 if bracket in "[{" else -1
        deepest = max(deepest, level)
    return deepest


def strings(value: Any) -> Iterator[str]:
    """Yield every string of a JSON value, names included; objects are tuples of pairs."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from strings(part)


def refuse(literal: str) -> None:
    raise ValueError("NaN and Infinity are no JSON")


def json_object(text: str) -> dict[str, Any]:
    """Read one object; the last of two equal names wins. Raises ValueError if `text` is not valid.

    Numbers are read as floats because Python refuses integers of more than 4,300 digits.
    """
    if depth(text) > MAX_DEPTH:
        raise ValueError("nested too deeply")
    pairs = json.loads(text, parse_int=float, parse_constant=refuse, object_pairs_hook=tuple)
    if not isinstance(pairs, tuple):
        raise ValueError("not an object")
    "".join(strings(pairs)).encode()  # UnicodeEncodeError, a ValueError, for a lone surrogate
    return dict(pairs)
