"""/compat/slime: what slime's remote_rm sends, and what it can read."""

from __future__ import annotations

import json

import pytest

from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED, errors_of, problem_of
from tests.http.trainers.trainer_bytes import (
    EOS,
    NUMBERS,
    PROMPT,
    ROLLOUTS,
    Rollout,
    by_aiohttp,
    check_numbers,
    expected_of,
    post,
)

PATH = "/compat/slime"
CHAT = [{"role": "system", "content": PROMPT}, {"role": "user", "content": [{"type": "text", "text": "How?"}]}]


@pytest.mark.parametrize("prompt", [PROMPT, CHAT, None], ids=["text", "chat", "null"])
@pytest.mark.parametrize("rollout", ROLLOUTS, ids=range(len(ROLLOUTS)))
def test_one_rollout_a_call(client, rollout, prompt):
    body = by_aiohttp({"prompt": prompt, "response": rollout.response, "label": rollout.reference})
    reply = post(client, PATH, body).json()
    check_numbers(reply, ("reward", *NUMBERS))
    (expected,) = expected_of([rollout])
    assert reply == expected
    bare = post(client, f"{PATH}?format=float", body)
    assert bare.headers["content-type"] == "application/json"
    assert type(bare.json()) is float
    assert bare.json() == expected["reward"]


def test_a_long_rollout(client):
    """Too long for the event loop."""
    rollout = Rollout(PERFECT.replace("…", "why " * 30_000, 1) + EOS, REFERENCE)
    reply = post(client, PATH, by_aiohttp({"prompt": CHAT, "response": rollout.response, "label": rollout.reference}))
    assert [reply.json()] == expected_of([rollout])
    assert reply.json()["reward"] == 1.0


def test_other_fields_are_ignored(client):
    sample = {"prompt": "p", "response": SWAPPED, "label": STEPS, "metadata": {"label": None}, "index": 10**30}
    assert [post(client, PATH, json.dumps(sample).encode()).json()] == expected_of([Rollout(SWAPPED, STEPS)])


BAD = {
    "null label": ({"prompt": "p", "response": PERFECT, "label": None}, [("label", "wrong_type")]),
    "no label": ({"prompt": "p", "response": PERFECT}, [("label", "missing_field")]),
    "prose": ({"response": PERFECT, "label": "Add buffer."}, [("label", "bad_step_line")]),
    "no text": ({"response": None, "label": None}, [("response", "wrong_type"), ("label", "wrong_type")]),
    "nothing": ({}, [("response", "missing_field"), ("label", "missing_field")]),
    "no response": ({"label": 3}, [("response", "missing_field"), ("label", "wrong_type")]),
}


@pytest.mark.parametrize("query", ["", "?format=float"])
@pytest.mark.parametrize(("document", "named"), BAD.values(), ids=BAD)
def test_an_invalid_request_gets_no_reward(client, document, named, query):
    assert errors_of(problem_of(post(client, PATH + query, by_aiohttp(document)), 422)) == named
