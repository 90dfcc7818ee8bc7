"""Loads the rollout generator and the plain-Python scorer from a checkout of Assay.

Both are outside the package and loaded from the current directory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["NotACheckoutError", "batch_of", "plain_scorer", "reference_package"]

GENERATOR = "examples/rollouts.py"
REFERENCE_PACKAGE = "tests/reference"


class NotACheckoutError(RuntimeError):
    """The current directory is not a checkout of Assay."""


def _load(path: str, name: str) -> ModuleType:
    """Load the module or package at `path` below the current directory as `name`."""
    target = Path.cwd() / path
    file = target / "__init__.py" if target.is_dir() else target
    if not file.is_file():
        raise NotACheckoutError(f"{path} not found: run assay bench in a checkout of Assay")
    folders = [str(target)] if target.is_dir() else None
    spec = spec_from_file_location(name, file, submodule_search_locations=folders)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def batch_of(prompts: int, samples: int, seed: int) -> dict[str, Any]:
    """Generate a request of `prompts` references with `samples` responses each."""
    generator = _load(GENERATOR, "assay_checkout_rollouts")
    return generator.as_request(generator.generate(prompts, samples, seed))


def plain_scorer() -> Callable[[Sequence[str], Sequence[Any], Sequence[int]], list[float]]:
    """Return the plain-Python scorer, for the default settings."""
    return import_module(f"{reference_package().__name__}.scorer").plain_score


def reference_package() -> ModuleType:
    """Return the package of the reference implementations in the tests; raises NotACheckoutError."""
    name = "assay_checkout_reference"
    return sys.modules[name] if name in sys.modules else _load(REFERENCE_PACKAGE, name)
