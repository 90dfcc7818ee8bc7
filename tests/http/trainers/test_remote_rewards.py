"""ROLL's results, eval-protocol's messages, sixty rewards of each, and NeMo RL's reward components."""

from __future__ import annotations

import base64
import random
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from assay import Scorer, ScoreSettings
from assay.service.http.endpoints.trainers.nemo_gym import NemoGymOptions
from examples.rollouts import generate
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED, errors_of, problem_of
from tests.http.trainers.trainer_bytes import (
    EVALUATE,
    GYM,
    ROLLOUTS,
    SLIME,
    SUBMIT,
    Rollout,
    body_of,
    expected_of,
    numbers_in,
)
from tests.servers import serving

RESULT = "/compat/roll/result"
KEY = "swordfish-swordfish"


SIXTY = [*ROLLOUTS, *(Rollout(row["response"], row["reference"]) for row in generate(13, 4))]


def roll_result(client: httpx.Client, request_id: str, **options: object) -> httpx.Response:
    return client.request("GET", RESULT, json={"reward_request_id": request_id}, **options)  # type: ignore[arg-type]


def test_sixty_rewards(client):
    """As ROLL and eval-protocol read them, as miles and vime do (a bare number, or `reward`), with or without slash."""
    expected_rows = expected_of(SIXTY)
    assert len({expected["reward"] for expected in expected_rows}) > 20
    for k, (rollout, expected) in enumerate(zip(SIXTY, expected_rows, strict=True)):
        replies = {}
        for path in (SUBMIT, EVALUATE, SLIME):
            replies[path] = client.post(path + "/" * (k % 2), json=body_of(path, *rollout))
            assert numbers_in(replies[path]) == expected
        reward = client.post(f"{SLIME}{'/' * (k % 2)}?format=float", json=body_of(SLIME, *rollout)).json()
        result = roll_result(client, replies[SUBMIT].json()["reward_request_id"]).json()
        dimensions = {name: {"score": value} for name, value in expected.items() if name != "reward"}
        assert result == {"errcode": 0, "reward_score": reward, "dimention_reward_score": dimensions}
        assert reward == expected["reward"]


def test_malformed_requests(client):
    missing = "missing_field"
    followed = [*body_of(EVALUATE, PERFECT, REFERENCE)["messages"], {"role": "user", "content": "And then?"}]
    for path, body, errors in (
        (SUBMIT, {"response": "x"}, [("reward_info.ground_truth", missing)]),
        (SUBMIT, {"reward_info": {"ground_truth": REFERENCE}}, [("response", missing)]),
        (EVALUATE, {"messages": [], "ground_truth": REFERENCE}, [("messages", missing)]),
        (EVALUATE, {"messages": 7, "ground_truth": REFERENCE}, [("messages", "wrong_type"), ("messages", missing)]),
        (EVALUATE, body_of(EVALUATE, 7, REFERENCE), [("messages[1].content", "wrong_type")]),
        (EVALUATE, {"messages": followed, "ground_truth": REFERENCE}, [("messages", missing)]),
        (EVALUATE, {"messages": body_of(EVALUATE, PERFECT, 0)["messages"]}, [("ground_truth", missing)]),
    ):
        assert errors_of(problem_of(client.post(path, json=body), 422)) == errors


def test_thoughts_beside_the_text_are_put_back(client):
    thought, text = PERFECT.removeprefix("<think>").split("</think>")
    for content in (text, *([{**kind, "text": text}] for kind in ({"type": "text"}, {"type": "output_text"}, {}))):
        body = body_of(EVALUATE, content, REFERENCE)
        body["messages"][1]["reasoning_content"] = thought
        assert client.post(EVALUATE, json=body).json()["score"] == 1.0


def test_a_damaged_id_is_no_reward(client):
    request_id = client.post(SUBMIT, json=body_of(SUBMIT, PERFECT, REFERENCE)).json()["reward_request_id"]
    data = bytearray(base64.urlsafe_b64decode(request_id))
    changed = base64.urlsafe_b64encode(data.replace(b'"reward":1.0', b'"reward":9.0')).decode()
    for wrong in (changed, request_id[:-4], request_id + "AAAA", "", "é", "AAAA", f" {request_id}"):
        assert errors_of(problem_of(roll_result(client, wrong), 422)) == [("reward_request_id", "invalid_request_id")]
    for k in range(0, len(data), 7):
        flipped = bytes(data[:k]) + bytes([data[k] ^ 1]) + bytes(data[k + 1 :])
        assert roll_result(client, base64.urlsafe_b64encode(flipped).decode()).status_code == 422
    problem_of(client.get(RESULT), 400)
    assert errors_of(problem_of(client.request("GET", RESULT, json={}), 422)) == [
        ("reward_request_id", "missing_field")
    ]
    problem_of(roll_result(client, "x" * 20_000), 413)


