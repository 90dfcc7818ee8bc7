"""Machine and package versions that affect the figures."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from ..scoring.threads import usable_cores
from ..version import VERSION

__all__ = ["load_average", "machine"]

PACKAGES = ("numba", "numpy", "orjson", "starlette", "uvicorn", "uvloop", "httptools", "pyarrow")


def machine() -> dict[str, Any]:
    """Return cores, Python and versions of installed packages."""
    versions = {package: version(package) for package in PACKAGES if find_spec(package)}
    return {"assay": VERSION, "cores": usable_cores(), "python": platform.python_version(), **versions}


def load_average() -> float | None:
    """Return the average number of runnable processes over the last minute; None if unsupported."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
