"""/compat/openrlhf: what OpenRLHF's SingleTurnAgentExecutor sends, and what it can read."""

from __future__ import annotations

import gzip
import unicodedata
from typing import Any

import pytest

from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED, SWAPPED_REWARD, errors_of, problem_of
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

PATH = "/compat/openrlhf"


def body_of(rollouts: list[Rollout], prompt: str = PROMPT, cut: int = 0) -> bytes:
    """Return the rollouts after a prompt without its first `cut` characters."""
    return by_aiohttp(
        {
            "query": [prompt[cut:] + rollout.response for rollout in rollouts],
            "prompts": [prompt] * len(rollouts),
            "labels": [rollout.reference for rollout in rollouts],
        }
    )


def check_reply(reply: Any, expected: list[dict[str, float]]) -> None:
    assert reply.status_code == 200, reply.text
    document = reply.json()
    assert tuple(document) == ("rewards", "scores", "extra_logs")
    assert document["rewards"] == document["scores"] == [row["reward"] for row in expected]
    assert tuple(document["extra_logs"]) == NUMBERS
    for k, row in enumerate(expected):
        numbers = {name: column[k] for name, column in document["extra_logs"].items()}
        check_numbers(numbers, NUMBERS)
        assert {"reward": row["reward"], **numbers} == row
    assert all(len(column) == len(expected) for column in document["extra_logs"].values())


@pytest.mark.parametrize("cut", [0, 1, 100, len(PROMPT) - 1], ids=lambda cut: f"{cut} characters of the prompt lost")
@pytest.mark.parametrize("rollout", ROLLOUTS, ids=range(len(ROLLOUTS)))
def test_one_rollout_a_call(client, rollout, cut):
    check_reply(post(client, PATH, body_of([rollout], cut=cut)), expected_of([rollout]))


@pytest.mark.parametrize("cut", [0, 200])
def test_the_prompt_is_not_scored(client, cut):
    """It contains the four tags itself."""
    reply = post(client, PATH, body_of([Rollout(SWAPPED + EOS, REFERENCE)], cut=cut)).json()
    assert reply["rewards"] == pytest.approx([SWAPPED_REWARD])
    alone = post(client, PATH, body_of([Rollout("I do not know." + EOS, REFERENCE)], cut=cut)).json()
    assert alone["extra_logs"]["score_reason_code"] == [3.0]


@pytest.mark.parametrize("cut", [0, 77])
def test_many_rollouts_a_call(client, cut):
    check_reply(post(client, PATH, body_of(ROLLOUTS, cut=cut)), expected_of(ROLLOUTS))
    many = ROLLOUTS * 40  # too long for the event loop
    check_reply(post(client, PATH, body_of(many, cut=cut)), expected_of(ROLLOUTS) * 40)