def test_keys_in_the_headers_of_roll_and_eval_protocol():
    with serving(api_keys=[KEY]) as client:
        for headers, status in (
            ({}, 401),
            ({"XRL-Authorization": f"Bearer {KEY}"}, 200),
            ({"X-Api-Key": KEY}, 200),
            ({"X-Api-Key": f"Bearer {KEY}"}, 401),
            ({"XRL-Authorization": KEY}, 401),
            ({"X-Api-Key": ""}, 401),
            ({"Authorization": "Bearer wrong", "X-Api-Key": KEY}, 401),
        ):
            for path in (SUBMIT, EVALUATE):
                reply = client.post(path, json=body_of(path, PERFECT, REFERENCE), headers=headers)
                assert reply.status_code == status
            assert roll_result(client, "x", headers=headers).status_code == (422 if status == 200 else 401)


def components_of(client: httpx.Client, query: str, body: dict[str, object]) -> dict[str, float]:
    document = client.post(f"{GYM}?reward_components=true{query}", json=body).json()
    assert sum(document["reward_components"].values()) == document["reward"]
    return dict(document["reward_components"])


@pytest.mark.parametrize("query", ["", "&reward_scale=raw&order=lcs", "&quantity_error_factor=0.3"])
def test_components_sum_to_the_reward(client, query):
    """In the order of the reply, as NeMo RL adds them; and each is its term of SCORE."""
    settings = {name: value for name, _, value in (part.partition("=") for part in query.split("&") if part)}
    scorer = Scorer(**{name: float(value) if value[0] == "0" else value for name, value in settings.items()})
    for response, reference in SIXTY:
        parts = components_of(client, query, body_of(GYM, response, reference))
        assert list(parts) == ["order", "content"]
        scores = scorer.score([response], [reference])
        terms = {name: scores.components[name][0] for name in ("scale", *parts, "semantics", "score")}
        per_score = scores.rewards[0] / terms["score"] if terms["score"] else 0.0
        for name, part in parts.items():
            share = terms["score"] * terms[name] / terms["semantics"] if terms["semantics"] else 0.0
            assert part == pytest.approx(share * per_score, abs=1e-15)


def test_content_is_the_reward_where_score_is_no_sum(client):
    """NeMo RL's GDPO refuses a batch with fewer than two components."""
    body = body_of(GYM, SWAPPED, STEPS)
    for query in ("&semantics=product", "&total=sum", "&use_order=false", "&reward_scale=shift"):
        parts = components_of(client, query, body)
        assert (list(parts), parts["order"]) == (["order", "content"], 0.0)
    assert components_of(client, "&task_field=task", body_of(GYM, PERFECT, STEPS))["order"] > 0
    wrong = "[ANSWER_START][1, 0][ANSWER_END]"
    order = body_of(GYM, wrong, {"wrong_steps": ["a", "b"], "correct_steps": ["a", "b"]}) | {"task": "bioprobench.ord"}
    for query in ("&task=bioprobench.ord", "&task_field=task"):
        assert components_of(client, query, order) == {"order": 0.0, "content": -1.0}
    labelled = body_of(GYM, "[ANSWER_START]2 h & 90[ANSWER_END]", {"task": "bioprobench.pqa", "reference": "2 h"})
    assert components_of(client, "", labelled) == {"order": 0.0, "content": 1.0}
    assert "reward_components" not in client.post(GYM, json=body).json()
    query = f"{GYM}?reward_components=true&on_bad_reference=mask"
    masked = client.post(query, json=body | {"reference": None}).json()
    assert masked["reward_components"] == {"order": 0.0, "content": 0.0}


def test_the_sum_is_exact_for_any_values():
    chance, options = random.Random(7), NemoGymOptions(reward_components=True)
    options.prepare(ScoreSettings())
    for _ in range(20_000):
        reward, order = chance.random() * 10.0 ** chance.randint(-300, 2), chance.random() ** chance.randint(0, 9)
        components = {"order": np.float64(order), "semantics": np.float64(order + chance.random())}
        scores: Any = SimpleNamespace(rewards=np.float64(reward), task_codes=[0], components=components)
        parts = options.components(scores)["reward_components"]
        assert parts["order"] + parts["content"] == reward
