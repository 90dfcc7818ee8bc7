"""The playground: at `/`, what a browser gets in place of the index. Every file is read once and served from memory.

The files lie in `static/`, written by hand. Browsers keep them and ask each time whether they are still right (an
entity tag), so that a page never mixes the files of two versions.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from ..request.exchange import Exchange

__all__ = ["Playground", "StaticFile", "prefers_html", "weights"]

FOLDER = Path(__file__).parents[1] / "static"
PAGE = "index.html"
ADDRESS = "/playground/"
"""Where everything lies that the page loads."""

MEDIA_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing from elsewhere, nothing inline, and no text of a user that could become markup."""

HEADERS = (
    (b"cache-control", b"no-cache"),
    (b"content-security-policy", POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
JSON_NAMES = (b"application/json", b"application/*", b"*/*")


class StaticFile:
    """One file, plain and compressed, with the headers of its replies."""

    def __init__(self, path: Path, vary: bytes = b"accept-encoding") -> None:
        self.plain = path.read_bytes()
        self.compressed = gzip.compress(self.plain, mtime=0)
        self.media_type = MEDIA_TYPES[path.suffix]
        self.tag = b'"%s"' % hashlib.sha256(self.plain).hexdigest()[:32].encode("ascii")
        self.headers = (*HEADERS, (b"etag", b"W/" + self.tag), (b"vary", vary))

    async def reply(self, exchange: Exchange) -> None:
        """The file, or 304 where the browser has it already."""
        if self.tag in exchange.header(b"if-none-match"):
            await self.reply_not_modified(exchange)
        elif weights(exchange.header(b"accept-encoding")).get(b"gzip", 0.0) > 0:
            headers = (*self.headers, (b"content-encoding", b"gzip"))
            await exchange.reply(self.compressed, self.media_type, headers=headers)
        else:
            await exchange.reply(self.plain, self.media_type, headers=self.headers)

    async def reply_not_modified(self, exchange: Exchange) -> None:
        """No body, and so no length of one (RFC 9110 section 15.4.5)."""
        exchange.status = 304
        lines = [(b"x-request-id", exchange.request_id), (b"server-timing", exchange.times.header()), *self.headers]
        await exchange.send_message({"type": "http.response.start", "status": 304, "headers": lines})
        await exchange.send_message({"type": "http.response.body", "body": b""})


class Playground:
    """The page, and by their addresses the files that it loads."""

    def __init__(self, index_reply: bytes, folder: Path = FOLDER) -> None:
        """`index_reply` is what clients other than browsers get in place of the page."""
        self._index_reply = index_reply
        self.page = StaticFile(folder / PAGE, vary=b"accept, accept-encoding")
        paths = (path for path in sorted(folder.iterdir()) if path.suffix in MEDIA_TYPES and path.name != PAGE)
        self.files = {ADDRESS + path.name: StaticFile(path) for path in paths}

    async def index(self, exchange: Exchange) -> None:
        """The playground for browsers (`Accept: text/html`), and for everything else what this server is."""
        if prefers_html(exchange.header(b"accept")):
            await self.page.reply(exchange)
        else:
            await exchange.reply(self._index_reply, headers=((b"vary", b"accept, accept-encoding"),))


def prefers_html(accept: bytes) -> bool:
    """Whether an Accept header names HTML and does not prefer JSON; where it names both alike, JSON it stays."""
    given = weights(accept)
    html = given.get(b"text/html", 0.0)
    json_name = next((name for name in JSON_NAMES if name in given), b"")
    json = given.get(json_name, 0.0)
    return html > json or (html == json > 0 and json_name != JSON_NAMES[0])


def weights(header: bytes) -> dict[bytes, float]:
    """The names in a header of preferences with their weights (RFC 9110 section 12.4.2); what is malformed weighs 0."""
    found = {}
    for entry in header.lower().split(b","):
        name, *parameters = (part.strip() for part in entry.split(b";"))
        given = next((part[2:] for part in parameters if part.startswith(b"q=")), b"1")
        try:
            found[name] = min(1.0, max(0.0, float(given)))
        except ValueError:
            found[name] = 0.0
    return found
