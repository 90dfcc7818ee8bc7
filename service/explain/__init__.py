"""Why a response got its reward: the derivation of every number, and what would change it most.

>>> from assay.service.explain import explain
>>> explanation = explain(Scorer(order="lcs"), response, reference)   # doctest: +SKIP
>>> explanation.headline, explanation.suggestions[0].text   # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .explanation import explain
    from .schema import Explanation

_HOMES = {"Explanation": ".schema", "explain": ".explanation"}

__all__ = ["Explanation", "explain"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
