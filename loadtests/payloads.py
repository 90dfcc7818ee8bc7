"""Requests of the scenarios: rollouts of the examples' generator, with answers computed in advance.

A GRPO step consists of `prompts` groups of `samples` responses; the batch is one such step.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from exchanges import JSON, Exchange
from refusals import refusals

from assay import Scorer
from examples.rollouts import as_request, generate

__all__ = ["Payloads"]

PIECES = 20
SINGLES = 1_000
GROUP = 5
ZIPPED = 64

Rollouts = Sequence[dict[str, str]]


class Payloads:
    """The exchanges of every scenario, for one seed."""

    def __init__(self, prompts: int, samples: int, seed: int) -> None:
        self._scorer = Scorer()
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
        refused = list(refusals())
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
        answer = {"rewards": scores.rewards.tolist(), "reasons": scores.reasons.tolist(), "config_id": scorer.config_id}
        wanted = request.get("include", ())
        if "components" in wanted:
            answer["components"] = {name: column.tolist() for name, column in scores.components.items()}
        if "advantages" in wanted:
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
