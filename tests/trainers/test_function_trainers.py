"""AReaL's reward wrapper with its process pool, ms-swift's rewards, and the lines of a page for `datasets.map`."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from swift.rewards import ORM, orms
from swift.rl_core.data import GRPOSample
from swift.rl_core.grpo_algorithm import score_completions
from swift.utils import import_external_file

from assay_client import InvalidReference
from assay_client.adapters.for_areal import reward_fn
from tests.cases.mixed import OPTIONS, ROWS
from tests.http.samples import REFERENCE
from tests.servers import LiveServer, score_requests
from tests.trainers.pairs import BAD_RECORD, EXPECTED, TEXTS, reference_in_column

ADAPTERS = Path(__file__).resolve().parents[2] / "clients" / "assay_client" / "adapters"
EOS = "<|im_end|>"


@pytest.fixture(scope="module")
def areal() -> Any:
    """`areal.api.reward_api` without the rest of AReaL, which imports its inference engines."""
    folder = Path(importlib.util.find_spec("verl").origin).parents[1] / "areal"  # type: ignore[union-attr, arg-type]
    for name in ("areal", "areal.api", "areal.utils"):
        package = types.ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    return importlib.import_module("areal.api.reward_api")


def test_areal(areal: Any, at: str) -> None:
    wrapper = areal.AsyncRewardWrapper(reward_fn, timeout_seconds=15, max_workers=2)

    async def run(**row: Any) -> list[float]:
        calls = [wrapper("p", text + EOS, [1], [2], query_id="7", **row) for text in TEXTS]
        return await asyncio.gather(*calls)

    assert asyncio.run(run(reference=REFERENCE)) == pytest.approx(EXPECTED)
    with pytest.raises(Exception, match="record 7: reference: bad_step_line"):
        asyncio.run(run(reference="Step 1: nothing"))


@pytest.fixture
def swift_reward() -> Any:
    """The reward of the plugin, imported as `--external_plugins` does."""
    import_external_file(str(ADAPTERS / "for_ms_swift.py"))
    reward = orms["assay"](args=None)
    assert isinstance(reward, ORM)
    return reward


def swift_rewards(rows: list[dict[str, Any]], *rewards: Any) -> torch.Tensor:
    """Return the rewards that its trainer gets for rollouts of these rows of the data set, by reward function."""
    samples = [GRPOSample.from_row({"prompt_id": str(row["id"]), "request_id": str(row["id"])} | row) for row in rows]
    state = types.SimpleNamespace(global_step=0)
    return score_completions(samples, list(rewards), None, False, torch.device("cpu"), trainer_state=state)


def answered(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": "Add PBS."}, {"role": "assistant", "content": text}]


def test_ms_swift_with_several_tasks(at: str, swift_reward: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", json.dumps(OPTIONS))
    rows: list[dict[str, Any]] = [
        {
            "messages": answered(row.response),
            "reference": reference_in_column(row),
            "id": k,
            "prompt_id": repr(row.group),
        }
        | ({} if row.task == "score" else {"task": row.task})
        for k, row in enumerate(ROWS)
    ]
    rewards = swift_rewards(rows, swift_reward)
    assert rewards.tolist() == torch.tensor([[row.reward] for row in ROWS]).tolist()
    rows[4]["reference"] = json.dumps(BAD_RECORD)
    with pytest.raises(InvalidReference, match=r"record 4: references\[4\]: \w+ \(bioprobench\.ord: "):
        swift_rewards(rows, swift_reward)


def test_ms_swift_with_components_as_rewards(at: str, swift_reward: Any, server: LiveServer) -> None:
    """GDPO: each is normalized over the rows that have it, and all of them come from one request."""
    rows = [
        {"messages": answered(row.response), "reference": reference_in_column(row), "task": row.task, "id": k}
        for k, row in enumerate(row for row in ROWS if row.task in ("score", "bioprobench.ord"))
    ]
    names = ["assay_format", "assay_content", "assay_exact_match", "assay"]
    count = score_requests(server)
    rewards = swift_rewards(rows, *(orms[name](args=None) for name in names))
    assert count() == 1
    for column, task in enumerate(["score", "score", "bioprobench.ord"]):
        missing = [row["task"] != task for row in rows]
        assert rewards[:, column].isnan().tolist() == missing
    assert not rewards[:, -1].isnan().any()
    # Its GDPO divides by the standard deviation plus 1e-8: the rounding of a mean would become an advantage.
    assert (rewards[:, :-1].nan_to_num() * 65_536 % 1 == 0).all()


@pytest.mark.usefixtures("at")
def test_datasets_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "trainers" / "other.md"
    snippets = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (code,) = (snippet for snippet in snippets if "load_dataset" in snippet)
    lines = (json.dumps({"response": text, "reference": REFERENCE}) + "\n" for text in TEXTS)
    (tmp_path / "rollouts.jsonl").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, str(page), "exec"), names)
    assert names["rows"]["reward"] == pytest.approx(EXPECTED)
    assert names["rows"]["reason"] == ["ok", "ok", "missing_sections"]
    many = Dataset.from_dict({"response": TEXTS * 20, "reference": [REFERENCE] * 60})
    spread = many.map(names["scored"], batched=True, batch_size=7, num_proc=2)
    assert spread["reward"] == pytest.approx(EXPECTED * 20)
    bad = Dataset.from_dict({"response": TEXTS[:2], "reference": [REFERENCE, "Step 1: nothing"]})
    with pytest.raises(InvalidReference, match=r"references\[1\]"):
        bad.map(names["scored"], batched=True)
