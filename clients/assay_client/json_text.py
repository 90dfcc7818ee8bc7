"""JSON with orjson if it is installed, else with the standard library."""

from __future__ import annotations

import json
import re
from typing import Any

try:
    import orjson
except ImportError:  # an optional extra
    orjson = None  # type: ignore[assignment]

__all__ = ["dumps", "loads"]

SURROGATES = re.compile("[\ud800-\udfff]")


def dumps(value: Any) -> bytes:
    """Return JSON in UTF-8, with lone surrogates replaced by U+FFFD; raise TypeError or ValueError."""
    if orjson is not None:
        try:
            return orjson.dumps(value)
        except TypeError:  # a lone surrogate, or not JSON: json.dumps decides
            pass
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return SURROGATES.sub("\ufffd", text).encode()


def loads(body: bytes | bytearray) -> Any:
    """Return the value of a JSON text; raise ValueError, also for NaN and the infinities."""
    if orjson is not None:
        return orjson.loads(body)
    return json.loads(body.decode(), parse_constant=reject_constant)


def reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
