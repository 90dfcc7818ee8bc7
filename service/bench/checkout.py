"""The rollout generator and the plain-Python scorer: parts of a checkout of Assay that the package does not contain.

These are the only imports of the product from outside it (listed in `tests/packaging/test_imports.py`). The console
script does not search the current directory for modules, so it is added to the path while they are imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["NotACheckoutError", "batch_of", "plain_scorer"]


class NotACheckoutError(RuntimeError):
    """The current directory is not a checkout of Assay."""


def batch_of(prompts: int, samples: int, seed: int) -> dict[str, Any]:
    """Generate a request of `prompts` references with `samples` responses each; raises NotACheckoutError."""
    with importable("examples/rollouts.py"):
        from examples.rollouts import as_request, generate
    request: dict[str, Any] = as_request(generate(prompts, samples, seed))
    return request


def plain_scorer() -> Callable[[Sequence[str], Sequence[Any], Sequence[int]], list[float]]:
    with importable("tests/reference/scorer.py"):
        from tests.reference.scorer import plain_score
    score: Callable[[Sequence[str], Sequence[Any], Sequence[int]], list[float]] = plain_score
    return score


@contextmanager
def importable(file: str) -> Iterator[None]:
    """Search the current directory first, where `file` must be; raises NotACheckoutError if that fails."""
    folder = Path.cwd()
    if not (folder / file).is_file():
        raise NotACheckoutError(f"{file} not found: run assay bench in a checkout of Assay")
    sys.path.insert(0, str(folder))
    try:
        yield
    except ModuleNotFoundError as error:  # an installed package may have the same name
        raise NotACheckoutError(f"{file} cannot be imported: {error}") from error
    finally:
        sys.path.remove(str(folder))
