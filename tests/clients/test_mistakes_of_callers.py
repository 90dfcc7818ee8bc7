"""What a trainer may pass by mistake: each is an error of the package that names the row and what was expected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from assay_client import AssayError, InvalidRequest, InvalidSetting
from assay_client.adapters import (
    common,
    for_areal,
    for_easyr1,
    for_ms_swift,
    for_openrlhf,
    for_skyrl,
    for_slime,
    for_trl,
    for_verl,
    for_verl_sync,
)
from tests.clients.fault_server import FaultServer

IDS = {"id": ["a", "b", "c"]}
REFERENCES = ["r"] * 3
SPEC = {"ground_truth": "r"}
INFOS = [{"index": name} for name in IDS["id"]]


@pytest.fixture(autouse=True)
def _first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "_filled_columns", set())


def slime(text: Any) -> Any:
    return asyncio.run(for_slime.custom_rm(None, SimpleNamespace(response=text, label="r", index="b")))


WITH_ONE_TEXT: dict[str, tuple[Callable[[Any], Any], str]] = {
    "TRL": (lambda text: for_trl.score_reward("p", ["x", text, "x"], reference=REFERENCES, **IDS), r"completions\[1\]"),
    "TRL, async": (
        lambda text: asyncio.run(for_trl.async_score_reward("p", ["x", text, "x"], reference=REFERENCES, **IDS)),
        r"completions\[1\]",
    ),
    "TRL, steps": (lambda text: for_trl.score_steps(["x", text], reference=["r"] * 2, id="ab"), r"completions\[1\]"),
    "ms-swift": (lambda text: for_ms_swift.AssayReward()(["x", text], solution=["r"] * 2), r"completions\[1\]"),
    "EasyR1": (
        lambda text: for_easyr1.compute_score(
            [{"response": response, "ground_truth": "r"} for response in ("x", text)]
        ),
        r"responses\[1\]",
    ),
    "OpenRLHF": (lambda text: for_openrlhf.reward_func(["x", text], ["", ""], ["r", "r"]), r"queries\[1\]"),
    "OpenRLHF, prompt": (lambda text: for_openrlhf.reward_func(["x"], [text or 7], ["r"]), r"prompts\[0\]"),
    "verl": (lambda text: asyncio.run(for_verl.compute_score("d", text, "r", {"index": "b"})), "record b: response"),
    "verl, batch": (
        lambda text: for_verl.compute_score_batch(["d"] * 3, ["x", text, "x"], REFERENCES, INFOS),
        r"record b: solution_strs\[1\]",
    ),
    "slime": (slime, "record b: response"),
    "SkyRL": (lambda text: for_skyrl.AssayEnv({}, {"reward_spec": SPEC}).step(text), "response"),
    "AReaL": (lambda text: for_areal.reward_fn("p", text, [], [], reference="r", id="b"), "record b: response"),
}
NOT_TEXT: list[Any] = [None, 7, 0.5, ["x", "y"], [None], b"x", [{"role": "assistant", "content": 7}]]


@pytest.mark.parametrize(("call", "where"), WITH_ONE_TEXT.values(), ids=WITH_ONE_TEXT)
@pytest.mark.parametrize("text", NOT_TEXT, ids=repr)
def test_a_completion_that_is_no_text(call: Any, where: str, text: Any, service: FaultServer) -> None:
    with pytest.raises(InvalidRequest, match=rf"{where}: wrong_type"):
        call(text)
    assert not service.requests


def test_it_names_the_record_and_what_was_expected(service: FaultServer) -> None:
    with pytest.raises(InvalidRequest) as caught:
        for_trl.score_reward("p", [None, "x", ["a", "b"]], reference=REFERENCES, **IDS)
    first, second = caught.value.issues
    assert (first.record, second.record) == ("a", "c")
    assert "must be text or a list of chat messages" in first.detail
    assert first.detail.endswith("not NoneType")
    assert second.detail.endswith("not a list of str")


MISTAKES: dict[str, tuple[Callable[[], Any], type[AssayError], str]] = {
    "TRL, no list": (lambda: for_trl.score_reward("p", "xyz", reference=REFERENCES), InvalidRequest, "completions: "),
    "TRL, references": (
        lambda: for_trl.score_reward("p", ["x"], reference="r"),
        InvalidRequest,
        "references: wrong_type",
    ),
    "TRL, task": (
        lambda: for_trl.score_reward("p", ["x"], reference=["r"], task="bioprobench.ord"),
        InvalidRequest,
        "task: wrong_type",
    ),
    "TRL, tasks": (
        lambda: for_trl.score_reward("p", ["x"], reference=["r"], task=["score"] * 2),
        InvalidRequest,
        "task: length_mismatch",
    ),
    "TRL, setting": (
        lambda: for_trl.score_reward("p", ["x"], reference=["r"], order="lcs"),
        InvalidSetting,
        "order: misplaced_setting .*ASSAY_CLIENT_CONFIG",
    ),
    "TRL, config": (
        lambda: for_trl.score_reward("p", ["x"], reference=["r"], config={"order": "lcs"}),
        InvalidSetting,
        "config: .*ASSAY_CLIENT_CONFIG",
    ),
    "ms-swift, setting": (
        lambda: for_ms_swift.AssayReward()(["x"], solution=["r"], order="lcs"),
        InvalidSetting,
        "order: misplaced_setting .*ASSAY_CLIENT_CONFIG",
    ),
    "EasyR1, row": (lambda: for_easyr1.compute_score(["x"]), InvalidRequest, r"reward_inputs\[0\]: .*not be str"),  # type: ignore[list-item]
    "EasyR1, column": (lambda: for_easyr1.compute_score([{"response": "x"}]), InvalidRequest, r"reward_inputs\[0\]: "),
    "EasyR1, none": (lambda: for_easyr1.compute_score(None), InvalidRequest, "reward_inputs: "),  # type: ignore[arg-type]
    "EasyR1, setting": (
        lambda: for_easyr1.compute_score({"response": "x", "ground_truth": "r"}, order="lcs"),
        InvalidSetting,
        "reward_function_kwargs.order: misplaced_setting .*reward_function_kwargs.config",
    ),
    "EasyR1, unknown": (
        lambda: for_easyr1.compute_score({"response": "x", "ground_truth": "r"}, ordr="lcs"),
        InvalidSetting,
        "reward_function_kwargs.ordr: unknown_setting",
    ),
    "OpenRLHF, lengths": (
        lambda: for_openrlhf.reward_func(["x"] * 2, [""] * 2, ["r"]),
        InvalidRequest,
        "labels: length",
    ),
    "OpenRLHF, prompts": (
        lambda: for_openrlhf.reward_func(["x"] * 2, [""], ["r"] * 2),
        InvalidRequest,
        "prompts: length",
    ),
    "OpenRLHF, text": (lambda: for_openrlhf.reward_func("x", "", "r"), InvalidRequest, "queries: wrong_type"),
    "slime, sample": (
        lambda: asyncio.run(for_slime.custom_rm(None, [SimpleNamespace(response="x", index=7)])),
        InvalidRequest,
        "record 7: sample: wrong_type",
    ),
    "slime, text": (lambda: asyncio.run(for_slime.custom_rm(None, "x")), InvalidRequest, "sample: wrong_type .*str"),
    "SkyRL, spec": (lambda: for_skyrl.AssayEnv({}, {"reward_spec": "r"}), InvalidRequest, "reward_spec: wrong_type"),
    "SkyRL, setting": (
        lambda: for_skyrl.AssayEnv({"order": "lcs"}, {"reward_spec": SPEC}),
        InvalidSetting,
        "env_config.order: misplaced_setting",
    ),
    "verl, setting": (
        lambda: for_verl_sync.compute_score("d", "x", "r", order="lcs"),
        InvalidSetting,
        "reward_kwargs.order: misplaced_setting .*reward_kwargs.config",
    ),
    "verl, async": (
        lambda: asyncio.run(for_verl.compute_score("d", "x", "r", order="lcs")),
        InvalidSetting,
        "reward_kwargs.order: misplaced_setting",
    ),
    "verl, unknown": (
        lambda: for_verl_sync.compute_score("d", "x", "r", ordr="lcs"),
        InvalidSetting,
        "reward_kwargs.ordr: unknown_setting",
    ),
    "verl, config": (
        lambda: for_verl_sync.compute_score("d", "x", "r", config="order=lcs"),
        InvalidSetting,
        "reward_kwargs.config: must be an object",
    ),
    "verl, steps": (
        lambda: for_verl_sync.compute_score("d", "x", "r", steps="false"),
        InvalidSetting,
        "reward_kwargs.steps: must be true or false",
    ),
    "verl, sources": (
        lambda: for_verl.compute_score_batch(["d"], ["x"] * 2, ["r"] * 2),
        InvalidRequest,
        "data_sources: ",
    ),
    "verl, infos": (
        lambda: for_verl.compute_score_batch(["d"] * 2, ["x"] * 2, ["r"] * 2, [{}]),
        InvalidRequest,
        "extra_infos: length_mismatch",
    ),
}


@pytest.mark.parametrize(("call", "error", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named(call: Any, error: Any, message: str, service: FaultServer) -> None:
    with pytest.raises(error, match=message):
        call()
    assert not service.requests


@pytest.mark.usefixtures("service")
def test_a_setting_of_the_reward_beside_rows_of_verl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other names may be those of verl's own function then."""
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", "scirecipe")
    with pytest.raises(InvalidSetting, match=r"reward_kwargs.order: misplaced_setting"):
        for_verl_sync.compute_score("scirecipe", "x", "r", order="lcs")
    assert for_verl_sync.compute_score("scirecipe", "x", "r", sandbox_fusion_url="u", other=1)["score"] == 0.001


