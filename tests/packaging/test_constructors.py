"""Constructors take at most six positional arguments; further ones have keywords, which a reader can follow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import takewhile

from tests.packaging.test_imports import ROOT

FOLDERS = ("service", "research", "kernels", "clients", "environments")
MAX_POSITIONAL = 6

TUPLES_OF_NUMBA = {
    ("kernels/score.py", "EnvelopeArrays"),
    ("kernels/score.py", "FastPathRequest"),
    ("kernels/reading/references.py", "References"),
    ("kernels/rules.py", "Rules"),
}
"""Numba compiles NamedTuples, whose fields cannot be keyword-only; their callers pass keywords."""


def is_positional_field(node: ast.stmt) -> bool:
    if not isinstance(node, ast.AnnAssign) or "ClassVar" in ast.unparse(node.annotation):
        return False
    value = "" if node.value is None else ast.unparse(node.value)
    return "init=False" not in value and "kw_only=True" not in value


def positional_count(node: ast.ClassDef) -> int:
    """Return the number of positional arguments of a class that defines its constructor, else 0."""
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            return len(method.args.posonlyargs + method.args.args) - 1
    is_tuple = any(ast.unparse(base).endswith("NamedTuple") for base in node.bases)
    decorators = map(ast.unparse, node.decorator_list)
    is_dataclass = any("dataclass" in text and "kw_only=True" not in text for text in decorators)
    fields = list(takewhile(lambda statement: not ast.unparse(statement).endswith("KW_ONLY"), node.body))
    return sum(map(is_positional_field, fields)) if is_tuple or is_dataclass else 0


def long_constructors(source: str) -> Iterator[str]:
    """Yield the classes of a module with too many positional arguments, and the classes called with too many."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and positional_count(node) > MAX_POSITIONAL:
            yield node.name
        elif isinstance(node, ast.Call) and len(node.args) > MAX_POSITIONAL:
            name = ast.unparse(node.func).rpartition(".")[2]
            if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name):
                yield name


def test_constructors_take_at_most_six_positional_arguments() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    long = {
        (file.relative_to(ROOT).as_posix(), name)
        for file in files
        for name in long_constructors(file.read_text(encoding="utf-8"))
    }
    assert long == TUPLES_OF_NUMBA
