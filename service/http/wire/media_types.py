"""Parsing of the Content-Type header."""

from __future__ import annotations

from ...errors import Issue
from .problems import Problem

__all__ = ["ARROW", "JSON", "media_type_of"]

JSON = b"application/json"
ARROW = b"application/vnd.apache.arrow.stream"


def media_type_of(content_type: bytes, supported: tuple[bytes, ...] = (JSON, ARROW)) -> bytes:
    """Return the one of `supported` that the header names.

    A missing header means JSON: many HTTP libraries send none with plain bytes. Raise Problem `unsupported-media-type`
    for any other type, and for JSON that is not in UTF-8.
    """
    if content_type in (JSON, b""):
        return JSON
    kind, *parameters = (part.strip().lower() for part in content_type.split(b";"))
    charsets = {value.strip(b'"') for name, _, value in (p.partition(b"=") for p in parameters) if name == b"charset"}
    if kind not in supported or (kind == JSON and not charsets <= {b"utf-8", b"utf8"}):
        names = ", ".join(name.decode() for name in supported)
        issue = Issue("Content-Type", "unsupported_media_type", f"supported: {names}")
        raise Problem("unsupported-media-type", "The body's media type is not supported here.", [issue])
    return kind