def test_each_rollout_has_its_own_prompt(client):
    texts = ["aab", "", "µ" * 9, "ab" * 30, PROMPT]
    rollouts = ROLLOUTS[: len(texts)]
    queries = [text[len(text) // 3 :] + rollout.response for text, rollout in zip(texts, rollouts, strict=True)]
    document = {"query": queries, "prompts": texts, "labels": [rollout.reference for rollout in rollouts]}
    check_reply(post(client, PATH, by_aiohttp(document)), expected_of(rollouts))


def test_no_rollouts_at_all(client):
    """As clients send to a second URL if they share one sample among all of them."""
    body = b'{"query": [], "prompts": [], "labels": []}'
    assert len(body) == 42
    check_reply(post(client, PATH, body), [])


def test_a_prompt_that_the_tokenizer_normalizes(client):
    prompt = "Wash with 5 A\u030a\u2126 " + PROMPT  # decomposed Å, and the ohm sign
    query = unicodedata.normalize("NFC", prompt) + SWAPPED
    document = {"query": [query], "prompts": [prompt], "labels": [REFERENCE]}
    check_reply(post(client, PATH, by_aiohttp(document)), expected_of([Rollout(SWAPPED, REFERENCE)]))


def test_truncation_within_a_character(client):
    prompt = "心" + PROMPT
    document = {"query": ["\ufffd\ufffd" + PROMPT + SWAPPED], "prompts": [prompt], "labels": [REFERENCE]}
    check_reply(post(client, PATH, by_aiohttp(document)), expected_of([Rollout(SWAPPED, REFERENCE)]))


def test_other_fields_are_ignored(client):
    document = {
        "step": 3,
        "query": [PROMPT + PERFECT],
        "prompts": [PROMPT],
        "labels": [STEPS],
        "extra": {"query": [None], "big": 2**70},
    }
    check_reply(post(client, PATH, by_aiohttp(document)), expected_of([Rollout(PERFECT, STEPS)]))


def test_compressed(client):
    body = gzip.compress(body_of(ROLLOUTS))
    check_reply(post(client, PATH, body, **{"content-encoding": "gzip"}), expected_of(ROLLOUTS))


BAD_LABELS = {
    "null": (None, "wrong_type"),
    "a number": (3, "wrong_type"),
    "a list": ([REFERENCE], "wrong_type"),
    "no step": ("", "no_steps"),
    "prose": ("Add buffer.", "bad_step_line"),
    "no steps": ({"steps": []}, "no_steps"),
    "other fields": ({"answer": REFERENCE}, "bad_step_schema"),
}


@pytest.mark.parametrize(("label", "reason"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_an_invalid_label_gets_no_reward(client, label, reason):
    document = problem_of(post(client, PATH, body_of([Rollout(PERFECT, label)])), 422)
    assert errors_of(document) == [("labels[0]", reason)]


def test_every_invalid_label_is_reported(client):
    rollouts = [Rollout(PERFECT, label) for label in (None, REFERENCE, "Add buffer.", None, STEPS, {"steps": []})]
    document = problem_of(post(client, PATH, body_of(rollouts)), 422)
    named = [("labels[0]", "wrong_type"), ("labels[2]", "bad_step_line"), ("labels[3]", "wrong_type")]
    assert errors_of(document) == [*named, ("labels[5]", "no_steps")]
    many = problem_of(post(client, PATH, body_of([Rollout("x" * 500, None)] * 300)), 422)
    assert many["error_count"] == 300
    assert errors_of(many)[99] == ("labels[99]", "wrong_type")


BAD_REQUESTS = {
    "nothing": ({}, [("query", "missing_field"), ("prompts", "missing_field"), ("labels", "missing_field")]),
    "no labels": ({"query": ["a"], "prompts": [""]}, [("labels", "missing_field")]),
    "no arrays": (
        {"query": "a", "prompts": None, "labels": REFERENCE},
        [("query", "wrong_type"), ("prompts", "wrong_type"), ("labels", "wrong_type")],
    ),
    "other lengths": (
        {"query": ["a", "b"], "prompts": ["a"], "labels": [REFERENCE]},
        [("prompts", "wrong_length"), ("labels", "wrong_length")],
    ),
    "one label for two": ({"query": ["a"] * 2, "prompts": [""] * 2, "labels": [STEPS]}, [("labels", "wrong_length")]),
    "two labels for one": ({"query": ["a"], "prompts": [""], "labels": [STEPS] * 2}, [("labels", "wrong_length")]),
    "no texts": (
        {"query": ["a", None], "prompts": [1, ""], "labels": [None, REFERENCE]},
        [("query[1]", "wrong_type"), ("prompts[0]", "wrong_type"), ("labels[0]", "wrong_type")],
    ),
    "a missing prompt": ({"query": ["a"], "prompts": [None], "labels": [STEPS]}, [("prompts[0]", "wrong_type")]),
    "several things": (
        {"query": [1], "labels": [None]},
        [("prompts", "missing_field"), ("query[0]", "wrong_type"), ("labels[0]", "wrong_type")],
    ),
}


@pytest.mark.parametrize(("document", "named"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_every_error_is_reported(client, document, named):
    assert errors_of(problem_of(post(client, PATH, by_aiohttp(document)), 422)) == named
    document["ballast"] = "x" * 100_000
    assert errors_of(problem_of(post(client, PATH, by_aiohttp(document)), 422)) == named
