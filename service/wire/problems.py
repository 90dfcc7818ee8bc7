"""Problems: the error replies of the service, and their documents (RFC 9457)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

import orjson
from pydantic import BaseModel, ConfigDict

from ..errors import Issue

MAX_ERRORS = 100
"""Maximum number of issues in one document; its `error_count` counts all issues."""

TRANSIENT = (429, 503)
RETRY_SOON = ((b"retry-after", b"1"),)


class Kind(NamedTuple):
    """One kind of error: its status, its title, and advice for the client."""

    status: int
    title: str
    advice: str


KINDS = {
    "not-json": Kind(400, "Not JSON", "Send one JSON text (RFC 8259) in UTF-8, without NaN and lone surrogates."),
    "not-arrow": Kind(400, "Not Arrow", "Send one Arrow IPC stream, as pyarrow's `ipc.new_stream` writes it."),
    "bad-encoding": Kind(400, "Invalid compression", "Send one complete gzip or zstd stream."),
    "unauthorized": Kind(
        401, "Key missing or wrong", "Send it as a bearer token, or as the password of Basic authentication."
    ),
    "cross-site": Kind(403, "Cross-site request", "Call the service from a program, or from its own pages."),
    "not-found": Kind(404, "Not found", "GET /openapi.json lists every path."),
    "method-not-allowed": Kind(405, "Method not allowed", "The header Allow lists the methods of this path."),
    "too-slow": Kind(408, "Too slow", "Send head and body faster; `head_seconds` and `body_seconds` are settings."),
    "too-large": Kind(413, "Over a limit", "Send several smaller requests; GET /v1/config has the limits."),
    "unsupported-media-type": Kind(415, "Unsupported media type", "Send `Content-Type: application/json` in UTF-8."),
    "unsupported-encoding": Kind(415, "Unsupported Content-Encoding", "Send the body as it is, or in gzip or zstd."),
    "wrong-host": Kind(421, "Wrong host", "Use localhost, or add the host to `allowed_hosts`."),
    "invalid-request": Kind(422, "Invalid request", "`errors` lists every field to fix; nothing was scored."),
    "over-capacity": Kind(429, "Over capacity", "Send the same request again after `Retry-After` seconds."),
    "memory-full": Kind(429, "Memory full", "Send the same request again after `Retry-After` seconds."),
    "head-too-large": Kind(431, "Head too large", "Send fewer or shorter headers; `max_head_bytes` is a setting."),
    "internal": Kind(500, "Internal error", "Nothing was scored. Report it with the request id."),
    "out-of-memory": Kind(503, "Out of memory", "Send it again after `Retry-After` seconds, or in smaller requests."),
    "not-ready": Kind(503, "Not ready", "Send the same request again after `Retry-After` seconds."),
    "deadline": Kind(504, "Deadline exceeded", "Send smaller requests, or allow more time."),
}
"""Every kind of error; `type` of its document is `/docs#problem-NAME`."""


class Problem(Exception):
    """An error reply that quotes no text, by default with `Retry-After: 1` for kinds that pass by themselves."""

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
        self.headers = tuple(headers) or (RETRY_SOON if self.status in TRANSIENT else ())
        self.error_count = len(issues) if error_count is None else error_count

    def copy(self) -> Problem:
        """Return the problem without the traceback of this one."""
        return Problem(self.kind, self.detail, self.issues, self.headers, self.error_count)

    @property
    def listed(self) -> list[Issue]:
        return [issue._replace(path=truncate(issue.path)) for issue in self.issues[:MAX_ERRORS]]

    @property
    def status(self) -> int:
        return KINDS[self.kind].status

    def document(self, request_id: str) -> bytes:
        """Return the document as bytes, with the id as a URI reference and the first `MAX_ERRORS` issues."""
        return orjson.dumps(
            {
                "type": f"/docs#problem-{self.kind}",
                "title": KINDS[self.kind].title,
                "status": self.status,
                "detail": self.detail,
                "instance": quote(request_id, safe=""),
                "errors": [issue._asdict() for issue in self.listed],
                "error_count": self.error_count,
            }
        )


class Refusal(BaseModel):
    """A problem without headers of its own as JSON, for another process."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: str
    detail: str
    issues: list[Issue]
    error_count: int

    @classmethod
    def of(cls, problem: Problem) -> Refusal:
        return cls(kind=problem.kind, detail=problem.detail, issues=problem.listed, error_count=problem.error_count)

    def problem(self) -> Problem:
        return Problem(self.kind, self.detail, self.issues, error_count=self.error_count)


def invalid_request(issues: Sequence[Issue], error_count: int | None = None) -> Problem:
    """Return the problem of a request with these issues, which may be the first of `error_count`."""
    count = len(issues) if error_count is None else error_count
    errors = "1 error" if count == 1 else f"{count} errors"
    return Problem("invalid-request", f"{errors}; nothing was scored. See `errors`.", issues, error_count=count)


MAX_PATH = 128
"""Maximum characters of a path, which may contain a name of any length from the request."""


def truncate(path: str) -> str:
    return path if len(path) <= MAX_PATH else path[: MAX_PATH - 1] + "…"


def too_large(limit: int) -> Problem:
    issue = Issue("body", "too_large", f"more than {limit} bytes")
    return Problem("too-large", f"A body may have {limit} bytes, before and after decompression.", [issue])
