"""W3C Trace Context: the `traceparent` of a request, and the one that its reply carries."""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

__all__ = ["Trace", "trace_of"]

VALID = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?")


class Trace(NamedTuple):
    """One step of a trace, in lower-case hexadecimal digits as they travel."""

    trace_id: bytes
    parent_id: bytes
    span_id: bytes
    """Of this service's own step."""
    flags: bytes

    def header(self) -> bytes:
        """The value of `traceparent` that names this step."""
        return b"00-%b-%b-%b" % (self.trace_id, self.span_id, self.flags)


def trace_of(given: bytes) -> Trace | None:
    """The trace that a `traceparent` continues, with a new step; None where it is not a valid one."""
    found = VALID.fullmatch(given)
    if found is None:
        return None
    version, trace_id, parent_id, flags, more = found.groups()
    if version == b"ff" or (version == b"00" and more) or not trace_id.strip(b"0") or not parent_id.strip(b"0"):
        return None
    return Trace(trace_id, parent_id, secrets.token_hex(8).encode("ascii"), flags)
