"""Requests that must be refused, each with its expected error.

None of them may yield a reward or affect concurrent requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from exchanges import JSON, Exchange

__all__ = ["refusals"]

STEP = 'Step 1: {"action": "add", "objects": ["lysis buffer"], "parameters": ["5 ml"]}'
REQUEST = {"references": [STEP], "responses": ["nothing", "nothing"]}

NOT_JSON = {
    "truncated": json.dumps(REQUEST).encode()[:-9],
    "not UTF-8": b'{"references": [], "responses": ["\xff"]}',
    "lone surrogate": b'{"references": [], "responses": ["\\ud83d"]}',
    "NaN": b'{"references": [], "responses": [], "config": {"min_coverage": NaN}}',
    "100,000 arrays": b"[" * 100_000,
}

WRONG: dict[str, tuple[dict[str, Any], list[list[str]]]] = {
    "references": (
        REQUEST | {"references": [STEP, "", STEP[:-1], STEP.replace('"', "'")], "reference_index": [0, 0]},
        [["references[1]", "no_steps"], ["references[2]", "bad_step_line"], ["references[3]", "bad_step_json"]],
    ),
    "index": (
        REQUEST | {"reference_index": [1, -1]},
        [["reference_index[0]", "index_out_of_range"], ["reference_index[1]", "index_out_of_range"]],
    ),
    "lengths": (REQUEST | {"references": [STEP] * 3}, [["reference_index", "missing"]]),
    "settings": (
        REQUEST | {"config": {"ordr": "lcs", "min_coverage": 1.5}},
        [["config.ordr", "unknown_setting"], ["config.min_coverage", "invalid_setting"]],
    ),
    "types": (
        REQUEST | {"responses": ["nothing", None, 5]},
        [["responses[1]", "wrong_type"], ["responses[2]", "wrong_type"]],
    ),
    "no group": (
        {"references": [STEP], "responses": ["nothing"], "include": ["advantages"]},
        [["include", "no_group"]],
    ),
}

TOO_MANY = b'{"references":["Step 1"],"responses":[' + b'"",' * 65_536 + b'""]}'


def refused(
    name: str,
    status: int,
    kind: str,
    body: bytes,
    places: list[list[str]] | None = None,
    headers: dict[str, str] = JSON,
    **where: str,
) -> Exchange:
    answer = {"type": f"/docs#problem-{kind}"} | ({} if places is None else {"places": sorted(places)})
    return Exchange(f"refused: {name}", body, answer, 0, status, headers=headers, **where)


def refusals() -> Iterator[Exchange]:
    """Yield one request for each kind of refusal that a client can cause."""
    for name, body in NOT_JSON.items():
        yield refused(name, 400, "not-json", body, [["body", "not_json"]])
    for name, (request, places) in WRONG.items():
        yield refused(name, 422, "invalid-request", json.dumps(request).encode(), places)
    yield refused("65,537 responses", 413, "too-large", TOO_MANY)
    good = json.dumps(REQUEST).encode()
    yield refused("media type", 415, "unsupported-media-type", good, headers={"Content-Type": "text/plain"})
    yield refused("encoding", 415, "unsupported-encoding", good, headers=JSON | {"Content-Encoding": "br"})
    yield refused("address", 404, "not-found", good, path="/v1/scores")
    yield refused("method", 405, "method-not-allowed", good, method="PUT")
