"""Requests of the load scenarios: rollouts of the examples' generator, with answers computed in advance, and requests
that must be refused, each with its expected error: none of them may yield a reward or affect concurrent requests.

`python -m assay.loadtests.payloads URL FILE` writes those for a service.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from ..service.rewards.scorer import Scorer
from ..service.settings import RULES_VERSION, ScoreSettings
from ..service.version import VERSION
from .exchanges import JSON, KEY, LoadExchange, write_exchanges
from .servers import BenchmarkError, fetch

PIECES, SINGLES, GROUPS, GROUP, ZIPPED = 20, 1_000, 60, 5, 64

Rollouts = Sequence[dict[str, str]]

STEP = 'Step 1: {"action": "add", "objects": ["lysis buffer"], "parameters": ["5 ml"]}'
REQUEST = {"references": [STEP], "responses": ["nothing", "nothing"]}
ENCODED = json.dumps(REQUEST).encode()

NOT_JSON = {"truncated": ENCODED[:-9], "not UTF-8": ENCODED[:-3] + b'\xff"]}', "100,000 arrays": b"[" * 100_000}
INVALID: dict[str, tuple[dict[str, Any], list[list[str]]]] = {
    "references": (
        REQUEST | {"references": [STEP, "", STEP[:-1]], "reference_index": [0, 0]},
        [["references[1]", "no_steps"], ["references[2]", "bad_step_line"]],
    ),
    "index": (
        REQUEST | {"reference_index": [1, -1]},
        [["reference_index[0]", "index_out_of_range"], ["reference_index[1]", "index_out_of_range"]],
    ),
    "settings": (REQUEST | {"config": {"min_coverage": 1.5}}, [["config.min_coverage", "invalid_setting"]]),
    "types": (REQUEST | {"responses": ["nothing", None]}, [["responses[1]", "wrong_type"]]),
}


def config_of(address: str, key: str | None) -> dict[str, Any]:
    """Return `GET /v1/config` of a service; raise BenchmarkError if its answers cannot be known here."""
    try:
        config: dict[str, Any] = json.loads(fetch(f"{address}/v1/config", key))
    except urllib.error.HTTPError as error:
        advice = f"; the variable {KEY} has its key" if error.code == 401 else ""
        raise BenchmarkError(f"{address}/v1/config answered {error.code}{advice}") from None
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"there is no service at {address}: {getattr(error, 'reason', error)}") from None
    theirs = config.get("rules_version")
    if theirs != RULES_VERSION:
        raise BenchmarkError(f"{address} scores by rules {theirs}, this version of Assay by rules {RULES_VERSION}")
    return config


class Payloads:
    """The exchanges of every scenario, for one seed; a GRPO step has `prompts` groups of `samples` responses.

    config : `GET /v1/config` of the service, with the settings, limits and version that its answers depend on.
    """

    def __init__(self, prompts: int, samples: int, seed: int, config: Mapping[str, Any]) -> None:
        from ..examples.rollouts import as_request, generate

        self._scorer = Scorer(ScoreSettings(**config["config"]))
        self._version = config["version"]
        self._max_responses = config["limits"]["max_responses"]
        self._rollouts = list(generate(prompts, samples, seed))
        self._request = as_request

    def by_scenario(self) -> dict[str, list[LoadExchange]]:
        """Return the exchanges by the name of their scenarios in the Locust file."""
        return {name: list(getattr(self, name)()) for name in ("batches", "pieces", "singles", "mixed")}

    def batches(self) -> Iterator[LoadExchange]:
        """Yield the whole step as one request, with advantages."""
        yield self._exchange("batch", self._request(self._rollouts) | {"include": ["advantages"]})

    def pieces(self) -> Iterator[LoadExchange]:
        """Yield the step as 20 requests of the same size; groups may be split, so without advantages."""
        for piece in chunks(self._rollouts, -(-len(self._rollouts) // PIECES)):
            yield self._exchange("piece", self._request(piece))

    def singles(self) -> Iterator[LoadExchange]:
        """Yield one response and its reference per request, with non-ASCII characters escaped, as trainers do."""
        for rollout in self._rollouts[:SINGLES]:
            yield self._exchange("single", self._request([rollout]), escaped=True)

    def mixed(self) -> Iterator[LoadExchange]:
        """Yield in turn groups with every column (a third has a fault), unusual requests and refused requests."""
        unusual = self._unusual()
        refused = list(refusals(self._max_responses))
        for k, group in enumerate(chunks(self._rollouts[: GROUPS * GROUP], GROUP)):
            yield self._exchange("group", self._request(group) | {"include": ["components"]})
            yield unusual[k % len(unusual)]
            yield refused[k % len(refused)]

    def _unusual(self) -> list[LoadExchange]:
        """Return valid but unusual requests."""
        some = self._rollouts[:ZIPPED]
        hostile = {"references": [some[0]["reference"]], "responses": hostile_responses(some[0]["response"])}
        columns = {"include": ["advantages", "components"]}
        settings = {"config": {"order": "lcs", "think_prefilled": True, "reward_scale": "shift"}}
        return [
            self._exchange("hostile responses", hostile | columns),
            self._exchange("hostile, other settings", hostile | settings),
            self._exchange("gzip", self._request(some), gzipped=True),
            self._exchange("no responses", hostile | {"responses": []}),
        ]

    def _exchange(
        self, name: str, request: dict[str, Any], escaped: bool = False, gzipped: bool = False
    ) -> LoadExchange:
        body = json.dumps(request).encode() if escaped else orjson.dumps(request)
        sent = gzip.compress(body, 1) if gzipped else body
        headers = JSON | {"Content-Encoding": "gzip"} if gzipped else JSON
        return LoadExchange(name, sent, self._answer(request), len(request["responses"]), headers=headers)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the expected reply to this request."""
        scorer = self._scorer.with_overrides(request.get("config", {}))
        scores = scorer.score(request["responses"], request["references"], request.get("reference_index"))
        answer = {"rewards": scores.rewards.tolist(), "reasons": scores.reasons.tolist(), **scorer.identity}
        answer["signature"] = f"{scorer.signature.removesuffix(VERSION)}{self._version}"
        included = request.get("include", ())
        if "components" in included:
            answer["components"] = {name: column.tolist() for name, column in scores.components.items()}
        if "advantages" in included:
            answer["advantages"] = scores.advantages().tolist()
        return answer


