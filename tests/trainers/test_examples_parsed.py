"""Every example, read by its trainer's own parser of arguments or configurations."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import subprocess
import sys
import typing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typing_extensions

from assay_client.adapters.metrics import METRICS
from tests.by_path import loaded

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "trainers"
SERVICE = "http://reward-host:8000"
PRINTING = '#!/bin/sh\nprintf "%s\\0" "REWARD_PATH=$REWARD_PATH" "$@"\n'


def arguments_of(name: str, folder: Path, **environ: str) -> list[str]:
    """What a script hands to its trainer, with a command in the trainer's place that prints it; REWARD_PATH first."""
    for command in ("python3", "swift"):
        (folder / command).write_text(PRINTING)
        (folder / command).chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "ASSAY_URL": SERVICE, "MODEL": "policy", **environ}
    script = subprocess.run([EXAMPLES / name], env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return script.stdout.removesuffix("\0").split("\0")


def composed(overrides: list[str]) -> Any:
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides)


def test_verl(tmp_path: Path) -> None:
    _, *arguments = arguments_of("verl.sh", tmp_path)
    assert arguments[:2] == ["-m", "verl.trainer.main_ppo"]
    config = composed(arguments[2:])
    assert Path(config.reward.custom_reward_function.path).is_file()
    assert config.reward.custom_reward_function.name == "compute_score"
    assert (config.algorithm.adv_estimator, config.actor_rollout_ref.rollout.n) == ("grpo", 5)
    assert (config.data.train_files, config.data.val_files) == ("rows/train.parquet", "rows/test.parquet")
    actor = config.actor_rollout_ref.actor
    assert (actor.optim.lr, actor.use_kl_loss, actor.kl_loss_coef) == (7e-6, True, 0.001)
    script = (EXAMPLES / "verl.sh").read_text(encoding="utf-8")
    gdpo = re.findall(r"\+?algorithm\.(?:adv_estimator=gdpo|gdpo_reward_keys=\S+)|trainer\.use_v1=\S+", script)
    separate = composed([*arguments[2:], *(argument.replace("'", "") for argument in gdpo)])
    assert (separate.algorithm.adv_estimator, separate.trainer.use_v1) == ("gdpo", False)
    assert set(separate.algorithm.gdpo_reward_keys) <= set(METRICS)
    page = (EXAMPLES.parents[1] / "docs" / "research" / "training.md").read_text(encoding="utf-8")
    options = re.findall(r"^actor_rollout_ref\.actor\.\S+", page, re.MULTILINE)
    assert len(options) == 4
    of_response = composed([*arguments[2:], *options]).actor_rollout_ref.actor
    assert (of_response.policy_loss.loss_mode, of_response.loss_agg_mode) == ("gspo", "seq-mean-token-mean")
    assert (of_response.clip_ratio_low, of_response.clip_ratio_high) == (3e-4, 4e-4)
    assert (actor.policy_loss.loss_mode, actor.clip_ratio) == ("vanilla", 0.2), "the default that the page names"
    _, *arguments = arguments_of("verl.sh", tmp_path, LEARNING_RATE="5e-6", KL="0.0005")
    actor = composed(arguments[2:]).actor_rollout_ref.actor
    assert (actor.optim.lr, actor.kl_loss_coef) == (5e-6, 0.0005), "those of the public script"


def test_thoth(tmp_path: Path) -> None:
    """The recipe's own script gives REWARD_PATH to verl and hands over what it is given."""
    from verl.experimental.reward_loop.reward_loop import migrate_legacy_reward_impl

    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "score_start.sh").write_text('python3 "$@"\n')
    path, *arguments = arguments_of("thoth.sh", tmp_path, THOTH=str(tmp_path))
    rewards = [f"custom_reward_function.path={path.partition('=')[2]}", *arguments]
    function = migrate_legacy_reward_impl(composed(rewards)).reward.custom_reward_function
    assert Path(function.path).is_file()
    assert function.name == "compute_score"


def test_recipes_of_supervised_training() -> None:
    """The commands of the page for the stages before GRPO."""
    from trl.scripts.sft import make_parser

    page = (EXAMPLES.parents[1] / "docs" / "research" / "training.md").read_text(encoding="utf-8")
    commands = re.findall(r"^(trl sft .*?)^```", page, re.MULTILINE | re.DOTALL)
    recipes = []
    for command in commands:
        arguments = shlex.split(command.replace("\\\n", " "))[2:]
        assert arguments.pop() == "--bf16"  # TRL refuses it without a GPU
        _, training, model, _ = make_parser().parse_args_and_config(args=[*arguments, "--bf16", "false", "--use_cpu"])
        recipes.append((model.lora_r, training.learning_rate, training.num_train_epochs, training.max_length))
        assert (model.lora_alpha, model.lora_dropout) == (2 * model.lora_r, 0), "LLaMA-Factory's defaults"
        assert 0 < training.get_warmup_steps(1000) <= 100
    assert recipes == [(8, 1e-4, 6, 16_384), (32, 3e-4, 5, 8_192)], "those of the public configurations"


