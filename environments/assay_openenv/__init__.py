"""Prepared rows as an environment of OpenEnv: a prompt, one answer, its reward."""

from .client import AssayAction, AssayEnv, AssayObservation

__all__ = ["AssayAction", "AssayEnv", "AssayObservation"]
