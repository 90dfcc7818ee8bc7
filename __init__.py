"""Assay: exact SCORE rewards for laboratory protocols, in process and over HTTP.

>>> from assay import Scorer
>>> scores = Scorer(order="lcs").score(responses, references)   # doctest: +SKIP

Importing the package is quick: NumPy and Numba are loaded with the first name that needs them.
"""

from __future__ import annotations

from importlib import import_module
from sys import version_info
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .service.errors import (
        AssayError,
        InvalidReference,
        InvalidRequest,
        InvalidSetting,
        Issue,
        NotInstalled,
        ScoringError,
    )
    from .service.explain.explanation import explain
    from .service.rewards.scorer import Scorer
    from .service.rewards.scores import Scores
    from .service.settings import ScoreSettings
    from .service.tasks.evaluation import evaluate
    from .service.version import VERSION as __version__  # noqa: N811 (the name that Python expects)

_HOMES = {
    "AssayError": ".service.errors",
    "InvalidReference": ".service.errors",
    "InvalidRequest": ".service.errors",
    "InvalidSetting": ".service.errors",
    "Issue": ".service.errors",
    "NotInstalled": ".service.errors",
    "ScoreSettings": ".service.settings",
    "Scorer": ".service.rewards.scorer",
    "Scores": ".service.rewards.scores",
    "ScoringError": ".service.errors",
    "evaluate": ".service.tasks.evaluation",
    "explain": ".service.explain.explanation",
}

__all__ = [
    "AssayError",
    "InvalidReference",
    "InvalidRequest",
    "InvalidSetting",
    "Issue",
    "NotInstalled",
    "ScoreSettings",
    "Scorer",
    "Scores",
    "ScoringError",
    "__version__",
    "evaluate",
    "explain",
]


def _check_interpreter() -> None:
    """Raise ImportError in a subinterpreter, where NumPy and Numba fail, or hang at its end."""
    try:
        interpreters = import_module("_interpreters" if version_info >= (3, 13) else "_xxsubinterpreters")
    except ImportError:  # another implementation of Python
        return
    if interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "assay does not work in a subinterpreter, because NumPy and Numba do not: use a thread, a process, or "
            "only assay_client"
        )


_check_interpreter()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module(".service.version", __name__).VERSION
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
