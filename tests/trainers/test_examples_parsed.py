"""Every example, read by its trainer's own parser of arguments or configurations."""

from __future__ import annotations

import argparse
import asyncio
import functools
import importlib
import inspect
import json
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import typing
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest
import typing_extensions
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from assay_client.adapters.common import REWARD_COMPONENTS
from assay_client.adapters.for_trl import score_reward
from assay_client.adapters.metrics import METRICS
from tests import servers
from tests.by_path import loaded
from tests.servers import launched
from tests.trainers.pairs import PERFECT, REFERENCE

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
    hint = re.search(r"\+reward\S+=lcs", (EXAMPLES / "verl.sh").read_text(encoding="utf-8"))
    assert hint is not None
    assert composed([*arguments[2:], hint[0]]).reward.custom_reward_function.reward_kwargs.config.order == "lcs"
    script = (EXAMPLES / "verl.sh").read_text(encoding="utf-8")
    gdpo = re.findall(r"\+?algorithm\.(?:adv_estimator=gdpo|gdpo_reward_keys=\S+)", script)
    algorithm = composed([*arguments[2:], *(argument.replace("'", "") for argument in gdpo)]).algorithm
    assert algorithm.adv_estimator == "gdpo"
    assert set(algorithm.gdpo_reward_keys) <= set(METRICS)
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
    given = [f"custom_reward_function.path={path.partition('=')[2]}", *arguments]
    function = migrate_legacy_reward_impl(composed(given)).reward.custom_reward_function
    assert Path(function.path).is_file()
    assert function.name == "compute_score"


def test_recipes_of_supervised_training() -> None:
    """The commands of the page for the stages before GRPO."""
    from trl.scripts.sft import make_parser

    page = (EXAMPLES.parents[1] / "docs" / "research" / "training.md").read_text(encoding="utf-8")
    commands = re.findall(r"^(trl sft .*?)^```", page, re.MULTILINE | re.DOTALL)
    found = []
    for command in commands:
        arguments = shlex.split(command.replace("\\\n", " "))[2:]
        assert arguments.pop() == "--bf16"  # TRL refuses it without a GPU
        _, training, model, _ = make_parser().parse_args_and_config(args=[*arguments, "--bf16", "false", "--use_cpu"])
        found.append((model.lora_r, training.learning_rate, training.num_train_epochs, training.max_length))
        assert (model.lora_alpha, model.lora_dropout) == (2 * model.lora_r, 0), "LLaMA-Factory's defaults"
        assert 0 < training.get_warmup_steps(1000) <= 100
    assert found == [(8, 1e-4, 6, 16_384), (32, 3e-4, 5, 8_192)], "those of the public configurations"


