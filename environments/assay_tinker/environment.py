"""Environments and data sets of prepared rows: a prompt, one answer, its reward."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chz
import tinker
from tinker_cookbook.completers import StopCondition
from tinker_cookbook.renderers import Renderer, get_renderer
from tinker_cookbook.rl.types import (
    Action,
    ActionExtra,
    Env,
    EnvGroupBuilder,
    Observation,
    RLDataset,
    RLDatasetBuilder,
    StepResult,
)
from tinker_cookbook.tokenizer_utils import get_tokenizer

from assay_environments import PreparedRow, metrics_of, read_rows, score_response_async
from assay_environments.scoring import ROWS_VARIABLE

OPEN, CLOSE = "<think>", "</think>"


class AssayEnv(Env):
    """Gives the prompt of a row and scores the answer; it ends after one step."""

    def __init__(self, row: PreparedRow, renderer: Renderer, config: dict[str, Any] | None = None) -> None:
        self.row = row
        self.renderer = renderer
        self.config = config

    async def initial_observation(self) -> tuple[Observation, StopCondition]:
        return self.renderer.build_generation_prompt(self.row.prompt), self.renderer.get_stop_sequences()

    async def step(self, action: Action, *, extra: ActionExtra | None = None) -> StepResult:
        """Return the answer's reward and the metrics of its task; raise AssayError, which is never a reward."""
        score = await score_response_async(self.row, answer_of(self.renderer, action), self.config)
        return StepResult(
            reward=score.reward,
            episode_done=True,
            next_observation=tinker.ModelInput.empty(),
            next_stop_condition=self.renderer.get_stop_sequences(),
            metrics=metrics_of(score),
            logs={"id": self.row.id, "task": score.task, "reason": score.reason, "signature": score.signature},
        )


def answer_of(renderer: Renderer, action: Action) -> str:
    """Return the text of an answer with its thoughts, whose place matters to SCORE: renderers take them out."""
    message, _ = renderer.parse_response(action)
    content = message["content"]
    if isinstance(content, str):
        return content
    text = str(renderer.tokenizer.decode(action))
    for stop in renderer.get_stop_sequences():
        text = text.removesuffix(stop if isinstance(stop, str) else str(renderer.tokenizer.decode([stop])))
    if CLOSE in text:
        return text if OPEN in text else OPEN + text
    return "".join(
        f"{OPEN}{part['thinking']}{CLOSE}" if part["type"] == "thinking" else part.get("text", "") for part in content
    )


@dataclass(frozen=True)
class AssayGroupBuilder(EnvGroupBuilder):
    row: PreparedRow
    renderer: Renderer
    size: int
    config: dict[str, Any] | None = None

    async def make_envs(self) -> Sequence[Env]:
        return [AssayEnv(self.row, self.renderer, self.config) for _ in range(self.size)]

    def logging_tags(self) -> list[str]:
        return [self.row.task]


class AssayDataset(RLDataset):
    def __init__(self, groups: Sequence[AssayGroupBuilder], batch_size: int) -> None:
        self.groups = groups
        self.batch_size = batch_size

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        return self.groups[range(len(self.groups))[:: self.batch_size][index] :][: self.batch_size]

    def __len__(self) -> int:
        return len(range(0, len(self.groups), self.batch_size))


@chz.chz
class AssayDatasetBuilder(RLDatasetBuilder):
    """Rows to train on, and in a folder the rows of the other split to evaluate, once each."""

    model_name_for_tokenizer: str
    renderer_name: str
    batch_size: int = 64
    group_size: int = 8
    path: str | None = None
    """Folder that `assay prepare` wrote, or a file of rows; by default that in the environment variable ASSAY_ROWS."""
    split: str = "train"
    test_split: str = "test"
    where: dict[str, str] = chz.field(default_factory=dict)
    config: dict[str, Any] = chz.field(default_factory=dict)
    seed: int = 0

    async def __call__(self) -> tuple[AssayDataset, AssayDataset | None]:
        train = self._groups(self.split, self.group_size)
        random.Random(self.seed).shuffle(train)
        is_folder = Path(self.path or os.environ[ROWS_VARIABLE]).is_dir()
        test = AssayDataset(self._groups(self.test_split, 1), self.batch_size) if is_folder else None
        return AssayDataset(train, self.batch_size), test

    def _groups(self, split: str, size: int) -> list[AssayGroupBuilder]:
        renderer = get_renderer(self.renderer_name, tokenizer=get_tokenizer(self.model_name_for_tokenizer))
        rows = read_rows(self.path, split, **self.where)
        return [AssayGroupBuilder(row, renderer, size, self.config or None) for row in rows]