class Parsed(BaseException):
    """In place of the training: the arguments, as the trainer has read and checked them."""

    def __init__(self, arguments: Any) -> None:
        super().__init__()
        self.arguments = arguments


@pytest.fixture
def openrlhf_without_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command imports the engines that need GPUs, and defines its parser only when it is run."""
    import openrlhf.utils
    import ray

    def begin(arguments: Any) -> None:
        raise Parsed(arguments)

    parts = {
        "": ["create_vllm_engines"],
        ".launcher": ["RayActorGroup", "ReferenceModelActor", "RewardModelActor"],
        ".ppo_actor": ["PolicyModelActor"],
        ".ppo_critic": ["CriticModelActor"],
    }
    for name, members in parts.items():
        module = ModuleType(f"openrlhf.trainer.ray{name}")
        module.__dict__.update(dict.fromkeys(members))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(openrlhf.utils, "get_strategy", begin)


@pytest.mark.usefixtures("openrlhf_without_engines")
def test_openrlhf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, *arguments = arguments_of("openrlhf.sh", tmp_path)
    assert arguments[:2] == ["-m", "openrlhf.cli.train_ppo_ray"]
    monkeypatch.setattr(sys, "argv", arguments[1:])
    with pytest.raises(Parsed) as parsed:
        runpy.run_module(arguments[1], run_name="__main__")
    passed = parsed.value.arguments
    assert passed.reward.remote_url == [f"{SERVICE}/compat/openrlhf?task_field=task"]
    assert passed.algo.advantage.estimator == "group_norm"
    assert passed.critic.model_name_or_path is None, "nothing is trained beside the policy"


SWIFT = """
import argparse, json, sys
from swift.arguments import RLHFArguments
from transformers import HfArgumentParser

found = argparse.ArgumentParser.parse_args(HfArgumentParser([RLHFArguments]), sys.argv[1:])
names = ("rlhf_type", "reward_funcs", "num_generations", "external_plugins")
print(json.dumps({name: getattr(found, name) for name in names}))
"""
"""Its own process: the import changes transformers' Trainer for everybody. Not into the data class: that loads the
model."""


def test_ms_swift(tmp_path: Path) -> None:
    _, command, *arguments = arguments_of("ms_swift.sh", tmp_path)
    assert command == "rlhf"
    read = subprocess.run([sys.executable, "-P", "-c", SWIFT, *arguments], capture_output=True, text=True, check=True)
    document = json.loads(read.stdout.splitlines()[-1])
    assert [Path(plugin).name for plugin in document.pop("external_plugins")] == ["for_ms_swift.py"]
    assert document == {"rlhf_type": "grpo", "reward_funcs": ["assay"], "num_generations": 8}


def test_skyrl(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the line of the example's own description."""
    monkeypatch.setattr(typing, "TypedDict", typing_extensions.TypedDict)  # SkyRL asks for Python 3.12, for this alone
    example = loaded(EXAMPLES / "skyrl_grpo.py")
    lines = example.__doc__.replace("\\\n", " ").splitlines()
    (line,) = (line for line in lines if "skyrl_grpo.py" in line)
    config = example.configured(shlex.split(line.partition("skyrl_grpo.py")[2]))
    assert config.environment.env_class == "assay"
    assert (config.data.train_data, config.data.val_data) == (["rows/train.parquet"], ["rows/test.parquet"])
    assert config.generator.n_samples_per_prompt == 8
    assert config.trainer.algorithm.advantage_estimator == "grpo"
    assert config.environment.skyrl_gym.max_env_workers == 32


def test_verifiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `vf-eval @ verifiers.toml`, up to the evaluation itself."""
    from verifiers.v1.cli.eval import main as command

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["vf-eval"])
    path = EXAMPLES / "verifiers.toml"
    command.main(["@", str(path), "--dry-run", "--run.name", "tried"])
    (written,) = tmp_path.rglob("eval.json")
    document = json.loads(written.read_text())
    assert document["push"] is False
    agent, taskset = document["env"]["agent"], document["env"]["taskset"]
    assert (agent["runtime"]["type"], agent["harness"]["id"]) == ("subprocess", "null")
    assert taskset["id"] == "nemo-gym"
    assert taskset["task"]["resources_url"] == "http://127.0.0.1:8000/compat/nemo-gym"
    assert taskset["task"]["headers"]["Authorization"].startswith("Bearer ")
