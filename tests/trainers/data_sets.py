"""Files as the data sets of OpenRLHF and ms-swift load them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

SWIFT = """
import json, sys
from swift.dataset import load_dataset
for path in sys.argv[1:]:
    rows, _ = load_dataset(path, strict=True, load_from_cache_file=False, remove_unused_columns=False)
    print("rows", json.dumps(list(rows), default=str))
"""


class Strategy:
    """What OpenRLHF's data sets ask of a strategy."""

    def __init__(self, has_chats: bool, **keys: str) -> None:
        self.args = SimpleNamespace(data=SimpleNamespace(apply_chat_template=has_chats, **keys))

    def print(self, *_: Any) -> None:
        pass

    def is_rank_0(self) -> bool:
        return False


def blended(path: Any, strategy: Strategy) -> Any:
    """Return a file as OpenRLHF's commands load it."""
    from openrlhf.datasets.utils import blending_datasets

    return blending_datasets(str(path), strategy=strategy, max_count=100)


def verls_conversations(path: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a file as verl's data set for supervised training."""
    from omegaconf import OmegaConf

    vision = ModuleType("verl.models.transformers.qwen2_vl")  # needs an older transformers, and is for images
    vision.get_rope_index = None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, vision.__name__, vision)
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    config = OmegaConf.create({"max_length": 4096, "ignore_input_ids_mismatch": True})
    return MultiTurnSFTDataset(str(path), tokenizer, config)


def loaded_by_swift(paths: Sequence[Any], folder: Path) -> list[list[dict[str, Any]]]:
    """Return the rows of each file, loaded in a separate process, as the import replaces methods of other packages."""
    environment = {**os.environ, "MODELSCOPE_CACHE": str(folder / "cache")}
    command = [sys.executable, "-P", "-c", SWIFT, *map(str, paths)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [json.loads(line.removeprefix("rows ")) for line in done.stdout.splitlines() if line.startswith("rows ")]
