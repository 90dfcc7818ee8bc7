"""The JSON of a request: what the kernel reads of it against orjson, its rewards against those of Python's objects, and
the fast path against the general one, bit for bit, also for a cached reference. An input is a body.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from tests.fuzz.fuzzing import fuzz, outcome

# isort: split
import orjson

from assay import Scorer, ScoringError
from assay.service.http.endpoints.score import answer_json
from assay.service.wire.fast_path import FastPath
from assay.service.wire.media_types import JSON, Body
from assay.service.wire.problems import Problem
from assay.service.wire.stage_times import StageTimes
from tests.fuzz.request_seeds import WORDS, requests
from tests.guard_pages import GuardedMemory
from tests.http.wire.test_fast_path import LIMITS
from tests.http.wire.test_fast_path import check as check_fast_path
from tests.kernels.test_envelope import check as check_envelope
from tests.kernels.test_json_parts import check as check_parts

SCORER = Scorer(threads=1)


def check(data: bytes, memory: GuardedMemory) -> None:
    body: Any = memory.frozen(data)
    with suppress(RecursionError):  # Python's, where it compares values as deep as a request may be
        check_envelope(body)
    check_parts(data)
    path = FastPath(SCORER, len(data), LIMITS)
    taken = check_fast_path(path, body, SCORER)
    assert check_fast_path(path, body, SCORER) == taken
    reply = outcome(answer_json, Body(body, b"", JSON, False), SCORER, LIMITS, StageTimes())
    if reply is None:  # it asks for another task
        assert orjson.loads(data)["task"] != "score"
        return
    if isinstance(reply, Problem):
        assert reply.status in (400, 413, 422)
        assert reply.issues
        return
    document, request = orjson.loads(reply.body), orjson.loads(data)
    scorer = SCORER.with_overrides(request.get("config", {}))
    try:
        scores = scorer.score(request["responses"], request["references"], request.get("reference_index"))
    except ScoringError as error:
        raise AssertionError("a request was answered that cannot be scored") from error
    assert document["rewards"] == scores.rewards.tolist()
    assert document["reasons"] == scores.reasons.tolist()


def seeds() -> list[bytes]:
    plain = [json.dumps(request).encode() for request in requests()]
    return [
        *plain,
        *(json.dumps(document, ensure_ascii=False, indent=1).encode() for document in requests()),
        b"",
        b"[1]",
        b"5",
    ]


if __name__ == "__main__":
    fuzz(check, seeds(), WORDS)
