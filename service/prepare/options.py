"""Options of `assay prepare`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

__all__ = ["Options", "Stage"]

Stage = Literal["knowledge", "supervised", "grpo"]  # rows are texts, prompts with answers, or with references


@dataclass(frozen=True)
class Options:
    """Options for prompts and splits of records; the same options and records give the same bytes."""

    trainer: str = "trl"  # whose rows to write: one of `records.trainer_rows.TRAINERS`
    stage: Stage = "grpo"
    _: KW_ONLY
    seed: int = 0
    test_share: float = 0.1  # in the split `test`, 0 to below 1; without effect if files are held out
    distractors: int | None = None
    """1 to this number of actions are added to each library. None: 1 to 4 in test rows of level 2, as in the paper."""
    similarity: float = 0.8  # Jaccard similarity of words from which records are near-duplicates and share a group
    group_field: str | None = None  # name or dotted path of a field: records with equal values share a group, too
    task: str | None = None  # the task of all records; None: recognized for each record
    own_prompts: bool = False  # True to write the records' prompts as they are, in place of the prompts made here
