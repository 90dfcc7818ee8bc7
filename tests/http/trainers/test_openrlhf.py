"""/compat/openrlhf: what OpenRLHF's SingleTurnAgentExecutor sends, and what it can read."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import httpx
import pytest

from tests.http.samples import PERFECT, REFERENCE, SWAPPED, SWAPPED_REWARD, errors_of, problem_of
from tests.http.trainers.trainer_bytes import (
    NUMBERS,
    OPENRLHF,
    PROMPT,
    ROLLOUTS,
    Rollout,
    expected_of,
    numbers_in,
    openrlhf,
)

RESPONSES = [rollout.response for rollout in ROLLOUTS]
LABELS = [rollout.reference for rollout in ROLLOUTS]


def check_reply(reply: httpx.Response, expected: list[dict[str, float]]) -> None:
    assert [numbers_in(reply, row=row) for row in range(len(expected))] == expected
    document = reply.json()
    assert document["rewards"] == document["scores"] == [row["reward"] for row in expected]
    assert tuple(document["extra_logs"]) == NUMBERS
    assert all(len(column) == len(expected) for column in document["extra_logs"].values())


@pytest.mark.parametrize("cut", [0, 1, len(PROMPT) - 1], ids=lambda cut: f"{cut} characters of the prompt lost")
def test_rollouts_after_a_prompt(client, cut):
    """Several, and too many for the event loop; the prompt contains the four tags itself."""
    check_reply(client.post(OPENRLHF, json=openrlhf(RESPONSES, LABELS, cut=cut)), expected_of(ROLLOUTS))
    body = openrlhf(RESPONSES * 40, LABELS * 40, cut=cut)
    check_reply(client.post(OPENRLHF, json=body), expected_of(ROLLOUTS) * 40)
    alone = client.post(OPENRLHF, json=openrlhf([SWAPPED, "I do not know."], [REFERENCE] * 2, cut=cut)).json()
    assert alone["rewards"] == pytest.approx([SWAPPED_REWARD, 0.0])
    assert alone["extra_logs"]["score_reason_code"] == [0.0, 3.0]


TEXTS = ["aab", "", "µ" * 9, "ab" * 30, PROMPT]
DECOMPOSED = "Wash with 5 A\u030a\u2126 " + PROMPT  # Å, and the ohm sign
ONE = {"labels": [REFERENCE]}
PROMPTS: dict[str, tuple[dict[str, Any], list[Rollout]]] = {
    "of its own": (
        {
            "query": [text[len(text) // 3 :] + response for text, response in zip(TEXTS, RESPONSES, strict=False)],
            "prompts": TEXTS,
            "labels": LABELS[: len(TEXTS)],
        },
        ROLLOUTS[: len(TEXTS)],
    ),
    "normalized": (
        {"query": [unicodedata.normalize("NFC", DECOMPOSED) + SWAPPED], "prompts": [DECOMPOSED], **ONE},
        [Rollout(SWAPPED, REFERENCE)],
    ),
    "cut within a character": (
        {"query": ["\ufffd\ufffd" + PROMPT + SWAPPED], "prompts": ["心" + PROMPT], **ONE},
        [Rollout(SWAPPED, REFERENCE)],
    ),
    "of nothing": ({"query": [], "prompts": [], "labels": []}, []),
}


@pytest.mark.parametrize(("document", "rollouts"), PROMPTS.values(), ids=PROMPTS)
def test_prompts(client, document, rollouts):
    check_reply(client.post(OPENRLHF, content=json.dumps(document)), expected_of(rollouts))


BAD = {
    "labels": (
        openrlhf([PERFECT] * 8, [None, REFERENCE, "Add.", 3, [3], "", {"steps": []}, {"answer": REFERENCE}]),
        [
            *(("labels[0]", "wrong_type"), ("labels[2]", "bad_step_line"), ("labels[3]", "wrong_type")),
            *(("labels[4].any_of[0]", "wrong_type"), ("labels[5]", "no_steps"), ("labels[6]", "no_steps")),
            ("labels[7]", "bad_step_schema"),
        ],
    ),
    "nothing": ({}, [("query", "missing_field"), ("prompts", "missing_field"), ("labels", "missing_field")]),
    "no arrays": (
        {"query": "a", "prompts": None, "labels": REFERENCE},
        [("query", "wrong_type"), ("prompts", "wrong_type"), ("labels", "wrong_type")],
    ),
    "other lengths": (
        {"query": ["a", "b"], "prompts": ["a"], "labels": [REFERENCE]},
        [("prompts", "wrong_length"), ("labels", "wrong_length")],
    ),
    "no texts": (
        {"query": ["a", None], "prompts": [1, ""], "labels": [None, REFERENCE]},
        [("query[1]", "wrong_type"), ("prompts[0]", "wrong_type"), ("labels[0]", "wrong_type")],
    ),
    "a hundred": (openrlhf(["x"] * 300, [None] * 300), [(f"labels[{k}]", "wrong_type") for k in range(100)]),
}


@pytest.mark.parametrize(("document", "errors"), BAD.values(), ids=BAD)
def test_every_error_is_reported(client, document, errors):
    problem = problem_of(client.post(OPENRLHF, json=document), 422)
    assert errors_of(problem) == errors
    assert problem["error_count"] == (300 if len(errors) == 100 else len(errors))
