"""Problem documents (RFC 9457): the one form in which every error leaves the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from ...errors import Issue

__all__ = ["KINDS", "MAX_ERRORS", "Kind", "Problem", "refusal"]

MAX_ERRORS = 100
"""Offending places listed in one document; `error_count` has the number of all."""

MAX_PATH = 128
"""Characters of a path that are shown: an unknown field's name is the client's, and may be of any length."""

MEDIA_TYPE = b"application/problem+json"


class Kind(NamedTuple):
    """One kind of error: its status, its title, and what to do about it."""

    status: int
    title: str
    advice: str


KINDS = {
    "not-json": Kind(400, "Not JSON", "Send one JSON text (RFC 8259) in UTF-8, without NaN and lone surrogates."),
    "not-arrow": Kind(400, "Not Arrow", "Send one Arrow IPC stream, as pyarrow's `ipc.new_stream` writes it."),
    "bad-encoding": Kind(400, "Content-Encoding cannot be undone", "Send one whole gzip or zstd stream."),
    "unauthorized": Kind(401, "Key missing or wrong", "Send it as a bearer token, or as the password of Basic."),
    "cross-site": Kind(403, "Sent by another site's page", "Call the service from a program, or from its own pages."),
    "not-found": Kind(404, "No such address", "GET /openapi.json lists every address."),
    "method-not-allowed": Kind(405, "Method not allowed", "The header Allow lists the methods of this address."),
    "too-slow": Kind(408, "Too slow", "Send head and body at once; `head_seconds` and `body_seconds` are settings."),
    "too-large": Kind(413, "Over a limit", "Send several smaller requests; GET /v1/config has the limits."),
    "unsupported-media-type": Kind(415, "Unsupported media type", "Send `Content-Type: application/json` in UTF-8."),
    "unsupported-encoding": Kind(415, "Unsupported Content-Encoding", "Send the body as it is, or in gzip or zstd."),
    "wrong-host": Kind(421, "Host not served here", "Call it as localhost, or name the host in `allowed_hosts`."),
    "invalid-request": Kind(422, "Invalid request", "`errors` lists every place to mend; nothing was scored."),
    "over-capacity": Kind(429, "Over capacity", "Send the same request again after `Retry-After` seconds."),
    "memory-full": Kind(429, "Memory full", "Send the same request again after `Retry-After` seconds."),
    "head-too-large": Kind(431, "Head too large", "Send fewer or shorter headers; `max_head_bytes` is a setting."),
    "internal": Kind(500, "Internal error", "Nothing was scored. Report it with the request id."),
    "out-of-memory": Kind(503, "Out of memory", "Send it again after `Retry-After` seconds, or in smaller requests."),
    "not-ready": Kind(503, "Not ready", "Send the same request again after `Retry-After` seconds."),
    "deadline": Kind(504, "Past the deadline", "Send smaller requests, or allow more time."),
}
"""Every kind of error; `type` of its document is `/docs#problem-NAME`."""


class Problem(Exception):
    """An error on its way to the client; `detail` and `issues` never quote the request's text."""

    def __init__(
        self,
        kind: str,
        detail: str,
        issues: Sequence[Issue] = (),
        headers: Sequence[tuple[bytes, bytes]] = (),
        error_count: int | None = None,
    ) -> None:
        super().__init__(kind)
        self.kind = kind
        self.detail = detail
        self.issues = issues
        self.headers = tuple(headers)
        self.error_count = len(issues) if error_count is None else error_count

    def __reduce__(self) -> tuple[type[Problem], tuple[Any, ...]]:
        """Only what a document shows goes from one process to another, however many places there are."""
        listed = [issue._replace(path=shown(issue.path)) for issue in self.issues[:MAX_ERRORS]]
        return type(self), (self.kind, self.detail, listed, self.headers, self.error_count)

    @property
    def status(self) -> int:
        return KINDS[self.kind].status

    def document(self, request_id: str) -> bytes:
        """The document's bytes; `errors` shows the first `MAX_ERRORS` places."""
        return orjson.dumps(
            {
                "type": f"/docs#problem-{self.kind}",
                "title": KINDS[self.kind].title,
                "status": self.status,
                "detail": self.detail,
                "instance": request_id,
                "errors": [
                    {"path": shown(issue.path), "reason": issue.reason, "detail": issue.detail}
                    for issue in self.issues[:MAX_ERRORS]
                ],
                "error_count": self.error_count,
            }
        )


def refusal(issues: Sequence[Issue]) -> Problem:
    """The answer to a request with these offending places."""
    places = "1 place" if len(issues) == 1 else f"{len(issues)} places"
    return Problem("invalid-request", f"Nothing was scored: {places} to mend, see `errors`.", issues)


def shown(path: str) -> str:
    return path if len(path) <= MAX_PATH else path[: MAX_PATH - 1] + "…"
