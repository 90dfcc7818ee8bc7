"""eval-protocol's decorator, Amazon's verifier of reward functions, Atropos' API and TRL's environments."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from model import new_tokenizer

from assay_client import Client
from assay_client.adapters.for_messages import evaluate_messages
from tests.by_path import loaded
from tests.http.samples import REFERENCE
from tests.servers import LiveServer, score_requests
from tests.trainers.pairs import EXPECTED, TEXTS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "trainers"
MANY = 20


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": "Add PBS."}, {"role": "assistant", "content": text}]


def module_of(monkeypatch: pytest.MonkeyPatch, name: str, **stand_ins: dict[str, Any]) -> Any:
    """Import a module of a package without the package's own imports, which need clouds and models."""
    for path, members in stand_ins.items():
        module = types.ModuleType(path.replace("__", "."))
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    root, *inner = name.split(".")
    site = Path(str(importlib.util.find_spec("trl").origin)).parents[1]  # type: ignore[union-attr]
    for depth in range(len(inner)):
        package = types.ModuleType(".".join([root, *inner[:depth]]))
        package.__path__ = [str(site.joinpath(root, *inner[:depth]))]
        monkeypatch.setitem(sys.modules, package.__name__, package)
    return importlib.import_module(name)


@pytest.mark.usefixtures("at")
def test_eval_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = module_of(monkeypatch, "eval_protocol.typed_interface")
    function = typed.reward_function(evaluate_messages)
    results = [function(messages=chat(text), ground_truth=REFERENCE) for text in TEXTS * MANY]
    assert {type(result) for result in results} == {typed.EvaluateResult}
    assert [result.score for result in results] == EXPECTED * MANY
    assert all(result.is_score_valid for result in results)
    message = typed.Message
    typed_messages = [message.model_validate(part) for part in chat(TEXTS[1])]
    assert function(messages=typed_messages, ground_truth=REFERENCE).score == EXPECTED[1]
    with pytest.raises(ValueError, match="bad_step_line"):
        function(messages=chat("x"), ground_truth="Step 1: nothing")


def test_eval_protocol_calls_the_route(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = module_of(monkeypatch, "eval_protocol.reward_function").RewardFunction
    function = remote(mode="remote", endpoint=f"{at}/compat/eval-protocol/evaluate")
    results = [function(chat(text), ground_truth=REFERENCE) for text in TEXTS * MANY]
    assert [result.score for result in results] == EXPECTED * MANY
    assert all(result.metrics["score_order"].is_score_valid for result in results)
    with pytest.raises(Exception, match="422"):
        function(chat("x"), ground_truth="Step 1: nothing")


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize("is_nova", [True, False])
def test_sagemaker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_nova: bool) -> None:
    configs = {"TrainingJobCompute": object, "HyperPodCompute": type("HyperPodCompute", (), {})}
    stand_ins = {
        "boto3": {},
        "botocore": {},
        "botocore__exceptions": {"ClientError": OSError},
        "sagemaker__core": {},
        "sagemaker__core__training": {},
        "sagemaker__core__training__configs": configs,
    }
    name = "sagemaker.train.common_utils.rlvr_reward_verifier"
    verify = module_of(monkeypatch, name, **stand_ins).verify_reward_function
    file = EXAMPLES / "sagemaker_reward.py"
    if not is_nova:
        file = tmp_path / "reward.py"
        code = (EXAMPLES / "sagemaker_reward.py").read_text(encoding="utf-8")
        file.write_text(code.replace("import lambda_handler", "import lambda_handler_http as lambda_handler"))
    samples = [
        {"id": str(k), "messages": chat(text), "reference_answer": REFERENCE} for k, text in enumerate(TEXTS * MANY)
    ]
    report = verify(str(file), samples, is_nova=is_nova)
    assert (report["success"], report["successful_samples"]) == (True, len(samples))
    assert [result["output"]["aggregate_reward_score"] for result in report["results"]] == EXPECTED * MANY
    with pytest.raises(ValueError, match="record 0: reference"):
        verify(str(file), [{"id": "0", "messages": chat("x")}], is_nova=is_nova)


def test_atropos(at: str) -> None:
    """The body is one that its API takes and gives to the trainer again."""
    from atroposlib.api.server import app
    from fastapi.testclient import TestClient

    tokenizer = new_tokenizer([*TEXTS, REFERENCE])
    completions = [tokenizer(text)["input_ids"] for text in TEXTS * MANY]
    body = loaded(EXAMPLES / "atropos_group.py").scored_group(Client(at), tokenizer, [1, 2], completions, REFERENCE)
    assert body["scores"] == EXPECTED * MANY
    swapped = body["advantages"][1]
    assert len(set(body["advantages"][0][2:])) == 1, "the steps of a right answer are equal"
    assert len(set(swapped[2:])) > 1
    assert {tuple(row[:2]) for row in body["masks"]} == {(-100, -100)}
    with TestClient(app) as client:
        about = {"wandb_group": "g", "wandb_project": "p", "batch_size": 60, "max_token_len": 4096}
        client.post(
            "/register",
            json={**about, "checkpoint_dir": "", "save_checkpoint_interval": 0, "starting_step": 0, "num_steps": 1},
        )
        assert client.get("/batch").status_code == 200
        reply = client.post("/scored_data", json=body)
        assert reply.status_code == 200, reply.text
        (group,) = client.get("/batch").json()["batch"]
        assert all(group[name] == body[name] for name in body)


