"""OpenEnv's server, client and validation with a real service."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from assay_openenv import AssayAction, AssayEnv
from assay_openenv.server import new_app
from tests.environments.samples import BAD_REFERENCE, CONFIG, SAMPLES, Sample, rewards_of, write_rows
from tests.environments.serving import serving
from tests.servers import LiveServer, score_requests


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows") / "train.jsonl", [*SAMPLES, BAD_REFERENCE])


@pytest.fixture(scope="module")
def address(rows: Path, server: LiveServer) -> Iterator[str]:
    """Return the address of a server whose window is long enough for concurrent answers to share requests."""
    with serving(
        "assay_openenv", rows, ASSAY_URL=server.url, ASSAY_CLIENT_CONFIG=CONFIG, ASSAY_CLIENT_WINDOW="0.5"
    ) as url:
        yield url


async def episode(address: str, sample: Sample) -> tuple[Any, ...]:
    async with AssayEnv(base_url=address) as env:
        prompt = await env.reset(id=sample.row["id"])
        assert (prompt.observation.messages, prompt.observation.task) == (sample.row["prompt"], sample.row["task"])
        assert (prompt.reward, prompt.done) == (None, False)
        result = await env.step(AssayAction(answer=sample.answer))
        assert result.done
        assert (await env.state()).step_count == 1
        seen = result.observation
        return result.reward, seen.reason, float(seen.passed), seen.components


def test_concurrent_sessions_get_the_rewards_of_the_service_in_few_requests(address: str, server: LiveServer) -> None:
    expected = rewards_of(server.url)
    count = score_requests(server)

    async def all_episodes() -> list[tuple[Any, ...]]:
        return await asyncio.gather(*(episode(address, sample) for sample in SAMPLES))

    assert asyncio.run(all_episodes()) == expected
    assert len({reward for reward, *_ in expected}) > 5
    assert 1 <= count() < len(SAMPLES)


def test_errors_are_raised_and_are_no_rewards(address: str) -> None:
    with AssayEnv(base_url=address).sync() as env:
        with pytest.raises(RuntimeError, match="0 rows have the id 'row-77'"):
            env.reset(id="row-77")
        env.reset(id="row-99")
        with pytest.raises(RuntimeError, match="record row-99"):
            env.step(AssayAction(answer="x"))
        env.reset(id="row-00")
        env.step(AssayAction(answer="x"))
        with pytest.raises(RuntimeError, match="no prompt to answer"):
            env.step(AssayAction(answer="x"))


def validated(*arguments: str) -> Any:
    """Return the report of OpenEnv's own command."""
    command = [sys.executable, "-m", "openenv.cli", "validate", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_openenv_validates_the_server_and_the_folder(address: str) -> None:
    """By what the manifest declares: without an image, the checks that run one are skipped."""
    report = validated("--url", address, "--timeout", "60")
    assert [criterion["id"] for criterion in report["criteria"] if not criterion["passed"]] == []
    assert report["passed"]
    folder = files("assay_openenv")
    checks = {criterion["check_id"]: criterion["status"] for criterion in validated(str(folder))["results"]}
    assert checks.pop("static.manifest") == "pass"
    assert set(checks.values()) == {"skip"}
    manifest = yaml.safe_load(folder.joinpath("openenv.yaml").read_text(encoding="utf-8"))
    module, _, name = manifest["app"].partition(":")
    assert getattr(importlib.import_module(module), name) is new_app


def test_the_readme_runs(address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    readme = files("assay_openenv").joinpath("README.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    code = snippet.replace("http://127.0.0.1:8001", address)
    assert code != snippet
    model = SimpleNamespace(generate=lambda messages: SAMPLES[0].answer)
    monkeypatch.setitem(sys.modules, "my_package", model)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("1.0 ok {'format': 1.0")
