"""Open Reward Standard's server and client with a real service."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openreward import AsyncOpenReward

from assay_openreward.server import Assay
from tests.environments.samples import BAD_REFERENCE, CONFIG, SAMPLES, rewards_of, write_rows
from tests.environments.serving import serving
from tests.servers import LiveServer, score_requests


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, server: LiveServer) -> Iterator[str]:
    rows = write_rows(tmp_path_factory.mktemp("rows") / "train.jsonl", [*SAMPLES, BAD_REFERENCE])
    variables = {"ASSAY_URL": server.url, "ASSAY_CLIENT_CONFIG": CONFIG, "ASSAY_CLIENT_WINDOW": "0.5"}
    with serving("assay_openreward", rows.parent, **variables) as url:
        yield url


async def episode(environment: Any, task: Any, answer: str) -> Any:
    async with environment.session(task=task) as session:
        messages = await session.get_messages(format="openai")
        assert await session.is_assistant_message_final()
        return messages, await session.call_terminal_tool(answer)


def test_concurrent_sessions_get_the_rewards_of_the_service(address: str, server: LiveServer) -> None:
    count = score_requests(server)

    async def all_episodes() -> Any:
        client = AsyncOpenReward(api_key="none")
        environment = client.environments.get(name="assay", base_url=address)
        tasks = await environment.list_tasks(split="train")
        assert len(tasks) == len(SAMPLES) + 1
        with pytest.raises(Exception, match="record row-99"):
            await episode(environment, tasks[-1], "x")
        return await asyncio.gather(
            *(episode(environment, tasks[k % len(SAMPLES)], SAMPLES[k % len(SAMPLES)].answer) for k in range(60))
        )

    expected = rewards_of(server.url) * 60
    for k, (messages, output) in enumerate(asyncio.run(all_episodes())):
        reward, reason, passed, _ = expected[k]
        assert messages == SAMPLES[k % len(SAMPLES)].row["prompt"]
        assert (output.reward, output.metadata["reason"], output.finished) == (reward, reason, True)
        assert output.metadata["score_passed"] == passed
    assert count() < 30


def test_a_split_is_no_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    for path in ("rows/train.jsonl", "other.jsonl"):
        write_rows(tmp_path / path, SAMPLES)
    monkeypatch.setenv("ASSAY_ROWS", str(tmp_path / "rows"))
    assert len(Assay.list_tasks("train")) == len(SAMPLES)
    for split in ("test", "../other", str(tmp_path / "other"), "train\0"):
        with pytest.raises(ValueError, match="no split of this name"):
            Assay.list_tasks(split)


def test_the_readme_runs(address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    readme = files("assay_openreward").joinpath("README.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    model = SimpleNamespace(generate=lambda messages: SAMPLES[0].answer)
    monkeypatch.setitem(sys.modules, "my_package", model)
    exec(compile(snippet.replace("http://127.0.0.1:8080", address), "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("1.0 ok")
