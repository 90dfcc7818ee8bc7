"""The adapter for verl, alone and beside verl's own rewards, and components per training step.

verl is replaced by a substitute with the signatures of several versions; tests/trainers uses the real one.
"""

from __future__ import annotations

import asyncio
import csv
import inspect
import json
import math
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay_client import InvalidRequest, InvalidSetting
from assay_client.adapters import for_verl, for_verl_sync
from assay_client.adapters.metrics import METRICS
from assay_client.verl_components import SETTLE_SECONDS, finished_steps, main, step_means
from tests.clients.adapter_samples import EXPECTED, TEXTS, check_numbers
from tests.clients.fault_server import FaultServer
from tests.http.samples import REFERENCE


@pytest.mark.usefixtures("at")
def test_verl_reward_loop() -> None:
    """Call it as the reward loop does: by keyword, through a partial, and with a new event loop for each step."""
    assert inspect.iscoroutinefunction(for_verl.compute_score)
    call = partial(for_verl.compute_score, reward_router_address=None, extra_info={"index": 1})
    for text, reward in zip(TEXTS, EXPECTED, strict=True):
        found = asyncio.run(call(data_source="thoth", solution_str=text, ground_truth=REFERENCE))
        assert found["score"] == pytest.approx(reward)
        check_numbers(found, {"score", *METRICS})
    with pytest.raises(InvalidRequest, match="1 for 3 responses"):
        for_verl.compute_score_batch(["thoth"] * 3, TEXTS, [REFERENCE], None)


