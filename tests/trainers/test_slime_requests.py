"""slime's requests, byte for byte as its remote reward model sends them with aiohttp; nothing of it can be installed.

POST with `json={"prompt", "response", "label"}`, one sample a request, one session for all, 64 connections.
"""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from assay_client import InvalidReference
from assay_client.adapters.for_slime import custom_rm
from assay_client.adapters.metrics import METRICS
from tests.cases.mixed import OPTIONS
from tests.http.samples import REFERENCE
from tests.trainers.pairs import BAD_RECORD, EXPECTED, MARKED_ROWS, TEXTS, check_numbers, reference_in_column

EOS = "<|im_end|>\n"
CHAT = [{"role": "system", "content": "<think>…</think>"}, {"role": "user", "content": "Add PBS."}]


def sent(url: str, prompt: Any, label: Any = REFERENCE) -> list[tuple[int, Any]]:
    async def run() -> list[tuple[int, Any]]:
        connector = aiohttp.TCPConnector(limit=64)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:

            async def post(text: str) -> tuple[int, Any]:
                payload = {"prompt": prompt, "response": text + EOS, "label": label}
                async with session.post(url, json=payload) as reply:
                    return reply.status, await reply.json(content_type=None)

            return await asyncio.gather(*map(post, TEXTS))

    return asyncio.run(run())


@pytest.mark.parametrize("prompt", ["<|im_start|>user\nAdd PBS.", CHAT], ids=["text", "messages"])
def test_remote_rm(at: str, prompt: Any) -> None:
    found = sent(f"{at}/compat/slime", prompt)
    assert [status for status, _ in found] == [200] * 3
    assert [reply["reward"] for _, reply in found] == pytest.approx(EXPECTED)
    assert {tuple(sorted(reply)) for _, reply in found} == {tuple(sorted({"reward", *METRICS}))}
    bare = sent(f"{at}/compat/slime?format=float", prompt)
    assert [reply for _, reply in bare] == pytest.approx(EXPECTED)


def test_the_function_for_samples_of_several_tasks(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are in the samples' metadata, or beside the reference in their labels."""
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", json.dumps(OPTIONS))
    arguments = SimpleNamespace(reward_key="reward")
    in_metadata = [{"label": reference_in_column(row), "metadata": {"task": row.task}} for row in MARKED_ROWS]
    in_labels = [{"label": json.dumps({"task": row.task, "reference": row.reference})} for row in MARKED_ROWS]
    for given in (in_metadata, in_labels):
        samples = [
            SimpleNamespace(prompt=CHAT, response=row.response + EOS, index=k, **fields)
            for k, (row, fields) in enumerate(zip(MARKED_ROWS, given, strict=True))
        ]
        for reward, row in zip(asyncio.run(custom_rm(arguments, samples)), MARKED_ROWS, strict=True):
            assert reward.pop("reward") == row.reward
            check_numbers(reward, row)
    samples[4].label = json.dumps({"task": "bioprobench.ord", "reference": BAD_RECORD})
    with pytest.raises(InvalidReference, match=r"record 4: reference: \w+ \(bioprobench\.ord: "):
        asyncio.run(custom_rm(arguments, samples))
