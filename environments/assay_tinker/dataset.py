"""Batches of groups for the cookbook's training loop and its evaluation."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chz
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl.types import EnvGroupBuilder, RLDataset, RLDatasetBuilder
from tinker_cookbook.tokenizer_utils import get_tokenizer

from assay_environments import read_rows
from assay_environments.rows import ROWS_VARIABLE

from .environment import AssayGroupBuilder

__all__ = ["AssayDataset", "AssayDatasetBuilder"]


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
