"""/openapi.json, and /docs: FastAPI's Swagger UI, whose files this service has, followed by a list of all problems."""

from __future__ import annotations

import hashlib
import re
from asyncio import to_thread
from base64 import b64encode
from collections.abc import Awaitable, Callable
from html import escape
from importlib.resources import files
from pathlib import Path

import orjson
from fastapi.openapi.docs import get_swagger_ui_html

from ..request.exchange import Exchange
from ..wire.problems import KINDS
from .playground import HEADERS, StaticFile

__all__ = ["FILES", "file_endpoint", "openapi", "openapi_of_page", "page"]

SCRIPT, STYLE, ICON = FILES = ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png")
"""Files of the package `fastapi-offline`, served below `/docs/`."""


def marked_up(text: str) -> str:
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


PROBLEMS = "".join(
    f'<h4 id="problem-{name}">{kind.status} {escape(kind.title)}</h4>'
    f"<p><code>{name}</code>: {marked_up(kind.advice)}</p>"
    for name, kind in KINDS.items()
)
SECTION = f'<div class="swagger-ui"><section class="wrapper"><h2>Problems</h2>{PROBLEMS}</section></div></body>'

POLICY = (
    "default-src 'none'; script-src 'self' {scripts}; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""`scripts` are the digests of inline scripts. Swagger UI draws its icons from `data:` addresses."""


async def openapi(exchange: Exchange) -> None:
    """Return the OpenAPI document: every route, example and error."""
    await exchange.reply(orjson.dumps(exchange.app.openapi()))


async def openapi_of_page(exchange: Exchange) -> None:
    """Return the document with the service's address relative to it, so that calls reach it behind a proxy's prefix."""
    servers = [{"url": "..", "description": "this service"}]
    await exchange.reply(orjson.dumps(exchange.app.openapi() | {"servers": servers}))


async def page(exchange: Exchange) -> None:
    """Return the OpenAPI document as an HTML page that works offline."""
    raw_path = exchange.scope.get("raw_path") or b""
    slashes = len(raw_path) - len(raw_path.rstrip(b"/"))
    html = render(exchange.app.title, "../" * slashes + "docs/")
    hashes = [hashlib.sha256(script.encode()).digest() for script in re.findall("<script>(.*?)</script>", html, re.S)]
    scripts = " ".join(f"'sha256-{b64encode(digest).decode()}'" for digest in hashes)
    policy = (b"content-security-policy", POLICY.format(scripts=scripts).encode())
    headers = [policy, *(header for header in HEADERS if header[0] != policy[0])]
    await exchange.reply(html.encode(), b"text/html; charset=utf-8", headers=headers)


def render(title: str, folder: str) -> str:
    response = get_swagger_ui_html(
        openapi_url=f"{folder}openapi.json",
        title=title,
        swagger_js_url=folder + SCRIPT,
        swagger_css_url=folder + STYLE,
        swagger_favicon_url=folder + ICON,
        swagger_ui_parameters={
            "deepLinking": False,  # else it would interpret the fragments of problem types
            "validatorUrl": None,  # by default, another host draws a badge
        },
    )
    return bytes(response.body).decode().replace("</body>", SECTION)


def file_endpoint(name: str) -> Callable[[Exchange], Awaitable[None]]:
    loaded: list[StaticFile] = []

    async def reply(exchange: Exchange) -> None:
        if not loaded:
            path = Path(str(files("fastapi_offline"))) / "static" / name
            loaded.append(await to_thread(StaticFile, path))
        await loaded[0].reply(exchange)

    return reply