@pytest.mark.parametrize(
    ("test", "evaluated"),
    [('{"prompt": "q", "reference": "r"}\n', ("steps", 1)), ("", ("no", None))],
    ids=["with test rows", "without"],
)
def test_trl(test: str, evaluated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import trl

    given: dict[str, Any] = {}

    class Trainer:
        def __init__(self, **arguments: Any) -> None:
            inspect.signature(real).bind(**arguments)
            given.update(arguments)

        def train(self) -> None:
            given["trained"] = True

        def save_model(self) -> None:
            given["saved"] = True

    real = trl.GRPOTrainer
    monkeypatch.setattr(trl, "GRPOTrainer", Trainer)
    monkeypatch.setattr(trl, "GRPOConfig", functools.partial(trl.GRPOConfig, use_cpu=True))  # bf16 is its default
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.jsonl").write_text('{"prompt": "p", "reference": "r"}\n' * 2)
    (tmp_path / "test.jsonl").write_text(test)
    loaded(EXAMPLES / "trl_grpo.py").main("policy", ".")
    assert given["trained"]
    assert given["saved"]
    assert given["reward_funcs"] is score_reward
    arguments = given["args"]
    assert (arguments.learning_rate, arguments.beta, arguments.num_generations) == (7e-6, 0.001, 5)
    assert arguments.generation_batch_size % 5 == arguments.per_device_eval_batch_size % 5 == 0
    assert (given["train_dataset"].num_rows, given["train_dataset"].column_names) == (2, ["prompt", "reference"])
    assert (arguments.eval_strategy, given["eval_dataset"] and given["eval_dataset"].num_rows) == evaluated


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
    found = parsed.value.arguments
    assert found.reward.remote_url == [f"{SERVICE}/compat/openrlhf?task_field=task"]
    assert found.algo.advantage.estimator == "group_norm"
    assert found.critic.model_name_or_path is None, "nothing is trained beside the policy"


SLIME = {
    "--custom-rm-path": 1,
    "--group-rm": 0,
    "--reward-key": 1,
    "--rm-type": 1,
    "--rm-url": 1,
    "--prompt-data": 1,
    "--input-key": 1,
    "--label-key": 1,
    "--apply-chat-template": 0,
    "--rollout-batch-size": 1,
    "--n-samples-per-prompt": 1,
    "--rollout-max-response-len": 1,
    "--num-steps-per-rollout": 1,
    "--num-epoch": 1,
    "--advantage-estimator": 1,
}
"""Options of slime 0.3.1, each with how many values it takes. slime is not in a registry and its parser needs Megatron
and SGLang, so these are the names in its sources and not its parser's word."""


@pytest.mark.parametrize("reward", ["function", "address"])
def test_slime(tmp_path: Path, reward: str) -> None:
    (tmp_path / "model.sh").write_text("MODEL_ARGS=()\n")
    environ = {"SLIME": str(tmp_path), "MODEL_SCRIPT": "model.sh", "REWARD": reward}
    _, script, *arguments = arguments_of("slime.sh", tmp_path, **environ)
    assert script == "train.py"
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for option, values in SLIME.items():
        parser.add_argument(option, **({} if values else {"action": "store_true"}))
    found = parser.parse_args(arguments)
    assert found.reward_key == "reward"
    samples = int(found.rollout_batch_size) * int(found.n_samples_per_prompt)
    assert samples % int(found.num_steps_per_rollout) == 0, "slime needs one of this and --global-batch-size"
    if reward == "function":
        module, _, name = found.custom_rm_path.rpartition(".")
        assert callable(getattr(importlib.import_module(module), name))
        assert found.group_rm
    else:
        assert (found.rm_type, found.rm_url) == ("remote_rm", f"{SERVICE}/compat/slime?task_field=label.task")


SWIFT = """
import argparse, json, sys
from swift.arguments import RLHFArguments
from transformers import HfArgumentParser

found = argparse.ArgumentParser.parse_args(HfArgumentParser([RLHFArguments]), sys.argv[1:])
names = ("rlhf_type", "reward_funcs", "num_generations", "external_plugins", "scale_rewards")
print(json.dumps({name: getattr(found, name) for name in names}))
"""
"""Its own process: the import changes transformers' Trainer for everybody. Not into the data class: that loads the
model."""


def test_ms_swift(tmp_path: Path) -> None:
    _, command, *arguments = arguments_of("ms_swift.sh", tmp_path)
    assert command == "rlhf"
    read = subprocess.run([sys.executable, "-P", "-c", SWIFT, *arguments], capture_output=True, text=True, check=True)
    found = json.loads(read.stdout.splitlines()[-1])
    assert [Path(plugin).name for plugin in found.pop("external_plugins")] == ["for_ms_swift.py"]
    found.pop("scale_rewards")
    assert found == {"rlhf_type": "grpo", "reward_funcs": ["assay"], "num_generations": 8}
    hint = re.search(r'REWARDS="(.+)" \./ms_swift.sh (.+)', (EXAMPLES / "ms_swift.sh").read_text(encoding="utf-8"))
    assert hint is not None
    _, _, *arguments = arguments_of("ms_swift.sh", tmp_path, REWARDS=hint[1])
    arguments += hint[2].split()
    read = subprocess.run([sys.executable, "-P", "-c", SWIFT, *arguments], capture_output=True, text=True, check=True)
    found = json.loads(read.stdout.splitlines()[-1])
    assert (found["scale_rewards"], found["reward_funcs"]) == ("gdpo", hint[1].split())
    assert {name.removeprefix("assay_") for name in found["reward_funcs"]} <= set(REWARD_COMPONENTS)


AREAL = """
experiment_name: assay
trial_name: one
total_train_epochs: 1
tokenizer_path: policy
cluster: {{fileroot: {folder}, name_resolve: {{type: nfs, nfs_record_root: {folder}}}}}
gconfig: {{n_samples: 8, max_new_tokens: 2048}}
rollout: {{experiment_name: assay, trial_name: one, backend: "sglang:d1"}}
actor: {{experiment_name: assay, trial_name: one, path: policy, backend: "fsdp:d1"}}
train_dataset: {{batch_size: 8, path: {folder}/train.jsonl, type: rl}}
valid_dataset: {{batch_size: 8, path: {folder}/test.jsonl, type: rl}}
saver: &named {{experiment_name: assay, trial_name: one, fileroot: {folder}}}
evaluator: *named
recover: *named
stats_logger: *named
"""


def test_areal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "areal"]:
        monkeypatch.delitem(sys.modules, name)  # other tests have parts of it without the rest
    loggers = ModuleType("areal.utils.stats_logger")  # which needs five more packages
    loggers.StatsLogger = None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, loggers.__name__, loggers)
    monkeypatch.setenv("RANK", "1")  # the first process saves the configuration
    import areal
    from areal.workflow.rlvr import RLVRWorkflow

    given: dict[str, Any] = {}

    class Trainer:
        def __init__(self, config: Any, **others: Any) -> None:
            given.update(config=config, **others)

        def __enter__(self) -> Trainer:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def train(self, **arguments: Any) -> None:
            given.update(arguments)

    monkeypatch.setitem(areal.__dict__, "PPOTrainer", Trainer)
    row = '{"messages": [{"role": "user", "content": "p"}], "reference": "r"}\n'
    (tmp_path / "train.jsonl").write_text(row * 2)
    (tmp_path / "test.jsonl").write_text(row)
    (tmp_path / "grpo.yaml").write_text(AREAL.format(folder=tmp_path))
    example = loaded(EXAMPLES / "areal_grpo.py")
    try:
        example.main(["--config", str(tmp_path / "grpo.yaml"), "gconfig.n_samples=4"])
    finally:
        GlobalHydra.instance().clear()
    assert given["config"].gconfig.n_samples == 4
    assert (len(given["train_dataset"]), len(given["valid_dataset"])) == (2, 1)
    inspect.signature(RLVRWorkflow).bind(**given["workflow_kwargs"])
    module, _, name = given["workflow_kwargs"]["reward_fn"].rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))


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


