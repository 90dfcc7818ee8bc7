"""Importing is quick, and public names are what they say."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from typing import get_type_hints

import pytest

from assay.service.settings import ScoreSettings, SettingOverrides
from tests.packaging.test_imports import MODULES, ROOT


@pytest.mark.parametrize("package", ["assay", "assay.service", "assay.kernels"])
def test_importing_a_package_loads_and_compiles_nothing(package: str) -> None:
    heavy = {"numpy", "numba", "llvmlite", "pydantic", "fastapi", "orjson"}
    code = f"import sys, {package}; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert not heavy & set(shown.stdout.split())


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


def constants_classes_functions(word: str) -> tuple[bool, bool, str]:
    return not word.isupper(), not word[:1].isupper(), word


def test_public_names_are_sorted_and_there() -> None:
    wrong = {}
    for name in MODULES:
        module = importlib.import_module(name)
        public = list(getattr(module, "__all__", []))
        absent = [word for word in public if not hasattr(module, word)]
        if absent or public != sorted(set(public), key=constants_classes_functions):
            wrong[name] = absent or "not sorted"
    assert not wrong


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


SNIPPET = """
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

from assay import ScoreSettings, Scorer, Scores

scorer = Scorer(order="lcs", min_coverage=1, max_steps=10, threads=2)
scores = scorer.score(["response"], ["reference"], np.zeros(1, np.int64), groups=np.array(["a"]))
assert_type(scores, Scores)
for column in (scores.rewards, scores.components["order"], scores.passed, scores.advantages()):
    assert_type(column, NDArray[np.float64])
assert_type(scores.reason_codes, NDArray[np.uint8])
assert_type(scores.reference_index, NDArray[np.int64])
assert_type(scores.reasons, NDArray[np.str_])
assert_type(scorer.score_configs([{"order": "lcs"}], ["response"], ["reference"]), list[Scores])
Scorer(ScoreSettings(order="lcs"), use_length=False)
"""
MISTAKES = {
    'Scorer(ordr="lcs")': "call-arg",
    'Scorer(order="lsc")': "arg-type",
    'Scorer(min_coverage="0.9")': "arg-type",
    "Scorer(use_order=None)": "arg-type",
}


def test_a_type_checker_knows_settings_and_columns(tmp_path):
    """What a user of mypy sees: none of the code's own errors, and each mistake in its line."""
    pytest.importorskip("mypy")
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "assay").symlink_to(ROOT)
    (tmp_path / "snippet.py").write_text("\n".join([SNIPPET, *MISTAKES]), encoding="utf-8")
    flags = [
        "--strict",
        "--follow-imports=silent",
        "--config-file=",
        f"--cache-dir={tmp_path / 'cache'}",
        "--no-pretty",
    ]
    shown = subprocess.run(
        [sys.executable, "-m", "mypy", *flags, "snippet.py"],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(tmp_path / "types")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    errors = [line for line in shown.stdout.splitlines() if ": error: " in line]
    first = len(SNIPPET.splitlines()) + 2
    expected = [f"snippet.py:{first + k}: {kind}" for k, kind in enumerate(MISTAKES.values())]
    found = [f"{line.partition(': error')[0]}: {line.rpartition('[')[2].rstrip(']')}" for line in errors]
    assert found == expected, shown.stdout + shown.stderr


def test_overrides_are_the_settings():
    """The keyword arguments that a type checker knows have the names and types of the fields."""
    fields = {name: field.annotation for name, field in ScoreSettings.model_fields.items()}
    assert get_type_hints(SettingOverrides) == fields
