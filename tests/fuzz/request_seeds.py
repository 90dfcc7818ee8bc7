"""Requests to begin with, made of example rollouts and of what a request may hold besides."""

from __future__ import annotations

import json
from typing import Any

from examples import rollouts
from tests.cases import answer
from tests.cases.writing import KEY

__all__ = ["WORDS", "requests"]

STEP = {"action": "add", "objects": ["pbs", "µ"], "parameters": ["5 min"]}
WORDS = [
    *['"references":', '"responses":', '"reference_index":', '"config":', '"include":', '"task":', '"steps":'],
    *['"components"', '"score"', "null", "true", "-1.5e3", "1e999", "\\u00b5", "\\ud83d\\ude00", "\\ud83d"],
    *['"any_of":', '{"any_of":["",{"steps":[]}]}', '"steps"'],
    *["[[[[", "{}", '{"steps":[{}]}', '{"steps":[]}', json.dumps(STEP), '["",""]', '"order":"lcs"'],
    *['"max_steps":', "9" * 20, '"configs":', "[{}]"],
]


def requests() -> list[dict[str, Any]]:
    """Right ones and wrong ones."""
    generated = list(rollouts.generate(6, 2, seed=4))
    pairs = [{"responses": [rollout["response"]], "references": [rollout["reference"]]} for rollout in generated]
    good = {"responses": [answer(), "", "µ" * 40], "references": [KEY, {"steps": [STEP]}], "reference_index": [0, 1, 1]}
    return [
        *pairs,
        good,
        {"responses": [answer()] * 2, "references": [KEY], "include": ["components"]},
        {"responses": [answer()] * 2, "references": [KEY, KEY], "include": ["components", "advantages"]},
        good | {"config": {"order": "lcs", "reward_scale": "shift"}, "task": "score"},
        good | {"configs": [{}, {"order": "lcs", "min_coverage": 0.5}, {"max_steps": 1}], "include": ["components"]},
        good | {"reference_index": [0, 1, 2], "config": {"max_steps": 2000}},
        good | {"references": [{"steps": [STEP, {}, 1]}, {"steps": 5}, {"x": [1.5e3, None]}, 7], "more": {"a": [True]}},
        good | {"references": [{"any_of": [KEY, {"steps": [STEP]}, answer()]}, KEY], "include": ["steps"]},
        good | {"references": [{"any_of": [KEY, None, {"any_of": [KEY]}]}, {"any_of": []}, {"any_of": [KEY] * 17}]},
        {"responses": [None, [], {}, 1], "references": ["prose", "Step 1: {}", "Step 1: {", ""]},
        {"responses": [answer(KEY, "Step 1: Add the PBS. " + "so on " * 200)], "references": [KEY + "\n" * 99]},
        {"responses": [], "references": []},
        {},
    ]
