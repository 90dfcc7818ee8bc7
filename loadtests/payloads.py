"""Requests of the scenarios: rollouts of the examples' generator, with answers computed in advance, and requests that
must be refused, each with its expected error: none of them may yield a reward or affect concurrent requests.

A GRPO step consists of `prompts` groups of `samples` responses; the batch is one such step.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from exchanges import JSON, Exchange

from assay import Scorer, ScoreSettings, __version__
from examples.rollouts import as_request, generate

__all__ = ["Payloads", "refusals"]

PIECES = 20
SINGLES = 1_000
GROUP = 5
ZIPPED = 64

Rollouts = Sequence[dict[str, str]]

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

MAX_RESPONSES = 65_536
"""The limit of a service with default settings."""


class Payloads:
    """The exchanges of every scenario, for one seed.

    config : `GET /v1/config` of the service, with the settings, limits and version that its answers depend on; without
    it, the answers are for a service of this version with default settings.
    """

    def __init__(self, prompts: int, samples: int, seed: int, config: Mapping[str, Any] | None = None) -> None:
        self._scorer = Scorer(ScoreSettings(**config["config"])) if config else Scorer()
        self._version = config["version"] if config else __version__
        self._max_responses = config["limits"]["max_responses"] if config else MAX_RESPONSES
        self._rollouts = list(generate(prompts, samples, seed))

    def batch(self) -> Iterator[Exchange]:
        """Yield the whole step as one request, with advantages."""
        yield self._exchange("batch", as_request(self._rollouts) | {"include": ["advantages"]})

    def pieces(self) -> Iterator[Exchange]:
        """Yield the step as 20 requests of the same size; groups may be split, so without advantages."""
        size = -(-len(self._rollouts) // PIECES)
        for first in range(0, len(self._rollouts), size):
            yield self._exchange("piece", as_request(self._rollouts[first : first + size]))

    def singles(self) -> Iterator[Exchange]:
        """Yield one response and its reference per request, with non-ASCII characters escaped, as trainers do."""
        for rollout in self._rollouts[:SINGLES]:
            yield self._exchange("single", as_request([rollout]), escaped=True)

    def mixed(self) -> Iterator[Exchange]:
        """Yield valid requests, malformed responses and requests that must be refused, in turn."""
        unusual = self._unusual()
        refused = list(refusals(self._max_responses))
        for k, good in enumerate(self._groups()):
            yield good
            yield unusual[k % len(unusual)]
            yield refused[k % len(refused)]

    def _groups(self) -> Iterator[Exchange]:
        """Yield groups with every column included; a third of the generator's responses has a fault."""
        for first in range(0, min(len(self._rollouts), 60 * GROUP), GROUP):
            request = as_request(self._rollouts[first : first + GROUP])
            yield self._exchange("group", request | {"include": ["components"]})

    def _unusual(self) -> list[Exchange]:
        """Return valid but unusual requests."""
        some = self._rollouts[:ZIPPED]
        hostile = {"references": [some[0]["reference"]], "responses": hostile_responses(some[0]["response"])}
        columns = {"include": ["advantages", "components"]}
        settings = {"config": {"order": "lcs", "think_prefilled": True, "reward_scale": "shift"}}
        return [
            self._exchange("hostile responses", hostile | columns),
            self._exchange("hostile, other settings", hostile | settings),
            self._exchange("gzip", as_request(some), gzipped=True),
            self._exchange("no responses", hostile | {"responses": []}),
        ]

    def _exchange(self, name: str, request: dict[str, Any], escaped: bool = False, gzipped: bool = False) -> Exchange:
        body = json.dumps(request).encode() if escaped else orjson.dumps(request)
        sent = gzip.compress(body, 1) if gzipped else body
        headers = JSON | {"Content-Encoding": "gzip"} if gzipped else JSON
        return Exchange(name, sent, self._answer(request), len(request["responses"]), headers=headers)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the expected reply to this request."""
        scorer = self._scorer.with_overrides(request.get("config", {}))
        scores = scorer.score(request["responses"], request["references"], request.get("reference_index"))
        signature = f"{scorer.signature.removesuffix(__version__)}{self._version}"
        answer = {"rewards": scores.rewards.tolist(), "reasons": scores.reasons.tolist(), **scorer.identity}
        answer["signature"] = signature
        included = request.get("include", ())
        if "components" in included:
            answer["components"] = {name: column.tolist() for name, column in scores.components.items()}
        if "advantages" in included:
            answer["advantages"] = scores.advantages().tolist()
        return answer


def hostile_responses(response: str) -> list[str]:
    """Return adversarial responses between two normal ones that must not be affected."""
    key = response.find("{")
    return [
        response,
        "",
        "\0" * 100,
        "x" * 300_000,
        "<think>" * 5_000,
        "<think></think><key>" * 2_000,
        response[: len(response) // 2],
        response.removeprefix("<think>"),
        response[:key] + "[" * 5_000 + response[key:],
        response.replace("e", "e\u0301"),
        response.replace(" ", "\u00a0\u202e\U0001f9ea"),
        response.replace('": ', '": "\\ud83d", "'),
        response + "<|im_end|>",
        response,
    ]


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


def refusals(max_responses: int = MAX_RESPONSES) -> Iterator[Exchange]:
    """Yield one request for each kind of refusal that a client can cause."""
    for name, body in NOT_JSON.items():
        yield refused(name, 400, "not-json", body, [["body", "not_json"]])
    for name, (request, places) in WRONG.items():
        yield refused(name, 422, "invalid-request", json.dumps(request).encode(), places)
    too_many = b'{"references":["Step 1"],"responses":[' + b'"",' * max_responses + b'""]}'
    yield refused(f"{max_responses + 1:,} responses", 413, "too-large", too_many)
    good = json.dumps(REQUEST).encode()
    yield refused("media type", 415, "unsupported-media-type", good, headers={"Content-Type": "text/plain"})
    yield refused("encoding", 415, "unsupported-encoding", good, headers=JSON | {"Content-Encoding": "br"})
    yield refused("address", 404, "not-found", good, path="/v1/scores")
    yield refused("method", 405, "method-not-allowed", good, method="PUT")
