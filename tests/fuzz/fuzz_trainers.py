"""Requests of trainers: the fast path and the general path give the same reply or problem.

An input is one byte that chooses the trainer, then a body.
"""

from __future__ import annotations

import json
from typing import Any

from tests.fuzz.fuzzing import fuzz

# isort: split
from assay import Scorer
from assay.service.http.endpoints.trainers.dialects import OpenRlhf, Slime
from assay.service.http.endpoints.trainers.endpoint import TrainerQuery
from assay.service.http.endpoints.trainers.eval_protocol import EvalProtocol
from assay.service.http.endpoints.trainers.nemo_gym import NemoGym
from assay.service.http.endpoints.trainers.roll import Roll
from assay.service.wire.fast_path import FastPath
from assay.service.wire.media_types import JSON, Body
from assay.service.wire.stage_times import StageTimes
from tests.cases import answer
from tests.cases.writing import KEY
from tests.guard_pages import GuardedMemory
from tests.http.trainers.test_trainer_requests import LIMITS, endpoint, outcome

SCORER = Scorer(threads=1)
DIALECTS: list[Any] = [OpenRlhf(), Slime(), NemoGym(), Roll(), EvalProtocol()]


def check(data: bytes, memory: GuardedMemory) -> None:
    dialect = DIALECTS[data[0] % len(DIALECTS) if data else 0]
    body: Any = memory.frozen(data[1:])
    options = dialect.options()
    inline = len(body) + 64
    chosen = TrainerQuery(SCORER, FastPath(SCORER, inline, LIMITS), options, {})
    route = endpoint(dialect)
    general = outcome(route._answer, Body(body, b"", JSON, False), chosen, StageTimes())
    assert outcome(route._answer, Body(body, b"", JSON, True), chosen, StageTimes()) == general
    assert isinstance(general, bytes) or general[0] in ("not-json", "invalid-request", "too-large")


WORDS = [
    *['"query":', '"prompts":', '"labels":', '"response":', '"label":', '"reference":', '"output":', '"content":'],
    *['"type":', '"message"', '"reasoning"', '"summary_text"', '"output_text"', '"text":', '"role":"assistant"'],
    *[
        "null",
        '{"steps":[{}]}',
        '{"any_of":[""]}',
        '"any_of":',
        "<think>",
        "</think>",
        "\\u00b5",
        "\\ud83d\\ude00",
        "\\ud83d",
        "{}",
        "[]",
        "1e999",
    ],
]


def seeds() -> list[bytes]:
    text, parts = answer(), answer().split("</think>")
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": parts[1]}, {"type": "x"}]},
        {"type": "function_call", "arguments": "{}"},
    ]
    rows = [
        (0, {"query": ["p " + text], "prompts": ["p "], "labels": [KEY]}),
        (0, {"query": ["ab" + text, "x"], "prompts": ["zab", ""], "labels": [KEY, {"steps": [{}]}]}),
        (0, {"query": [], "prompts": [], "labels": []}),
        (1, {"prompt": "p", "response": text, "label": KEY}),
        (1, {"prompt": [{"role": "user"}], "response": text, "label": {"steps": 5}}),
        (2, {"responses_create_params": {"input": "x"}, "response": {"output": output}, "reference": KEY}),
        (2, {"responses_create_params": {}, "response": {"output": [{"content": text}]}, "reference": KEY}),
        (3, {"response": text, "reward_info": {"ground_truth": KEY}}),
        (4, {"messages": [{"role": "assistant", "content": text}], "ground_truth": KEY}),
        (2, {"responses_create_params": {}, "response": {"output": [None, 1, {"type": "message"}]}}),
    ]
    return [bytes([choice]) + json.dumps(row).encode() for choice, row in rows]


if __name__ == "__main__":
    fuzz(check, seeds(), WORDS)
