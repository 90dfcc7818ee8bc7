"""The adapter for verl, as called by old and new versions, and components per training step."""

from __future__ import annotations

import asyncio
import csv
import inspect
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay_client import InvalidRequest, InvalidSetting
from assay_client.adapters import for_verl, for_verl_sync
from assay_client.adapters.metrics import METRICS
from assay_client.verl_components import SETTLE_SECONDS, finished_steps
from tests.clients.adapter_samples import EXPECTED, TEXTS, check_numbers
from tests.clients.fault_server import FaultServer
from tests.http.samples import REFERENCE, SWAPPED, SWAPPED_REWARD

CLIENTS = Path(__file__).resolve().parents[2] / "clients"


@pytest.mark.usefixtures("at")
def test_verl_reward_loop() -> None:
    """Call it as the reward loop does: by keyword, through a partial, one task per sample."""
    assert inspect.iscoroutinefunction(for_verl.compute_score)
    call = partial(for_verl.compute_score, reward_router_address=None)

    async def step() -> list[dict[str, float]]:
        rows = [
            call(data_source="thoth", solution_str=text, ground_truth=REFERENCE, extra_info={"index": k})
            for k, text in enumerate(TEXTS)
        ]
        return await asyncio.gather(*rows)

    for _ in range(2):
        found = asyncio.run(step())
        assert [result["score"] for result in found] == pytest.approx(EXPECTED)
        for result in found:
            check_numbers(result, {"score", *METRICS})
    assert [result["score_reason_code"] for result in found] == [0, 0, 3]
    assert [result["score_readable"] for result in found] == [1, 1, 0]
    assert [result["score_reason_missing_sections"] for result in found] == [0, 0, 1]
    assert found[0]["score_score"] == 2.5


@pytest.mark.usefixtures("at")
def test_verl_before_the_reward_loop() -> None:
    one = for_verl_sync.compute_score("thoth", SWAPPED, REFERENCE, None)
    assert one["score"] == pytest.approx(SWAPPED_REWARD)
    infos = np.array([{"index": k} for k in range(3)], object)
    found = for_verl.compute_score_batch(np.array(["thoth"] * 3), TEXTS, np.array([REFERENCE] * 3), infos)
    assert [result["score"] for result in found] == pytest.approx(EXPECTED)
    for result in (one, *found):
        check_numbers(result, {"score", *METRICS})
    with pytest.raises(InvalidRequest, match="1 for 3 responses"):
        for_verl.compute_score_batch(["thoth"] * 3, TEXTS, [REFERENCE], None)


RECIPE = {
    "GRPO_ORDER_MODE": "lcs",
    "GRPO_COMBINE_MODE": "product",
    "GRPO_CONTENT_DENOM": "max_len",
    "GRPO_FINAL_COMBINE": "sum",
}


def test_the_switches_of_the_recipe(faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_URL", faults.url)

    def sent(**kwargs: Any) -> Any:
        for_verl_sync.compute_score("thoth", "x", "r", **kwargs)
        return faults.requests[-1].document.get("config")

    assert sent() is None
    for name, value in RECIPE.items():
        monkeypatch.setenv(name, value)
    everything = {"order": "lcs", "semantics": "product", "content_denominator": "max_len", "total": "sum"}
    assert sent() == everything
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", '{"order": "strict", "reward_scale": "raw"}')
    assert sent() == everything | {"order": "strict", "reward_scale": "raw"}
    assert sent(config={"reward_scale": "double"}) == everything | {"order": "strict", "reward_scale": "double"}
    monkeypatch.setenv("GRPO_ORDER_MODE", "strict_subseq")
    monkeypatch.delenv("ASSAY_CLIENT_CONFIG")
    assert sent()["order"] == "strict"
    monkeypatch.setenv("GRPO_ORDER_MODE", "lsc")
    monkeypatch.setenv("GRPO_FINAL_COMBINE", "")
    monkeypatch.setenv("GRPO_COMBINE_MODE", "min")
    with pytest.raises(InvalidSetting, match=r"GRPO_ORDER_MODE must.*GRPO_COMBINE_MODE must"):
        sent()


def test_the_recipe_gives_the_rewards_of_its_settings(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPO_ORDER_MODE", "lcs")
    monkeypatch.setenv("GRPO_CONTENT_DENOM", "max_len")
    found = for_verl_sync.compute_score("thoth", SWAPPED, REFERENCE)
    assert found["score_order"] == 0.5
    assert found["score"] == pytest.approx((0.5 + (1 - 0.5**1.5) * 1.5 / 2) / 2.5)


def test_components_per_step_of_verl(tmp_path: Path) -> None:
    for step in (2, 10, 1):
        rows = [
            {"input": "p", "output": "o", "gts": "r", "score": k, "step": step, "score_format": step, "request_id": "z"}
            for k in range(3)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{step}.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "notes.jsonl").write_text("not a step", encoding="utf-8")
    table = tmp_path / "steps.csv"
    command = [sys.executable, "-m", "assay_client.verl_components", str(tmp_path), "--csv", str(table)]
    subprocess.run(command, env={"PYTHONPATH": str(CLIENTS), "PATH": os.environ["PATH"]}, check=True)
    with table.open(encoding="utf-8", newline="") as lines:
        found = list(csv.DictReader(lines))
    assert [row["step"] for row in found] == ["1", "2", "10"]
    assert [row["score_format"] for row in found] == ["1.0", "2.0", "10.0"]
    assert {row["score"] for row in found} == {"1.0"}
    assert {row["samples"] for row in found} == {"3"}
    assert {row["score_order"] for row in found} == {""}


def test_components_per_step_while_verl_runs(tmp_path: Path) -> None:
    steps = finished_steps(tmp_path, follow=True, poll=0.01)
    for step in (1, 2):
        path = tmp_path / f"{step}.jsonl"
        path.write_text("{}\n", encoding="utf-8")
        os.utime(path, (path.stat().st_mtime - SETTLE_SECONDS,) * 2)
        assert next(steps) == path
