"""Assay in a Ray cluster: with Ray Serve, as actors of a training job, and for data sets (extra `ray`).

- `application`: a Ray Serve application, with the HTTP routes of the service and a method for deployment handles.
- `ScorerPool`: actors that split each batch among them.
- `score_dataset`: reward columns for a Ray data set of any size.

Ray is imported on first use, not with this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dataset import score_dataset
    from .pool import ScorerPool
    from .serving import application

_HOMES = {"ScorerPool": ".pool", "application": ".serving", "score_dataset": ".dataset"}

__all__ = ["ScorerPool", "application", "score_dataset"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ..tasks.task import import_optional

    return getattr(import_optional(__name__ + _HOMES[name], "ray", "it", "assay.service.ray"), name)
