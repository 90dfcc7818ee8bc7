"""Pages: documentation of the API, and the playground.

Browsers cache the files and revalidate them each time by their entity tags, so that a page never mixes two versions.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from asyncio import to_thread
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import orjson
from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from ...contract import EXAMPLE_COMPONENTS
from ...errors import Issue
from ...rewards.registry import REWARD_TASKS
from ...wire.contract import ProblemDocument
from ...wire.media_types import ARROW, ENCODINGS
from ...wire.problems import KINDS
from ..request.exchange import Exchange

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
PLAYGROUND_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing external, nothing inline, and no user text that could become markup."""

HEADERS = (
    (b"cache-control", b"no-cache"),
    (b"content-security-policy", PLAYGROUND_POLICY),
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
        if self.tag in exchange.raw_headers.get(b"if-none-match", b""):
            await self.reply_not_modified(exchange)
        elif quality_values(exchange.raw_headers.get(b"accept-encoding", b"")).get(b"gzip", 0.0) > 0:
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
        if prefers_html(exchange.raw_headers.get(b"accept", b"")):
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


@cache
def packaged_file(name: str) -> StaticFile:
    return StaticFile(Path(str(files("fastapi_offline"))) / "static" / name)


def file_endpoint(name: str) -> Callable[[Exchange], Awaitable[None]]:
    async def reply(exchange: Exchange) -> None:
        file = await to_thread(packaged_file, name)
        await file.reply(exchange)

    return reply


def parameter(name: str, place: str, description: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "description": description, "schema": schema, **more}


REFERENCE = "#/components/schemas/{model}"
PROBLEM_SCHEMA = {"$ref": REFERENCE.format(model="ProblemDocument")}
ANY_KIND = ("cross-site", "wrong-host", "method-not-allowed", "internal", "out-of-memory", "too-slow", "head-too-large")
REPLY_HEADERS: dict[str, Any] = {
    "X-Request-ID": {"description": "The request's id, or a generated one.", "schema": {"type": "string"}}
}
STAGE_HEADERS: dict[str, Any] = {
    "Server-Timing": {
        "description": "Milliseconds of decode, score, encode and queue, as far as the request got to them.",
        "schema": {"type": "string"},
        "example": "decode;dur=0.041, score;dur=0.093, encode;dur=0.012",
    }
}
STATUS_HEADERS = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    405: {"Allow": {"description": "Methods of this address.", "schema": {"type": "string"}}},
    429: {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}},
    503: {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}},
}
REQUEST_ID_PARAMETER = parameter(
    *("X-Request-ID", "header"),
    "Returned with the reply if it is up to 128 visible ASCII characters; otherwise generated.",
    {"type": "string"},
)
TIMEOUT_PARAMETER = parameter(
    *("X-Request-Timeout", "header"),
    "Seconds until the request's deadline; can only shorten the service's own. Less than a millisecond "
    "is over before the request is read (504).",
    {"type": "number", "minimum": 0.001},
    example=30,
)
ENCODING_PARAMETER = parameter(
    *("Content-Encoding", "header"),
    "Compression of the body; empty for none. Other services may differ: `zstd` needs the extra `zstd`.",
    {"type": "string", "enum": ["", *ENCODINGS]},
)
RUN_DESCRIPTION = "Name of the training run, a label of the metrics: 1 to 100 printable ASCII characters."
RUN_SCHEMA = {"type": "string", "pattern": "^[ -~]{1,100}$"}
RUN_PARAMETERS = [
    parameter("X-Assay-Run", "header", RUN_DESCRIPTION, RUN_SCHEMA),
    parameter("run", "query", RUN_DESCRIPTION, RUN_SCHEMA),
]
SCORE_PARAMETERS = [
    parameter(
        *("config", "query"),
        'The field `config`, as JSON such as `{"order":"lcs"}`: of an Arrow stream, or instead of the '
        "field in a JSON body.",
        {"type": "string", "contentMediaType": "application/json"},
    ),
    parameter(
        *("include", "query"),
        "The field `include`, likewise: any of `components`, `advantages` and `steps`, with commas.",
        {"type": "string", "pattern": "^((components|advantages|steps)?(,|$))*$"},
    ),
    parameter(
        *("task", "query"),
        "The field `task`, likewise: the task of every response. A stream may have a column instead.",
        {"type": "string", "enum": list(REWARD_TASKS)},
    ),
]
STREAMS = {
    ARROW.decode(): {
        "schema": {
            "type": "string",
            "format": "binary",
            "description": "An Arrow IPC stream (extra `arrow`). Columns of a request: `response`, `reference` "
            "(text, or a list of texts: alternatives), and optionally `group` and `task`; of a reply: `reward`, "
            "`reason`, and those that `include` names, with `alternative` beside `steps`.",
        }
    }
}
SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "Required only if keys are configured."},
    "basic": {"type": "http", "scheme": "basic", "description": "Any name, and the key as password."},
    "x_api_key": {"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "As eval-protocol sends it."},
    "xrl_authorization": {
        **{"type": "apiKey", "in": "header", "name": "XRL-Authorization"},
        "description": "`Bearer ` and the key, as ROLL sends it.",
    },
}