def chunks(rollouts: Rollouts, size: int) -> Iterator[Rollouts]:
    for first in range(0, len(rollouts), size):
        yield rollouts[first : first + size]


def hostile_responses(response: str) -> list[str]:
    """Return adversarial responses between two normal ones that must not be affected."""
    key = response.find("{")
    return [
        response,
        "",
        "\0" * 100,
        "x" * 300_000,
        "<think>" * 5_000,
        response[: len(response) // 2],
        response[:key] + "[" * 5_000 + response[key:],
        response.replace(" ", "\u00a0\u202e\U0001f9ea"),
        response.replace('": ', '": "\\ud83d", "'),
        response,
    ]


def refusals(max_responses: int) -> Iterator[LoadExchange]:
    """Yield requests for each kind of refusal that a client can cause."""

    def refused(name: str, status: int, kind: str, body: bytes, places: Any = None, **fields: Any) -> LoadExchange:
        answer = {"type": f"/docs#problem-{kind}"} | ({} if places is None else {"places": places})
        return LoadExchange(f"refused: {name}", body, answer, 0, status=status, **fields)

    for name, body in NOT_JSON.items():
        yield refused(name, 400, "not-json", body, [["body", "not_json"]])
    for name, (request, places) in INVALID.items():
        yield refused(name, 422, "invalid-request", json.dumps(request).encode(), places)
    too_many = b'{"references":["Step 1"],"responses":[' + b'"",' * max_responses + b'""]}'
    yield refused(f"{max_responses + 1:,} responses", 413, "too-large", too_many)
    yield refused("media type", 415, "unsupported-media-type", ENCODED, headers={"Content-Type": "text/plain"})
    yield refused("address", 404, "not-found", ENCODED, path="/v1/scores")
    yield refused("method", 405, "method-not-allowed", ENCODED, method="PUT")


def main(address: str, file: str) -> None:
    config = config_of(address, os.environ.get(KEY))
    write_exchanges(Path(file), Payloads(1024, 5, 0, config).by_scenario())


if __name__ == "__main__":
    main(*sys.argv[1:])
