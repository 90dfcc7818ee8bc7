"""Keys of JSON values, by which rows with equal references or of one group are found."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import orjson

__all__ = ["numbered", "value_digest", "value_key"]


def value_key(value: Any) -> str | bytes:
    """Return a hashable key that is equal for equal JSON values, ignoring the order of names."""
    if isinstance(value, str):
        return value
    return b"%d" % value if type(value) is int else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def value_digest(value: Any) -> bytes:
    """Return 16 bytes that are equal for equal JSON values: instead of `value_key`, which is as long as its text."""
    key = value_key(value)
    content = b"s" + key.encode("utf-8", "replace") if isinstance(key, str) else b"j" + key
    return blake2b(content, digest_size=16).digest()


def numbered(numbers: dict[str | bytes, int], value: Any) -> int:
    """Return the number of a JSON value; values are numbered from 0 in the order of their first occurrence."""
    return numbers.setdefault(value_key(value), len(numbers))