EXAMPLE_REPLY = {
    "rewards": [1.0, 0.0],
    "reasons": ["ok", "missing_sections"],
    "components": {name: [value, 0.0] for name, value in EXAMPLE_COMPONENTS.items()},
    "advantages": [0.7071067811865475, -0.7071067811865475],
    "config_id": "0123456789abcdef",
    "signature": "SCORE|rules:4|order:strict|semantics:sum|total:product|reward:unit|coverage:0.95|v:0.3.0",
}

EXAMPLE_ISSUES = (
    Issue("references[3]", "bad_step_json", "the braces of line 2 do not hold one valid JSON object"),
    Issue("config.ordr", "unknown_setting", "there is no setting of this name; did you mean order?"),
)


def problems_of(kinds: Iterable[str]) -> dict[int | str, dict[str, Any]]:
    """Return FastAPI's `responses` for these kinds of error and the kinds of every route."""
    responses: dict[int | str, dict[str, Any]] = {}
    for name in (*kinds, *ANY_KIND):
        kind = KINDS[name]
        response = responses.setdefault(kind.status, problem_response())
        response["description"] = " / ".join(filter(None, (response["description"], kind.title)))
        response["content"]["application/problem+json"]["examples"][name] = {"value": example_of(name)}
        response["headers"].update(STATUS_HEADERS.get(kind.status, {}))
    responses["default"] = problem_response() | {"description": "Any other error, in the same form"}
    return responses


def problem_response() -> dict[str, Any]:
    content = {"application/problem+json": {"schema": PROBLEM_SCHEMA, "examples": {}}}
    return {"description": "", "content": content, "headers": dict(REPLY_HEADERS)}


def example_of(name: str) -> dict[str, Any]:
    kind = KINDS[name]
    errors = [issue._asdict() for issue in EXAMPLE_ISSUES] if name == "invalid-request" else []
    return {
        "type": f"/docs#problem-{name}",
        "title": kind.title,
        "status": kind.status,
        "detail": kind.advice,
        "instance": "6f1c2a9be0d34a57-1",
        "errors": errors,
        "error_count": len(errors),
    }


def body_of(*models: type[BaseModel], example: Any) -> dict[str, Any]:
    """Return FastAPI's `openapi_extra` for a JSON body of one of these models; optional if it has no required field."""
    schemas = [{"$ref": REFERENCE.format(model=model.__name__)} for model in models]
    content = {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}, "example": example}
    required = any(field.is_required() for model in models for field in model.model_fields.values())
    return {
        "requestBody": {"required": required, "content": {"application/json": content}},
        "parameters": [TIMEOUT_PARAMETER, ENCODING_PARAMETER],
    }


def text_reply(*media_types: str) -> dict[str, Any]:
    """Return FastAPI's description of a reply in one of these text types."""
    return {"content": {media_type: {"schema": {"type": "string"}} for media_type in media_types}}


def complete(app: FastAPI, is_guarded: Callable[[str], bool]) -> dict[str, Any]:
    """Return the complete document; `is_guarded` tells which paths need a key if keys are configured."""
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    declared = [kind for route in app.routes for kind in getattr(route, "models", ())]
    kinds = [member for kind in declared for member in (kind, *get_args(kind))]
    models = {ProblemDocument, *filter(lambda kind: isinstance(kind, type(BaseModel)), kinds)}
    _, schemas = models_json_schema([(model, "validation") for model in models], ref_template=REFERENCE)
    document.setdefault("components", {})["schemas"] = dict(sorted(schemas["$defs"].items()))
    document["components"]["securitySchemes"] = SECURITY_SCHEMES
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            operation.setdefault("parameters", []).append(REQUEST_ID_PARAMETER)
            operation["security"] = [{}, *({name: []} for name in SECURITY_SCHEMES)] if is_guarded(path) else []
            for response in operation["responses"].values():
                response.setdefault("headers", dict(REPLY_HEADERS)).update(STAGE_HEADERS if method == "post" else {})
    return document
