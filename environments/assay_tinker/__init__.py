"""Prepared rows as environments of the Tinker cookbook: a prompt, one answer, its reward."""

from .environment import AssayDataset, AssayDatasetBuilder, AssayEnv, AssayGroupBuilder

__all__ = ["AssayDataset", "AssayDatasetBuilder", "AssayEnv", "AssayGroupBuilder"]
