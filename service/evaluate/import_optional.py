"""Import of optional packages where they are used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from ..errors import Issue, NotInstalled

__all__ = ["import_optional"]


def import_optional(module: str, extra: str, purpose: str, path: str = "task") -> ModuleType:
    """Import `module`; if it is not installed, raises NotInstalled with the extra that provides it.

    purpose: what needs it, the beginning of the error's sentence (`METEOR`). path: the option that asked for it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        missing = (error.name or module).partition(".")[0]
        detail = f"{purpose} needs {missing}, which is not installed: pip install 'assay[{extra}]'"
        raise NotInstalled([Issue(path, "not_installed", detail)]) from error
