"""The playground, which browsers get at `/` in place of the index. Its files are read once and served from memory.

Browsers cache the files and revalidate them each time by their entity tags, so that a page never mixes two versions.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from ..request.exchange import Exchange

__all__ = ["Playground", "StaticFile", "prefers_html", "quality_values"]

FOLDER = Path(__file__).parents[1] / "static"
PAGE = "index.html"
ADDRESS = "/playground/"
MEDIA_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".png": b"image/png",
    ".svg": b"image/svg+xml",
}
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing external, nothing inline, and no user text that could become markup."""

HEADERS = (
    (b"cache-control", b"no-cache"),
    (b"content-security-policy", POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
JSON_NAMES = (b"application/json", b"application/*", b"*/*")


class StaticFile:
    def __init__(self, path: Path, vary: bytes = b"accept-encoding") -> None:
        self.plain = path.read_bytes()
        self.compressed = gzip.compress(self.plain, mtime=0)
        self.media_type = MEDIA_TYPES[path.suffix]
        self.tag = b'"%s"' % hashlib.sha256(self.plain).hexdigest()[:32].encode("ascii")
        self.headers = (*HEADERS, (b"etag", b"W/" + self.tag), (b"vary", vary))

    async def reply(self, exchange: Exchange) -> None:
        if self.tag in exchange.header(b"if-none-match"):
            await self.reply_not_modified(exchange)
        elif quality_values(exchange.header(b"accept-encoding")).get(b"gzip", 0.0) > 0:
            headers = (*self.headers, (b"content-encoding", b"gzip"))
            await exchange.reply(self.compressed, self.media_type, headers=headers)
        else:
            await exchange.reply(self.plain, self.media_type, headers=self.headers)

    async def reply_not_modified(self, exchange: Exchange) -> None:
        exchange.status = 304
        lines = [(b"x-request-id", exchange.request_id), *self.headers]
        await exchange.send_message({"type": "http.response.start", "status": 304, "headers": lines})
        await exchange.send_message({"type": "http.response.body", "body": b""})


class Playground:
    def __init__(self, index_reply: bytes, folder: Path = FOLDER) -> None:
        self._index_reply = index_reply
        self.page = StaticFile(folder / PAGE, vary=b"accept, accept-encoding")
        paths = (path for path in sorted(folder.iterdir()) if path.suffix in MEDIA_TYPES and path.name != PAGE)
        self.files = {ADDRESS + path.name: StaticFile(path) for path in paths}

    async def index(self, exchange: Exchange) -> None:
        """Return the playground to browsers (`Accept: text/html`), and to others the index as JSON."""
        if prefers_html(exchange.header(b"accept")):
            await self.page.reply(exchange)
        else:
            await exchange.reply(self._index_reply, headers=((b"vary", b"accept, accept-encoding"),))


def prefers_html(accept: bytes) -> bool:
    """Return True if an Accept header prefers HTML to JSON; JSON wins a tie if it is named."""
    qualities = quality_values(accept)
    html = qualities.get(b"text/html", 0.0)
    json_name = next((name for name in JSON_NAMES if name in qualities), b"")
    json = qualities.get(json_name, 0.0)
    return html > json or (html == json > 0 and json_name != JSON_NAMES[0])


def quality_values(header: bytes) -> dict[bytes, float]:
    """Parse a header such as Accept into names with their quality values (RFC 9110 section 12.4.2); 0 if malformed."""
    qualities = {}
    for entry in header.lower().split(b","):
        name, *parameters = (part.strip() for part in entry.split(b";"))
        value = next((part[2:] for part in parameters if part.startswith(b"q=")), b"1")
        try:
            qualities[name] = min(1.0, max(0.0, float(value)))
        except ValueError:
            qualities[name] = 0.0
    return qualities
