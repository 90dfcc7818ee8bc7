"""Prepared rows as an environment of OpenEnv: a prompt, one answer, its reward."""

from .client import AssayEnv
from .models import AssayAction, AssayObservation

__all__ = ["AssayAction", "AssayEnv", "AssayObservation"]
