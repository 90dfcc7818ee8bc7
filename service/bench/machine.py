"""Machine and package versions that affect the figures."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..scoring.threads import usable_cores
from ..version import VERSION

__all__ = ["load_average", "machine"]

PACKAGES = ("numba", "numpy", "orjson", "starlette", "uvicorn", "uvloop", "httptools", "pyarrow")


def machine() -> dict[str, Any]:
    """Return cores, Python and versions of installed packages."""
    return {"assay": VERSION, "cores": usable_cores(), "python": platform.python_version(), **versions()}


def versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def load_average() -> float | None:
    """Return the average number of runnable processes over the last minute; None if unsupported."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
