"""Importing kernels compiles nothing, and public names are what they say."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from typing import get_type_hints

import pytest

from assay.service.settings import ScoreSettings, SettingOverrides
from tests.packaging.test_imports import MODULES, ROOT


@pytest.mark.usefixtures("compiled")
def test_importing_every_kernel_compiles_nothing() -> None:
    names = sorted(name for name in MODULES if name.startswith("assay.kernels"))
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        f"found = {{id(v): v for name in {names!r}\n"
        "         for v in vars(sys.modules[name]).values() if type(v).__name__ == 'CPUDispatcher'}\n"
        "assert found\n"
        "compiled = [v.py_func.__name__ for v in found.values() if v.signatures]\n"
        "assert not compiled, compiled\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("name", ["assay", "assay.service.tasks", "assay.service.explain"])
def test_lazy_names_are_those_of_their_homes(name: str) -> None:
    package = importlib.import_module(name)
    tree = ast.parse((ROOT / MODULES[name]).read_text(encoding="utf-8"))
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.asname or alias.name: (f".{node.module}", alias.name) for node in imports for alias in node.names}
    assert set(package.__all__) == homes.keys()
    assert {word: homes[word][0] for word in package._HOMES} == package._HOMES
    for word, (home, original) in homes.items():
        assert getattr(package, word) is getattr(importlib.import_module(home, name), original)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = package.nothing_of_the_kind


def test_overrides_are_the_settings() -> None:
    """The keyword arguments that a type checker knows have the names and types of the fields."""
    fields = {name: field.annotation for name, field in ScoreSettings.model_fields.items()}
    assert get_type_hints(SettingOverrides) == fields
