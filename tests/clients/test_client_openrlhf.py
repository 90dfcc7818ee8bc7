"""OpenRLHF's file and route give the same numbers for the same rollouts."""

from __future__ import annotations

import json

import httpx
import pytest

from assay_client.adapters import for_openrlhf
from tests.http.trainers.trainer_bytes import EOS, PROMPT, ROLLOUTS


@pytest.mark.parametrize("cut", [0, 1, 150], ids=["whole prompt", "a character less", "half the prompt"])
def test_the_file_and_the_url_agree(at: str, cut: int) -> None:
    for response, reference in ROLLOUTS:
        columns = {"queries": [PROMPT[cut:] + response + EOS], "prompts": [PROMPT], "labels": [reference]}
        by_file = for_openrlhf.reward_func(**columns)
        body = {"query": columns["queries"], "prompts": columns["prompts"], "labels": columns["labels"]}
        reply = httpx.post(f"{at}/compat/openrlhf", json=body, trust_env=False)
        assert json.loads(reply.content) == by_file


def test_batches_agree(at: str) -> None:
    columns = {
        "queries": [PROMPT + response for response, _ in ROLLOUTS],
        "prompts": [PROMPT] * len(ROLLOUTS),
        "labels": [reference for _, reference in ROLLOUTS],
    }
    body = {"query": columns["queries"], "prompts": columns["prompts"], "labels": columns["labels"]}
    reply = httpx.post(f"{at}/compat/openrlhf", json=body, trust_env=False)
    assert reply.json() == for_openrlhf.reward_func(**columns)
