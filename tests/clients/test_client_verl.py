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
        result = asyncio.run(call(data_source="thoth", solution_str=text, ground_truth=REFERENCE))
        assert result["score"] == pytest.approx(reward)
        check_numbers(result, {"score", *METRICS})
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
        row = {"input": "p", "output": "o", "gts": "r", "step": step, "request_id": "z"}
        row |= {"score_format": step, "score_readable": 1.0}
        text = "".join(json.dumps({**row, "score": k}) + "\n" for k in range(3))
        (tmp_path / f"{step}.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "notes.jsonl").write_text("not a step", encoding="utf-8")
    main([str(tmp_path), "--csv", str(tmp_path / "steps.csv")])
    with (tmp_path / "steps.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["step"] for row in rows] == ["1", "2", "10"]
    assert [row["score_format"] for row in rows] == ["1.0", "2.0", "10.0"]
    assert {(row["score"], row["samples"], row["score_order"]) for row in rows} == {("1.0", "3", "")}


def test_components_per_step_while_verl_runs(tmp_path: Path) -> None:
    steps = finished_steps(tmp_path, follow=True, poll=0.01)
    for step in (1, 2):
        path = tmp_path / f"{step}.jsonl"
        path.write_text("{}\n", encoding="utf-8")
        os.utime(path, (path.stat().st_mtime - SETTLE_SECONDS,) * 2)
        assert next(steps) == path


def dump(folder: Path, step: int, rows: list[dict[str, Any]]) -> None:
    """Write what the default trainer of verl 0.9.1 writes: no number but the reward, in single precision."""
    lines = [json.dumps({"input": "p", "step": step, "uid": f"{step}_{k}_0", **row}) for k, row in enumerate(rows)]
    (folder / f"{step}.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def of_assay() -> list[dict[str, Any]]:
    pairs = zip(TEXTS, EXPECTED, strict=True)
    return [{"output": text, "gts": REFERENCE, "score": float(np.float32(reward))} for text, reward in pairs]


OF_VERL = [{"input": "q", "output": "#### 72", "gts": "72", "score": 1.0}] * 5


@pytest.mark.usefixtures("at")
def test_a_dump_without_components_is_scored_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only Assay's rows count, and the numbers are those of a dump that has them."""
    dump(tmp_path, 1, of_assay())
    dump(tmp_path, 2, [OF_VERL[0], *of_assay(), *OF_VERL[1:]])
    numbers = for_verl.compute_score_batch(["d"] * 3, TEXTS, [REFERENCE] * 3)
    dump(tmp_path, 3, [{**row, **more} for row, more in zip(of_assay(), numbers, strict=True)])
    main([str(tmp_path), "--csv", str(tmp_path / "steps.csv")])
    with (tmp_path / "steps.csv").open(encoding="utf-8", newline="") as lines:
        first, second, third = csv.DictReader(lines)
    assert first == {**second, "step": "1"}
    assert float(first["score"]) == pytest.approx(sum(EXPECTED) / 3)
    assert third.keys() == first.keys()
    for name in first.keys() - {"step"}:
        assert first[name] == third[name] == "" or float(first[name]) == pytest.approx(float(third[name])), name
    assert "2.jsonl: 5 of 8 samples have no reference of SCORE: left out" in capsys.readouterr().err


STOPS: dict[str, tuple[list[dict[str, Any]], dict[str, str], str]] = {
    "another reward": (
        [*of_assay()[:1], of_assay()[1] | {"score": 0.25}],
        {},
        r"line 2: the service gives the reward .*, and the file says 0.25: set ASSAY_CLIENT_CONFIG",
    ),
    "other settings": (of_assay(), {"ASSAY_CLIENT_CONFIG": '{"order": "lcs"}'}, "line 2: the service gives the reward"),
    "verl's own rows": (OF_VERL, {}, "no sample has a reference of SCORE"),
    "no output": ([{"score": 1.0}], {}, "line 1: the sample has neither components nor output and gts"),
    "no text": ([of_assay()[0], of_assay()[0] | {"output": None}], {}, r"record 2: output\[1\]: wrong_type"),
    "other tasks": (of_assay(), {"ASSAY_CLIENT_DATA_SOURCES": "d=bioprobench.ord"}, "do not name their task"),
    "no service": (of_assay(), {"ASSAY_URL": "http://127.0.0.1:9", "ASSAY_CLIENT_TIMEOUT": "0.2"}, "no reward"),
}


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(("rows", "environ", "message"), STOPS.values(), ids=STOPS)
def test_a_dump_that_cannot_be_reported_stops_with_the_reason(
    rows: list[dict[str, Any]], environ: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    dump(tmp_path, 1, rows)
    with pytest.raises(SystemExit, match=message) as caught:
        main([str(tmp_path), "--csv", str(tmp_path / "steps.csv")])
    assert isinstance(caught.value.code, str), "which is exit code 1, with the text on standard error"


def test_a_folder_that_is_no_dump(tmp_path: Path) -> None:
    for text, message in ((None, "no file of a step"), ("{", "1.jsonl, line 1: not JSON"), ("[]", "not an object")):
        if text is not None:
            (tmp_path / "1.jsonl").write_text(text, encoding="utf-8")
        with pytest.raises(SystemExit, match=message):
            main([str(tmp_path), "--csv", str(tmp_path / "steps.csv")])


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
    results = way(config={"order": "strict"})
    assert [result["score"] for result in results] == pytest.approx(SCORES)
    assert [result["acc"] for result in results] == pytest.approx(ACCURACIES)
    assert [result["score_applies"] for result in results] == [1, 0, 1, 0, 0, 0]
    assert [result["score_readable"] for result in results] == [1, 0, 0, 0, 0, 0]
    assert [result["score_reason_code"] for result in results] == [0, -1, 3, -1, -1, -1]
    for result in results:  # verl takes the names from one sample, and fails if another differs
        check_numbers(result, {"score", "acc", "score_applies", *METRICS})
    assert sorted(call[0] for call in verl.calls) == ["dapo", "dapo", "gsm8k", "gsm8k"]
    assert all(call[1] == {"index": 1} and not call[2] for call in verl.calls)
    threads = {call[3] for call in verl.calls}
    assert (threading.get_ident() in threads) is (way is not in_loop), "they must not block the event loop"
    (tmp_path / "7.jsonl").write_text("".join(json.dumps(row) + "\n" for row in results), encoding="utf-8")
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
    results = for_verl.compute_score_batch(["gsm8k"] * 2, ["4", "5"], ["4", "4"])
    assert [result["score"] for result in results] == [1, 0]
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
