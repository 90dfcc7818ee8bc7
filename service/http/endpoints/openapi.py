"""The OpenAPI document of FastAPI, with the parts that it cannot infer from an endpoint's signature."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_args

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from ...contract import EXAMPLE_COMPONENTS
from ...errors import Issue
from ...rewards.registry import REWARD_TASKS
from ..wire.compression import ARROW, ENCODINGS
from ..wire.contract import ProblemDocument
from ..wire.problems import KINDS

__all__ = ["RUN_PARAMETERS", "SCORE_PARAMETERS", "STREAMS", "body_of", "complete", "problems_of", "text_of"]


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
    "Compression of the body. Other services may differ: `zstd` needs the extra `zstd`.",
    {"type": "string", "enum": list(ENCODINGS)},
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
        "The field `include`, likewise: `components`, `advantages`, or both with a comma.",
        {"type": "string", "pattern": "^((components|advantages)?(,|$))*$"},
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
            "description": "An Arrow IPC stream (extra `arrow`). Columns of a request: `response`, `reference`, "
            "and optionally `group` and `task`; of a reply: `reward`, `reason`, and those that `include` names.",
        }
    }
}
SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "Required only if keys are configured."},
    "basic": {"type": "http", "scheme": "basic", "description": "Any name, and the key as password."},
}

EXAMPLE_REPLY = {
    "rewards": [1.0, 0.0],
    "reasons": ["ok", "missing_sections"],
    "components": {name: [value, 0.0] for name, value in EXAMPLE_COMPONENTS.items()},
    "advantages": [0.7071067811865475, -0.7071067811865475],
    "config_id": "0123456789abcdef",
    "signature": "SCORE|rules:2|order:strict|semantics:sum|total:product|reward:unit|coverage:0.95|v:0.3.0.dev0",
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


def text_of(*media_types: str) -> dict[str, Any]:
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
            operation["security"] = [{}, {"bearer": []}, {"basic": []}] if is_guarded(path) else []
            for response in operation["responses"].values():
                response.setdefault("headers", dict(REPLY_HEADERS)).update(STAGE_HEADERS if method == "post" else {})
    return document
