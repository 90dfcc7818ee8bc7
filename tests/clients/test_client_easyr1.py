"""The adapter for EasyR1, loaded and called as by EasyR1."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from assay_client import InvalidReference, InvalidRequest, InvalidSetting, Unavailable
from assay_client.adapters import for_easyr1
from assay_client.adapters.metrics import METRICS
from tests.clients.adapter_samples import EXPECTED, TEXTS, check_numbers
from tests.clients.fault_server import FaultServer
from tests.http.samples import REFERENCE, SWAPPED


def reward_function(monkeypatch: pytest.MonkeyPatch, **kwargs: Any) -> Any:
    """Return the function of `FILE:NAME` with `reward_function_kwargs`, as EasyR1's managers load it."""
    spec = importlib.util.spec_from_file_location("custom_reward_fn", Path(for_easyr1.__file__))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "custom_reward_fn", module)
    spec.loader.exec_module(module)
    return partial(module.compute_score, **kwargs)


def inputs(texts: list[str], references: list[Any]) -> list[dict[str, Any]]:
    return [
        {"response": text, "response_length": 7, "ground_truth": reference}
        for text, reference in zip(texts, references, strict=True)
    ]


@pytest.mark.usefixtures("at")
def test_a_batch_and_a_single_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    function = reward_function(monkeypatch)
    found = function(inputs(TEXTS, [REFERENCE] * 3))
    assert [score["overall"] for score in found] == pytest.approx(EXPECTED)
    for score in found:
        check_numbers(score, {"overall", *METRICS})
    assert function(inputs(TEXTS, [REFERENCE] * 3)[1]) == found[1]
    assert function([]) == []


@pytest.mark.usefixtures("at")
def test_settings_and_bad_references(monkeypatch: pytest.MonkeyPatch) -> None:
    (plain,) = reward_function(monkeypatch)(inputs([SWAPPED], [REFERENCE]))
    (changed,) = reward_function(monkeypatch, config={"order": "lcs"})(inputs([SWAPPED], [REFERENCE]))
    assert changed["overall"] > plain["overall"]
    with pytest.raises(InvalidSetting, match="ordre"):
        reward_function(monkeypatch, config={"ordre": "lcs"})(inputs([SWAPPED], [REFERENCE]))
    with pytest.raises(InvalidReference, match=r"references\[1\]"):
        reward_function(monkeypatch)(inputs(TEXTS, [REFERENCE, None, REFERENCE]))
    with pytest.raises(InvalidRequest, match=r"responses\[0\]"):
        reward_function(monkeypatch)(inputs([None], [REFERENCE]))  # type: ignore[list-item]


def test_a_batch_is_one_request(faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_URL", faults.url)
    reward_function(monkeypatch)(inputs(["x"] * 64, ["r"] * 64))
    assert len(faults.requests) == 1
    assert faults.requests[0].document["references"] == ["r"]


@pytest.mark.usefixtures("down")
def test_a_final_failure_is_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match="HTTP 503"):
        reward_function(monkeypatch)(inputs(["x"], ["r"]))
