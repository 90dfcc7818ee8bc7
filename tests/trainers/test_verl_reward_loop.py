"""verl's reward managers and its reward loop, the latter with Ray."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch
from hydra import compose, initialize_config_module
from model import new_tokenizer
from verl import DataProto
from verl.experimental.reward_loop.reward_loop import RewardLoopManager
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.reward import load_reward_manager

from assay_client import InvalidSetting
from assay_client.adapters.metrics import METRICS
from tests.cases.mixed import OPTIONS, ROWS
from tests.http.samples import REFERENCE
from tests.servers import LiveServer, score_requests
from tests.trainers.pairs import BAD_RECORD, EXPECTED, TEXTS, all_finite, check_numbers

ADAPTERS = Path(__file__).resolve().parents[2] / "clients" / "assay_client" / "adapters"

SOURCES = (
    "assay, scirecipe=score, pqa=bioprobench.pqa, bioprobench.ord, bioprobench.err, lexical, bioplanner, "
    "sgi.wet_experiment"
)
NAMED = {"score": "scirecipe", "bioprobench.pqa": "pqa"}
"""Data sources that are not the name of their task."""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    trained = new_tokenizer([*TEXTS, REFERENCE, "Step 1: nothing", *(row.response for row in ROWS)])
    trained.save_pretrained(tmp_path_factory.mktemp("tokenizer"))
    trained.folder = str(tmp_path_factory.getbasetemp() / "tokenizer0")
    return trained


def config_of(tokenizer: Any, *overrides: str, adapter: str = "for_verl.py") -> Any:
    """verl's own configuration, with the lines of examples/trainers/verl.sh."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(
            "ppo_trainer",
            [
                f"reward.custom_reward_function.path={ADAPTERS / adapter}",
                f"actor_rollout_ref.model.path={tokenizer.folder}",
                "reward.num_workers=2",
                *overrides,
            ],
        )


def batch_of(tokenizer: Any, texts: list[str], references: list[Any]) -> DataProto:
    """As rollouts come: padded token ids, and what the data set says about each."""
    responses = tokenizer([text + tokenizer.eos_token for text in texts], padding=True, padding_side="right")
    ids, mask = torch.tensor(responses["input_ids"]), torch.tensor(responses["attention_mask"])
    prompts = torch.zeros((len(texts), 2), dtype=torch.long)
    infos: Any = [{"index": k} for k in range(len(texts))]
    truths: Any = [{"style": "rule", "ground_truth": reference} for reference in references]
    return DataProto.from_dict(
        tensors={
            "prompts": prompts,
            "responses": ids,
            "input_ids": torch.cat([prompts, ids], 1),
            "attention_mask": torch.cat([torch.ones_like(prompts), mask], 1),
        },
        non_tensors={
            "data_source": np.array(["assay"] * len(texts), object),
            "reward_model": np.array(truths, object),
            "extra_info": np.array(infos, object),
        },
    )


def scored_singly(config: Any, tokenizer: Any, data: DataProto) -> list[dict[str, Any]]:
    """Return what its reward manager makes of each sample, all at once."""

    async def run() -> list[dict[str, Any]]:
        manager = load_reward_manager(config, tokenizer)
        return await asyncio.gather(*(manager.run_single(data[k : k + 1]) for k in range(len(data))))

    return asyncio.run(run())


def many(tokenizer: Any, n: int) -> tuple[DataProto, list[float]]:
    return batch_of(tokenizer, [TEXTS[k % 3] for k in range(n)], [REFERENCE] * n), [EXPECTED[k % 3] for k in range(n)]


def batch_of_tasks(tokenizer: Any) -> DataProto:
    data = batch_of(tokenizer, [row.response for row in ROWS], [row.reference for row in ROWS])
    data.non_tensor_batch["data_source"] = np.array([NAMED.get(row.task, row.task) for row in ROWS], object)
    return data


