"""The Tinker cookbook's rollouts, metrics and training data, with a stand-in for the model and a real service."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import tinker
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl import train
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import TrajectoryGroup
from tinker_cookbook.tokenizer_utils import register_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from assay_client import InvalidReference
from assay_tinker import AssayDatasetBuilder
from assay_tinker.environment import answer_of
from tests.environments.harness_runs import THINK, answered
from tests.environments.samples import BAD_REFERENCE, CONFIG, SAMPLES, Sample, rewards_of, write_rows
from tests.servers import LiveServer, score_requests

MODEL = "Qwen/Qwen3-8B"
END = {"qwen3": "<|im_end|>", "role_colon": "\n\nUser:"}
GROUP = 4


def new_tokenizer() -> Any:
    """Return a tokenizer of bytes that has the special tokens of Qwen3 and needs no files."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    tokenizer.add_tokens(["<think>", "</think>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", name_or_path=MODEL)


TOKENIZER = new_tokenizer()


class Policy(TokenCompleter):
    """Answers each prompt with the answers to it in turn, as tokens."""

    def __init__(self, answers: dict[str, list[str]], end: str = END["qwen3"]) -> None:
        self.answers = {question: list(texts) for question, texts in answers.items()}
        self.end = end
        self.prompts: list[str] = []

    async def __call__(
        self, model_input: tinker.ModelInput, stop: Any, *, max_tokens: int | None = None
    ) -> TokensWithLogprobs:
        prompt = TOKENIZER.decode(model_input.to_ints())
        self.prompts.append(prompt)
        (question,) = [question for question in self.answers if question in prompt]
        texts = self.answers[question]
        texts.append(texts.pop(0))
        tokens = TOKENIZER.encode(texts[-1] + self.end)
        return TokensWithLogprobs(tokens=tokens, maybe_logprobs=[-0.5] * len(tokens))


@pytest.fixture(autouse=True, scope="module")
def _offline() -> Iterator[None]:
    register_tokenizer(MODEL, lambda: TOKENIZER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_CLIENT_CONFIG", CONFIG)
        yield


def builder_of(path: Path, renderer: str = "qwen3", **options: Any) -> AssayDatasetBuilder:
    about = {"model_name_for_tokenizer": MODEL, "renderer_name": renderer, "group_size": GROUP, **options}
    return AssayDatasetBuilder(path=str(path), **about)


def groups_of(builder: AssayDatasetBuilder) -> list[Any]:
    """Return the groups to train on, in every batch."""
    dataset, _ = asyncio.run(builder())
    return [group for index in range(len(dataset)) for group in dataset.get_batch(index)]


def rolled_out(groups: list[Any], policy: Policy, **options: Any) -> list[TrajectoryGroup]:
    async def run() -> list[TrajectoryGroup]:
        return await asyncio.gather(*(do_group_rollout(group, policy, **options) for group in groups))

    return asyncio.run(run())


def to_all(samples: list[Sample], *others: str) -> dict[str, list[str]]:
    return {sample.question: [sample.answer, *others] for sample in samples}


@pytest.mark.parametrize("renderer", END)
def test_rewards_are_those_of_the_service_and_groups_share_requests(
    server: LiveServer, at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renderer: str
) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_WINDOW", "100")  # a request is sent as soon as all answers have joined it
    monkeypatch.setenv("ASSAY_CLIENT_MAX_BATCH", str(GROUP * len(SAMPLES)))
    expected = {one.row["id"]: row for one, row in zip(SAMPLES, rewards_of(at), strict=True)}
    groups = groups_of(builder_of(write_rows(tmp_path / "rows.jsonl"), renderer))
    assert sorted(group.row.id for group in groups) == sorted(expected)
    policy, count = Policy(to_all(SAMPLES), END[renderer]), score_requests(server)
    results = rolled_out([pickle.loads(pickle.dumps(group)) for group in groups], policy)
    assert count() == 1
    for group, result in zip(groups, results, strict=True):
        reward, reason, passed, components = expected[group.row.id]
        assert result.get_total_rewards() == [reward] * GROUP
        for trajectory in result.trajectories_G:
            (step,) = trajectory.transitions
            shares = {"score_passed": passed, "score_readable": float(reason == "ok")}
            assert step.metrics == shares | {f"score_{name}": value for name, value in components.items()}
            assert step.logs["id"] == group.row.id
            assert (step.logs["task"], step.logs["reason"]) == (group.row.task, reason)
    for sample in SAMPLES:
        texts = [message["content"] for message in sample.row["prompt"]]
        assert sum(all(text in prompt for text in texts) for prompt in policy.prompts) == GROUP


@pytest.mark.usefixtures("at")
def test_an_invalid_reference_has_no_reward(tmp_path: Path) -> None:
    groups = groups_of(builder_of(write_rows(tmp_path / "rows.jsonl", [BAD_REFERENCE])))
    with pytest.raises(InvalidReference, match="record row-99"):
        rolled_out(groups, Policy(to_all([BAD_REFERENCE])))


WRITTEN = {
    "thoughts first": answered([]),
    "thoughts elsewhere": f"Here it is. {THINK}\n<key>\n</key>{THINK}<orc></orc>",
    "an empty block": "<think></think>\n<key>",
    "an empty block at the end": "<think>Wash.</think>\n<key><think></think>",
    "no thoughts": "[ANSWER_START]2 h & 90[ANSWER_END]",
    "thoughts that do not end": "<think>Wash, then",
}


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("name", END)
def test_an_answer_is_what_the_model_wrote(name: str, text: str) -> None:
    renderer = get_renderer(name, tokenizer=TOKENIZER)
    assert answer_of(renderer, TOKENIZER.encode(text + END[name])) == text
    assert answer_of(renderer, TOKENIZER.encode(text)) == text


def test_thoughts_that_the_prompt_begins_are_part_of_the_answer() -> None:
    renderer = get_renderer("qwen3_5", tokenizer=TOKENIZER)
    answer = answer_of(renderer, TOKENIZER.encode("Wash.\n</think>\n\n<key>" + END["qwen3"]))
    assert answer == "<think>Wash.\n</think>\n\n<key>"


def test_the_readme_runs(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the training itself, which needs Tinker's servers: in its place, the rollouts of the first batch."""
    readme = files("assay_tinker").joinpath("README.md").read_text(encoding="utf-8")
    code = readme.split("```python\n")[1].split("```")[0]
    (tmp_path / "prepared").mkdir()
    for split in ("train", "test"):
        write_rows(tmp_path / "prepared" / f"{split}.jsonl", SAMPLES[:2])
    monkeypatch.chdir(tmp_path)
    rewards: list[list[float]] = []

    async def rollouts(config: train.Config) -> None:
        assert json.dumps(config.model_name) in code
        dataset, _ = await config.dataset_builder()
        for group in dataset.get_batch(0):
            result = await do_group_rollout(group, Policy(to_all(SAMPLES[:2])))
            rewards.append(result.get_total_rewards())

    monkeypatch.setattr(train, "main", rollouts)
    exec(compile(code, "README.md", "exec"), {})
    assert sorted(rewards) == sorted([reward] * 8 for reward, *_ in rewards_of(at, SAMPLES[:2]))