@pytest.mark.usefixtures("service")
def test_an_empty_column_beside_a_filled_one(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Neither is what it was for sure; the column `reference` is, and its rows may be of other reward functions."""
    empty, filled = [None, None], ["4", "2"]
    for call in (
        lambda **columns: for_trl.score_reward("p", ["x", "xx"], **columns),
        lambda **columns: for_ms_swift.AssayReward()(["x", "xx"], **columns),
    ):
        with pytest.raises(InvalidRequest, match=r"solution: empty_column .*column answer .*ASSAY_CLIENT_REFERENCE"):
            call(solution=empty, answer=filled)
    assert for_trl.score_reward("p", ["x", "xx"], reference=empty, answer=filled) == empty
    monkeypatch.setenv("ASSAY_CLIENT_REFERENCE", "answer")
    assert for_trl.score_reward("p", ["x", "xx"], solution=empty, answer=filled) == [0.001, 0.002]
    monkeypatch.setenv("ASSAY_CLIENT_REFERENCE", "solution")
    assert for_trl.score_reward("p", ["x", "xx"], solution=empty, answer=filled) == empty
    monkeypatch.delenv("ASSAY_CLIENT_REFERENCE")
    assert for_trl.score_reward("p", ["x", "xx"], solution=["r", None], answer=filled) == [0.001, None]
    assert for_trl.score_reward("p", ["x", "xx"], solution=empty, answer=filled) == empty, "it had some before"
