"""AReaL's reward wrapper with its process pool, ms-swift's registry of rewards, SkyRL's registry of environments."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import skyrl_gym
from skyrl_gym.envs import register
from swift.rewards import ORM, orms

from assay_client.adapters.for_areal import reward_fn
from tests.trainers.pairs import EXPECTED, METRICS, REFERENCE, TEXTS, all_finite

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


def test_ms_swift(at: str) -> None:
    """A plugin is a file that is imported by its path, with its folder on the path."""
    spec = importlib.util.spec_from_file_location("plugin", ADAPTERS / "for_ms_swift.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    reward = orms["assay"](args=None)
    assert isinstance(reward, ORM)
    columns = {"reference": [REFERENCE] * 3, "messages": [[]] * 3, "trainer_state": None}
    assert reward(TEXTS, **columns) == pytest.approx(EXPECTED)


def test_skyrl(at: str) -> None:
    """One environment a sample, stepped in a pool of threads as the generator does."""
    register(id="assay", entry_point="assay_client.adapters.for_skyrl:AssayEnv")
    extras = {"reward_spec": {"method": "rule", "ground_truth": REFERENCE}, "extra_info": {"index": 7}}

    def episode(text: str) -> tuple[float, dict[str, float]]:
        environment = skyrl_gym.make("assay", env_config={}, extras=extras)
        environment.init([{"role": "user", "content": "Add PBS."}])
        output = environment.step(text)
        assert output["done"]
        return output["reward"], environment.get_metrics()

    with ThreadPoolExecutor(32) as threads:
        found = list(threads.map(episode, TEXTS * 20))
    assert [reward for reward, _ in found] == pytest.approx(EXPECTED * 20)
    assert all(metrics.keys() == set(METRICS) and all_finite(metrics) for _, metrics in found)
