"""Options of `assay prepare`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

__all__ = ["Options", "Stage"]

Stage = Literal["knowledge", "supervised", "grpo"]
"""Stages of the paper's training: texts of protocols, prompts with answers, prompts with references."""


@dataclass(frozen=True)
class Options:
    """Options for prompts and splits of records; the same options and records give the same bytes."""

    trainer: str = "trl"
    """Whose rows to write: one of `records.trainer_rows.TRAINERS`."""
    stage: Stage = "grpo"
    _: KW_ONLY
    seed: int = 0
    test_share: float = 0.1
    """Share of the rows in the split `test`, 0 to below 1; without effect if files are held out."""
    distractors: int | None = None
    """Largest number of actions that are added to each library: 1 to this number; 0 adds none. None: as in the paper,
    whose evaluation set has 1 to 4 in records of level 2, and whose prompts for training have none."""
    similarity: float = 0.8
    """Jaccard similarity of words from which records are near-duplicates and share a group."""
    group_field: str | None = None
    """Name or dotted path of a field: records with equal values share a group, too."""
    task: str | None = None
    """The task of all records; None: recognized for each record."""
    own_prompts: bool = False
    """True to write the records' prompts as they are, in place of the prompts made here."""
