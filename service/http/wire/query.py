"""Parsing of the query of a URL."""

from __future__ import annotations

from collections import Counter
from urllib.parse import parse_qsl

from ...errors import Issue

__all__ = ["parse_query"]


def parse_query(query: bytes) -> tuple[dict[str, str], list[Issue]]:
    """Return the names and values of a query, and its issues.

    Empty parts between `&` are ignored.
    """
    query = b"&".join(filter(None, query.split(b"&")))
    try:
        pairs = parse_qsl(query.decode("utf-8"), keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError:
        return {}, [Issue("query", "wrong_type", "must be name=value pairs in UTF-8")]
    repeated = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    return dict(pairs), [Issue(f"query.{name}", "repeated_setting", "given more than once") for name in repeated]
