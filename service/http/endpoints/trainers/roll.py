"""/compat/roll: ROLL's remote reward system, whose clients submit a response and then ask for its result.

The service keeps no state: the id of a request holds its result, so any worker of any replica can answer.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import orjson

from ....errors import Issue
from ....rewards.scores import Scores
from ....scoring.labels import json_text
from ....wire.problems import invalid_request
from ...request.exchange import Exchange
from .dialects import Dialect, Rollouts, RouteOptions, finite_json, numbers_of_one
from .rows import JsonObject, array_of

REQUEST_ID = "reward_request_id"
MAX_RESULT_REQUEST = 1 << 14
"""Maximum bytes of the body that asks for a result: an id has some 1,500."""

DIGEST_BYTES = 16


class Roll(Dialect):
    """POST /compat/roll/submit: one rollout of ROLL's `RemoteRewardSystemWorker`, scored at once."""

    fields = ("response",)
    reference = "reward_info.ground_truth"
    missing_reference = "the row's column `ground_truth`, or `ground_truth` of `reward_ref_info`"

    def rollouts(self, request: JsonObject, label: bytes, issues: list[Issue]) -> Rollouts:
        return Rollouts(array_of(request["response"]), "response", array_of(label))

    def encode(self, scores: Scores, request: JsonObject, options: RouteOptions, every_task: bool) -> bytes:
        return orjson.dumps({"errcode": 0, REQUEST_ID: request_id_of(numbers_of_one(scores, every_task))})


def request_id_of(numbers: dict[str, float]) -> str:
    """Return the id that holds a result, with a digest that detects damage.

    The digest is no signature: who is given a reward could also make up an id, for its own training only.
    """
    result = finite_json(numbers)
    return base64.urlsafe_b64encode(digest_of(result) + result).decode()


def digest_of(result: bytes) -> bytes:
    return hashlib.blake2b(result, digest_size=DIGEST_BYTES, person=b"assay roll").digest()


def numbers_from(request_id: str) -> dict[str, float] | None:
    """Return the result that an id holds; None for an id that is damaged or not ours."""
    try:
        data = base64.b64decode(request_id, b"-_", validate=True)
        digest, result = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
        numbers = orjson.loads(result) if digest == digest_of(result) else None
    except ValueError:
        return None
    if not isinstance(numbers, dict) or "reward" not in numbers:
        return None
    return numbers if all(type(value) is float for value in numbers.values()) else None


async def roll_result(exchange: Exchange) -> None:
    """Return the result that the id of a submitted request holds; an id that is not intact is an error."""
    body = JsonObject(exchange.request_body.plain(MAX_RESULT_REQUEST), (REQUEST_ID,))
    numbers = numbers_from(json_text(body[REQUEST_ID]) or "")
    if numbers is None:
        reason = "invalid_request_id" if body[REQUEST_ID] else "missing_field"
        detail = "must be an id that /compat/roll/submit has returned, unchanged"
        raise invalid_request([Issue(REQUEST_ID, reason, detail)])
    await exchange.reply(orjson.dumps(result_of(numbers)))


def result_of(numbers: dict[str, float]) -> dict[str, Any]:
    dimensions = {name: {"score": value} for name, value in numbers.items() if name != "reward"}
    return {"errcode": 0, "reward_score": numbers["reward"], "dimention_reward_score": dimensions}
