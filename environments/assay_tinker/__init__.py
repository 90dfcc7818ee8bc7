"""Prepared rows as environments of the Tinker cookbook: a prompt, one answer, its reward."""

from .dataset import AssayDataset, AssayDatasetBuilder
from .environment import AssayEnv, AssayGroupBuilder

__all__ = ["AssayDataset", "AssayDatasetBuilder", "AssayEnv", "AssayGroupBuilder"]