def test_nemo_gym() -> None:
    """In the strict way: without an environment server, an agent's rollouts cannot be collected."""
    from nemo_gym.global_config import GlobalConfigDictParser, GlobalConfigDictParserConfig

    options = {
        "config_paths": [str(EXAMPLES / "nemo_gym" / "configs" / "assay.yaml")],
        "error_on_agent_without_environment_server": True,
        "allow_openai_version_skew": True,
    }
    parser = GlobalConfigDictParser()
    config = parser.parse(
        GlobalConfigDictParserConfig(
            skip_load_from_cli=True,
            skip_load_from_dotenv=True,
            offline=True,
            initial_global_config_dict=OmegaConf.merge(
                GlobalConfigDictParserConfig.NO_MODEL_GLOBAL_CONFIG_DICT, OmegaConf.create(options)
            ),
        )
    )
    found = {server.name: server.SERVER_TYPE for server in parser.filter_for_server_instance_configs(config)}
    assert found == {
        "policy_model": "responses_api_models",
        "assay": "resources_servers",
        "assay_simple_agent": "responses_api_agents",
        "assay_environment_server": "environment_servers",
    }


def test_verifiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `vf-eval @ verifiers.toml`, up to the evaluation itself."""
    from verifiers.v1.cli.eval import main as command

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["vf-eval"])
    path = EXAMPLES / "verifiers.toml"
    command.main(["@", str(path), "--dry-run", "--run.name", "tried"])
    (written,) = tmp_path.rglob("eval.json")
    found = json.loads(written.read_text())
    assert found["push"] is False
    agent, taskset = found["env"]["agent"], found["env"]["taskset"]
    assert (agent["runtime"]["type"], agent["harness"]["id"]) == ("subprocess", "null")
    assert taskset["id"] == "nemo-gym"
    assert taskset["task"]["resources_url"] == "http://127.0.0.1:8000/compat/nemo-gym"
    assert taskset["task"]["headers"]["Authorization"].startswith("Bearer ")


def test_verifiers_asks_a_service_with_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own task begins a rollout and has it verified, with the headers of the file."""
    from verifiers.v1.configs.cli.eval import EvalConfig
    from verifiers.v1.tasksets.nemo_gym.toolset import NeMoGymState
    from verifiers.v1.utils.loaders import load_taskset

    monkeypatch.chdir(tmp_path)
    (tmp_path / "records.jsonl").write_text(json.dumps({"prompt": "p", "reference": REFERENCE}))
    arguments = ["prepare", "records.jsonl", "--trainer", "nemo-gym", "--own-prompts", "--test", "0", "-o", "rows"]
    subprocess.run([*servers.COMMAND[:-1], *arguments], check=True, capture_output=True)
    config = EvalConfig.model_validate(tomllib.loads((EXAMPLES / "verifiers.toml").read_text(encoding="utf-8")))
    key = config.env.taskset.task.headers["Authorization"].removeprefix("Bearer ")

    async def run(url: str) -> list[httpx.Response]:
        config.env.taskset.task.resources_url = f"{url}/compat/nemo-gym"
        (task,) = load_taskset(config.env.taskset).load()
        trace = SimpleNamespace(state=NeMoGymState())
        await task.setup(trace, None)
        part = {"type": "output_text", "text": PERFECT}
        response = {"output": [{"type": "message", "role": "assistant", "content": [part]}]}
        found = [await trace.state.post("verify", task.data.row | {"response": response})]
        trace.state.headers = {}
        return [*found, await trace.state.post("verify", task.data.row | {"response": response})]

    with launched("--drain-seconds", "0", environ={"ASSAY_API_KEYS": key}) as server:
        server.wait_until_ready()
        verified, refused = asyncio.run(run(server.url))
    assert (verified.status_code, verified.json()["reward"]) == (200, 1.0)
    assert refused.status_code == 401
