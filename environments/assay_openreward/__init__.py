"""Prepared rows as an environment of the Open Reward Standard: a prompt, one answer, its reward."""

from .server import Assay

__all__ = ["Assay"]
