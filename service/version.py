"""The version, and the signature that names it with the settings of a result."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import Any

try:
    VERSION = version("assay")
except PackageNotFoundError:  # run from its source
    VERSION = "0+source"


def signature_of(kind: str, values: Mapping[str, Any]) -> str:
    """Join `kind`, every value that is not None as `name:value`, and the version: `SCORE|rules:4|…|v:0.3.0`."""
    named = {name: value for name, value in values.items() if value is not None} | {"v": VERSION}
    return "|".join([kind, *(f"{name}:{signature_text(value)}" for name, value in named.items())])


def signature_text(value: Any) -> str:
    """Return a value as signatures write it: `true`, `none`, `0.95`, `30`; the last part of an absolute path."""
    if isinstance(value, bool | None):
        return str(value).lower()
    if callable(value):
        return "custom"
    text = PurePath(value).name if isinstance(value, str) and os.path.isabs(value) else str(value)
    return (text.removesuffix(".0") if isinstance(value, float) else text).replace("|", "/")
