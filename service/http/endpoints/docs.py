"""/openapi.json, and /docs: the same document as one HTML page without scripts or external resources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import orjson

from ..request.exchange import Exchange
from ..wire.problems import KINDS

__all__ = ["openapi", "page", "render"]

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #0a7d4f; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
code, pre { font: 0.875em/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: 0.75rem; overflow-x: auto; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem; border-bottom: 1px solid var(--line); }
.method { color: var(--accent); font-weight: 700; } summary { cursor: pointer; padding: 0.25rem 0; }
nav a { margin-right: 1rem; } a { color: var(--accent); }
"""


async def openapi(exchange: Exchange) -> None:
    """Return the OpenAPI document: every route, example and error."""
    await exchange.reply(orjson.dumps(exchange.app.openapi()))


async def page(exchange: Exchange) -> None:
    """Return the OpenAPI document as an HTML page that works offline."""
    html = render(exchange.app.openapi()).encode("utf-8")
    policy = b"default-src 'none'; style-src 'unsafe-inline'"
    headers = [(b"content-security-policy", policy), (b"x-content-type-options", b"nosniff")]
    await exchange.reply(html, b"text/html; charset=utf-8", headers=headers)


def render(document: dict[str, Any]) -> str:
    """Render an OpenAPI document as HTML."""
    info = document["info"]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>",
        '<nav><a href="#routes">Routes</a><a href="#models">Models</a><a href="#problems">Problems</a>'
        '<a href="/openapi.json">openapi.json</a></nav>',
        '<main><h2 id="routes">Routes</h2>',
        *operations(document),
        '<h2 id="models">Models</h2>',
        *models(document),
        '<h2 id="problems">Problems</h2>',
        *problems(),
        "</main></body></html>",
    ]
    return "".join(parts)


def operations(document: dict[str, Any]) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f'<section><h3 id="{escape(operation["operationId"])}"><span class="method">{method.upper()}</span> '
            yield f"<code>{escape(path)}</code></h3><p>{escape(operation.get('description', ''))}</p>"
            yield from parameters(operation)
            if "requestBody" in operation:
                yield "<h4>Request</h4>"
                yield from contents(operation["requestBody"]["content"])
            yield "<h4>Replies</h4>"
            yield from replies(operation["responses"])
            yield "</section>"


def parameters(operation: dict[str, Any]) -> Iterator[str]:
    rows = [
        (f"<code>{escape(one['name'])}</code>", escape(one["in"]), escape(one.get("description", "")))
        for one in operation.get("parameters", [])
    ]
    yield table(("Parameter", "In", "Meaning"), rows)


def replies(responses: dict[str, Any]) -> Iterator[str]:
    for status, response in responses.items():
        yield f"<details><summary><code>{status}</code> {escape(response['description'])}</summary>"
        yield from contents(response.get("content", {}))
        yield "</details>"


def contents(content: dict[str, Any]) -> Iterator[str]:
    for media_type, body in content.items():
        yield f"<p><code>{escape(media_type)}</code> {type_of(body.get('schema', {}))}</p>"
        examples = [body["example"]] if "example" in body else [e["value"] for e in body.get("examples", {}).values()]
        for example in examples:
            yield f"<pre>{escape(json.dumps(example, indent=2, ensure_ascii=False))}</pre>"


def models(document: dict[str, Any]) -> Iterator[str]:
    for name, schema in document["components"]["schemas"].items():
        yield f'<h3 id="model-{escape(name)}">{escape(name)}</h3><p>{escape(schema.get("description", ""))}</p>'
        required = set(schema.get("required", ()))
        rows = [
            (
                f"<code>{escape(field)}</code>{'' if field in required else ' (optional)'}",
                type_of(described),
                escape(described.get("description", "")),
            )
            for field, described in schema.get("properties", {}).items()
        ]
        yield table(("Field", "Type", "Meaning"), rows)


def problems() -> Iterator[str]:
    for name, kind in KINDS.items():
        yield f'<h3 id="problem-{name}"><code>{kind.status}</code> {escape(kind.title)}</h3>'
        yield f"<p>{escape(kind.advice)}</p>"


def type_of(schema: dict[str, Any]) -> str:
    """Return a short type name in HTML for a JSON schema."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[-1])
        return f'<a href="#model-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(type_of(choice) for choice in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return ", ".join(f"<code>{escape(json.dumps(choice))}</code>" for choice in choices)
    if schema.get("type") == "array":
        return f"array of {type_of(schema.get('items', {}))}"
    return escape(str(schema.get("type", "any")))


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{body}</table>"