@pytest.mark.parametrize("manager", ["naive", "dapo"])
@pytest.mark.parametrize("adapter", ["for_verl.py", "for_verl_sync.py"])
def test_rows_of_other_tasks(
    tokenizer: Any, manager: str, adapter: str, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Floats and dicts from verl's function get the same field names as Assay's rewards, all of them numbers."""
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", "assay,elsewhere")
    data = batch_of(tokenizer, [*TEXTS, *TEXTS[:2]], [REFERENCE] * 3 + ["4", "4"])
    data.non_tensor_batch["data_source"][3:] = ["openai/gsm8k", "math_dapo"]
    config = config_of(tokenizer, f"reward.reward_manager.name={manager}", adapter=adapter)
    scored = scored_singly(config, tokenizer, data)
    assert [result["reward_score"] for result in scored] == pytest.approx([*EXPECTED, 0.0, -1.0])
    numbers = [result["reward_extra_info"] for result in scored]
    assert all(number.keys() == numbers[0].keys() >= {"score", "acc", *METRICS} for number in numbers)
    assert all(all_finite(number) for number in numbers)
    assert [number["score_applies"] for number in numbers] == [1, 1, 1, 0, 0]
    assert [number["acc"] for number in numbers] == pytest.approx([*EXPECTED, 0, 0])
    data.non_tensor_batch["data_source"][4] = "nobody's"
    with pytest.raises(InvalidSetting, match=r"ASSAY_CLIENT_DATA_SOURCES.*nobody's"):
        scored_singly(config, tokenizer, data)


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize("manager", ["naive", "gdpo"])
def test_two_parts_for_gdpo(tokenizer: Any, manager: str) -> None:
    """They sum to the reward exactly, and its estimator normalizes each within its group."""
    keys = ["score_order_part", "score_content_part"]
    config = config_of(
        tokenizer,
        f"reward.reward_manager.name={manager}",
        "+reward.custom_reward_function.reward_kwargs.parts=true",
        "algorithm.adv_estimator=gdpo",
        f"+algorithm.gdpo_reward_keys=[{','.join(keys)}]",
    )
    data, expected = many(tokenizer, 60)
    scored = scored_singly(config, tokenizer, data)
    parts = {key: np.array([result["reward_extra_info"][key] for result in scored]) for key in keys}
    assert [result["reward_score"] for result in scored] == expected == sum(parts.values()).tolist()
    assert 0 < parts["score_order_part"][0] < expected[0]
    groups = np.arange(60) // 6
    mask = data.batch["attention_mask"][:, 2:]
    data.batch["response_mask"] = mask
    data.batch["token_level_rewards"] = torch.zeros(mask.shape)
    data.non_tensor_batch |= {"uid": groups.astype(object), **parts}
    gained = compute_advantage(data, config.algorithm.adv_estimator, config=config.algorithm).batch["advantages"]
    total = np.zeros(60)
    for part in parts.values():
        grouped = part.reshape(10, 6)
        total += ((grouped - grouped.mean(1, keepdims=True)) / (grouped.std(1, ddof=1, keepdims=True) + 1e-6)).ravel()
    tokens = torch.tensor(total)[:, None].expand(mask.shape)[mask.bool()]
    torch.testing.assert_close(gained[mask.bool()].double(), (tokens - tokens.mean()) / tokens.std(), atol=1e-4, rtol=0)


@pytest.fixture(scope="module")
def cluster(server: LiveServer) -> Iterator[None]:
    variables = {
        "ASSAY_URL": server.url,
        "ASSAY_CLIENT_DATA_SOURCES": SOURCES,
        "ASSAY_CLIENT_CONFIG": json.dumps(OPTIONS),
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": variables})
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_the_reward_loop(tokenizer: Any, server: LiveServer) -> None:
    """RewardLoopManager and its two workers, as the trainer makes them, with the settings of ROWS."""
    loop = RewardLoopManager(config_of(tokenizer))
    data, _ = many(tokenizer, 1000)
    alone = {row.response: row.reward for row in ROWS if row.task == "score"}
    expected = [alone[TEXTS[k % 3]] for k in range(1000)]
    count = score_requests(server)
    scored = loop.compute_rm_score(data)
    assert scored.batch["rm_scores"].sum(-1).tolist() == pytest.approx(expected)
    assert set(scored.meta_info["reward_extra_keys"]) >= {"score", *METRICS}
    assert scored.non_tensor_batch["score_format"].tolist() == [1.0 if reward else 0.0 for reward in expected]
    assert count() <= 200
    broken = batch_of(tokenizer, TEXTS[:2], [REFERENCE, "Step 1: nothing"])
    with pytest.raises(ray.exceptions.RayTaskError, match=r"record 1: reference: bad_step_line"):
        loop.compute_rm_score(broken)
    assert loop.compute_rm_score(data[:4]).batch["rm_scores"].sum(-1).tolist() == pytest.approx(expected[:4])
    check_a_batch_of_tasks(loop, tokenizer)


def check_a_batch_of_tasks(loop: RewardLoopManager, tokenizer: Any) -> None:
    """Check the rewards of SCORE and other tasks in one batch."""
    data = batch_of_tasks(tokenizer)
    scored = loop.compute_rm_score(data)
    columns = {name: scored.non_tensor_batch[name].tolist() for name in scored.meta_info["reward_extra_keys"]}
    infos = [dict(zip(columns, numbers, strict=True)) for numbers in zip(*columns.values(), strict=True)]
    for info, row in zip(infos, ROWS, strict=True):
        assert {info.pop("score"), info.pop("acc")} == {row.reward}
        assert info.pop("score_applies") == 1
        check_numbers(info, row)
    data.non_tensor_batch["reward_model"][4] = {"style": "rule", "ground_truth": BAD_RECORD}
    with pytest.raises(ray.exceptions.RayTaskError, match=r"record 4: reference: \w+ \(bioprobench\.ord: "):
        loop.compute_rm_score(data)
