"""W3C Trace Context: the `traceparent` headers of a request and its reply."""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

__all__ = ["Trace", "parse_traceparent"]

VALID = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?")


class Trace(NamedTuple):
    """One span of a trace, in lower-case hexadecimal digits."""

    trace_id: bytes
    parent_id: bytes
    span_id: bytes
    """The span of this service."""
    flags: bytes

    def header(self) -> bytes:
        """Return the value of `traceparent` for this span."""
        return b"00-%b-%b-%b" % (self.trace_id, self.span_id, self.flags)


def parse_traceparent(value: bytes) -> Trace | None:
    """Return the trace that a `traceparent` continues, with a new span; None if it is invalid."""
    found = VALID.fullmatch(value)
    if found is None:
        return None
    version, trace_id, parent_id, flags, more = found.groups()
    if version == b"ff" or (version == b"00" and more) or not trace_id.strip(b"0") or not parent_id.strip(b"0"):
        return None
    return Trace(trace_id, parent_id, secrets.token_hex(8).encode("ascii"), flags)