def call(**arguments: Any) -> str:
    """Return what a model of Qwen's kind writes to call the tool."""
    return f"<tool_call>\n{json.dumps({'name': 'submit', 'arguments': arguments})}\n</tool_call><|im_end|>"


DONE = "Done.<|im_end|>"
ROLLOUTS = [
    *(([call(protocol=text), DONE], reward) for text, reward in zip(TEXTS, EXPECTED, strict=True)),
    ([DONE], 0.0),
    ([call(protocol="first"), call(protocol=TEXTS[1]), DONE], EXPECTED[1]),
    ([call(protocol=TEXTS[1]), call(protocol=[TEXTS[0]]), DONE], EXPECTED[1]),
    *(
        ([call(**{name: value}), DONE], 0.0)
        for name, value in (("protocol", 5), ("answer", "x"), ("protocol", "\ud800"))
    ),
    ([call(protocol=TEXTS[0]), call(protocol=""), DONE], 0.0),
]
"""The turns of rollouts, and the reward of the last text that each submits."""


@pytest.mark.usefixtures("at")
def test_trl_environment(server: LiveServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two steps of the example, whose trainer makes and resets environments and calls their tool as a stand-in asks."""
    import trl
    from model import new_model
    from trl.chat_template_utils import qwen3_chat_template

    example = loaded(EXAMPLES / "trl_environment.py")
    rollouts = ROLLOUTS * (60 // len(ROLLOUTS))
    tokenizer = new_tokenizer([qwen3_chat_template, *(turn for turns, _ in ROLLOUTS for turn in turns)])
    tokenizer.chat_template = qwen3_chat_template
    new_model(tokenizer, 0).save_pretrained(tmp_path / "model")
    row = {"prompt": [{"role": "user", "content": "Add PBS."}], "reference": REFERENCE, "task": "score"}
    (tmp_path / "train.jsonl").write_text(f"{json.dumps(row)}\n" * len(rollouts))
    rewards: list[list[float]] = []
    made: list[Any] = []
    asked = itertools.count()

    def recorded(**columns: Any) -> Any:
        rewards.append(example.submitted_reward(**columns))
        return rewards[-1]

    def generate(input_ids: Any, **options: Any) -> Any:
        """Return the next turn of every rollout that the trainer asks about, in place of a model's."""
        turn = next(asked) % 3
        texts = [turns[turn] for turns, _ in rollouts if len(turns) > turn]
        ids = [torch.tensor([*tokenizer(text)["input_ids"], tokenizer.eos_token_id]) for text in texts]
        padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=tokenizer.pad_token_id)
        return torch.cat([input_ids, padded], 1)

    class Trainer(trl.GRPOTrainer):  # type: ignore[misc]
        def __init__(self, **arguments: Any) -> None:
            assert arguments.pop("reward_funcs") is example.submitted_reward
            super().__init__(**arguments, reward_funcs=recorded, processing_class=tokenizer)
            self.model.generate = generate
            made.append(self)

    real, n = trl.GRPOConfig, len(rollouts)
    quiet = {"use_cpu": True, "bf16": False, "report_to": [], "disable_tqdm": True, "save_strategy": "no"}
    size = {"max_steps": 2, "num_generations": n, "per_device_train_batch_size": n, "logging_steps": 1}
    monkeypatch.setattr(trl, "GRPOTrainer", Trainer)
    monkeypatch.setattr(trl, "GRPOConfig", lambda **given: real(**(given | quiet | size)))
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "model"), str(tmp_path / "train.jsonl")])
    monkeypatch.chdir(tmp_path)
    count = score_requests(server)
    example.main()
    assert rewards == [[reward for _, reward in rollouts]] * 2
    assert count() == 2, "one request a step"
    (trainer,) = made
    calls = [turn for turns, _ in rollouts for turn in turns if turn != DONE]
    log = [entry for entry in trainer.state.log_history if "reward" in entry]
    for entry in log:
        assert entry["reward"] == pytest.approx(sum(reward for _, reward in rollouts) / n)
        assert entry["tools/call_frequency"] == pytest.approx(len(calls) / n)
        assert entry["tools/failure_frequency"] == pytest.approx(3 * (n / len(ROLLOUTS)) / len(calls))
        assert entry["grad_norm"] > 0
    assert (len(log), len(trainer.environments)) == (2, n)