def test_the_switches_of_the_recipe(service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def sent(**kwargs: Any) -> Any:
        for_verl_sync.compute_score("thoth", "x", "r", **kwargs)
        return service.requests[-1].document.get("config")

    assert sent() is None
    monkeypatch.setenv("GRPO_ORDER_MODE", "lcs")
    monkeypatch.setenv("GRPO_COMBINE_MODE", "product")
    monkeypatch.setenv("GRPO_CONTENT_DENOM", "max_len")
    monkeypatch.setenv("GRPO_FINAL_COMBINE", "sum")
    everything = {"order": "lcs", "semantics": "product", "content_denominator": "max_len", "total": "sum"}
    assert sent() == everything
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", '{"order": "strict", "reward_scale": "raw"}')
    assert sent(config={"reward_scale": "double"}) == everything | {"order": "strict", "reward_scale": "double"}
    monkeypatch.setenv("GRPO_ORDER_MODE", "strict_subseq")
    monkeypatch.delenv("ASSAY_CLIENT_CONFIG")
    assert sent()["order"] == "strict"
    monkeypatch.setenv("GRPO_ORDER_MODE", "lsc")
    monkeypatch.setenv("GRPO_FINAL_COMBINE", "")
    monkeypatch.setenv("GRPO_COMBINE_MODE", "min")
    with pytest.raises(InvalidSetting, match=r"GRPO_ORDER_MODE must.*GRPO_COMBINE_MODE must"):
        sent()


def test_components_per_step(tmp_path: Path) -> None:
    for step in (2, 10, 1):
        row = {"input": "p", "output": "o", "gts": "r", "step": step, "score_format": step, "request_id": "z"}
        text = "".join(json.dumps({**row, "score": k}) + "\n" for k in range(3))
        (tmp_path / f"{step}.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "notes.jsonl").write_text("not a step", encoding="utf-8")
    main([str(tmp_path), "--csv", str(tmp_path / "steps.csv")])
    with (tmp_path / "steps.csv").open(encoding="utf-8", newline="") as lines:
        found = list(csv.DictReader(lines))
    assert [row["step"] for row in found] == ["1", "2", "10"]
    assert [row["score_format"] for row in found] == ["1.0", "2.0", "10.0"]
    assert {(row["score"], row["samples"], row["score_order"]) for row in found} == {("1.0", "3", "")}


def test_components_per_step_while_verl_runs(tmp_path: Path) -> None:
    steps = finished_steps(tmp_path, follow=True, poll=0.01)
    for step in (1, 2):
        path = tmp_path / f"{step}.jsonl"
        path.write_text("{}\n", encoding="utf-8")
        os.utime(path, (path.stat().st_mtime - SETTLE_SECONDS,) * 2)
        assert next(steps) == path


SUBSTITUTE = """
import threading
calls = []

def {name}(data_source, solution_str, ground_truth, extra_info=None{more}):
    calls.append((data_source, extra_info, options, threading.get_ident()))
    if data_source == "gsm8k":
        return float(solution_str == ground_truth)
    if data_source == "dapo":
        right = solution_str == ground_truth
        return {{"score": 1.0 if right else -1.0, "acc": right, "pred": solution_str}}
    raise NotImplementedError
"""
SIGNATURES = {
    "0.9": ("default_compute_score", ", sandbox_fusion_url=None, **options"),
    "0.3": ("_default_compute_score", ", options=None"),
}


@pytest.fixture(params=SIGNATURES)
def verl(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install a module of rewards with the signatures of several versions of verl."""
    folder = tmp_path / "verl" / "utils"
    folder.mkdir(parents=True)
    name, more = SIGNATURES[request.param]
    (folder / "reward_score.py").write_text(SUBSTITUTE.format(name=name, more=more), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    from verl.utils import reward_score

    yield reward_score
    for name in [name for name in sys.modules if name.partition(".")[0] == "verl"]:
        del sys.modules[name]


SOURCES = ["scirecipe", "gsm8k", "thoth", "dapo", "gsm8k", "dapo"]
SOLUTIONS = [TEXTS[0], "4", TEXTS[2], "7", "5", "8"]
TRUTHS = [REFERENCE, "4", REFERENCE, "7", "4", "7"]
SCORES = [EXPECTED[0], 1.0, EXPECTED[2], 1.0, 0.0, -1.0]
ACCURACIES = [EXPECTED[0], 1.0, EXPECTED[2], 1.0, 0.0, 0.0]


def in_loop(**kwargs: Any) -> list[dict[str, float]]:
    async def run() -> list[dict[str, float]]:
        rows = zip(SOURCES, SOLUTIONS, TRUTHS, strict=True)
        return await asyncio.gather(*(for_verl.compute_score(*row, {"index": 1}, **kwargs) for row in rows))

    return asyncio.run(run())


def one_by_one(**kwargs: Any) -> list[dict[str, float]]:
    rows = zip(SOURCES, SOLUTIONS, TRUTHS, strict=True)
    return [for_verl_sync.compute_score(*row, {"index": 1}, **kwargs) for row in rows]


def as_batch(**kwargs: Any) -> list[dict[str, float]]:
    infos = np.array([{"index": 1}] * len(SOURCES), object)
    return for_verl.compute_score_batch(np.array(SOURCES, object), SOLUTIONS, TRUTHS, infos, **kwargs)


@pytest.mark.parametrize("way", [in_loop, one_by_one, as_batch])
@pytest.mark.usefixtures("at")
def test_other_data_sources_are_verls(
    way: Callable[..., list[dict[str, float]]], verl: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", "scirecipe, thoth")
    found = way(config={"order": "strict"})
    assert [result["score"] for result in found] == pytest.approx(SCORES)
    assert [result["acc"] for result in found] == pytest.approx(ACCURACIES)
    assert [result["score_applies"] for result in found] == [1, 0, 1, 0, 0, 0]
    assert [result["score_readable"] for result in found] == [1, 0, 0, 0, 0, 0]
    assert [result["score_reason_code"] for result in found] == [0, -1, 3, -1, -1, -1]
    for result in found:  # verl takes the names from one sample, and fails if another differs
        check_numbers(result, {"score", "acc", "score_applies", *METRICS})
    assert sorted(call[0] for call in verl.calls) == ["dapo", "dapo", "gsm8k", "gsm8k"]
    assert all(call[1] == {"index": 1} and not call[2] for call in verl.calls)
    threads = {call[3] for call in verl.calls}
    assert (threading.get_ident() in threads) is (way is not in_loop), "they must not block the event loop"
    (tmp_path / "7.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
    means = step_means(tmp_path / "7.jsonl")
    assert (means["step"], means["samples"]) == (7, 2), "of Assay's samples alone"
    assert means["score"] == pytest.approx((SCORES[0] + SCORES[2]) / 2)
    assert means["score_readable"] == means["score_reason_missing_sections"] == 0.5
    assert all(map(math.isfinite, means.values()))


def test_options_that_verls_function_takes(verl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only known `reward_kwargs` are passed on, as by verl."""
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", "scirecipe")
    for_verl_sync.compute_score("gsm8k", "4", "4", options={"a": 1}, config={"order": "lcs"})
    assert verl.calls[0][2] in ({"a": 1}, {"options": {"a": 1}})


@pytest.mark.usefixtures("verl")
def test_other_data_sources_need_no_service(down: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", "scirecipe")
    found = for_verl.compute_score_batch(["gsm8k"] * 2, ["4", "5"], ["4", "4"])
    assert [result["score"] for result in found] == [1, 0]
    assert not down.requests
    with pytest.raises(InvalidSetting, match="ASSAY_CLIENT_DATA_SOURCES: 'thoth' is not in the list"):
        for_verl_sync.compute_score("thoth", "4", "4")
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", " , ")
    with pytest.raises(InvalidSetting, match="ASSAY_CLIENT_DATA_SOURCES: must be names"):
        for_verl_sync.compute_score("thoth", "4", "4")


def test_without_verl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", "scirecipe")
    monkeypatch.setitem(sys.modules, "verl", None)
    with pytest.raises(InvalidSetting, match="default_compute_score cannot be imported"):
        for_verl_sync.compute_score("gsm8k", "4", "4")
