"""Constructors take at most six positional arguments; further ones have keywords, which a reader can follow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import takewhile

import pytest

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


def decorators(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(decorator) for decorator in node.decorator_list]


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
    is_dataclass = any("dataclass" in text and "kw_only=True" not in text for text in decorators(node))
    fields = list(takewhile(lambda statement: not ast.unparse(statement).endswith("KW_ONLY"), node.body))
    return sum(map(is_positional_field, fields)) if is_tuple or is_dataclass else 0


def called_class(node: ast.Call) -> str | None:
    name = ast.unparse(node.func).rpartition(".")[2]
    return name if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name) else None


def long_constructors(source: str) -> Iterator[str]:
    """Yield the classes of a module with too many positional arguments, and the classes called with too many."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and positional_count(node) > MAX_POSITIONAL:
            yield node.name
        elif isinstance(node, ast.Call) and len(node.args) > MAX_POSITIONAL and (name := called_class(node)):
            yield name


def test_constructors_take_at_most_six_positional_arguments() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    long = {
        (file.relative_to(ROOT).as_posix(), name)
        for file in files
        for name in long_constructors(file.read_text(encoding="utf-8"))
    }
    assert long == TUPLES_OF_NUMBA


FIELDS = "\n    ".join(f"field_{number}: int" for number in range(MAX_POSITIONAL + 1))
PARAMETERS = ", ".join("abcdefg")


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (f"class Row(NamedTuple):\n    {FIELDS}", ["Row"]),
        (f"@dataclass\nclass Row:\n    {FIELDS}", ["Row"]),
        (f"@dataclass(frozen=True)\nclass Row:\n    {FIELDS}", ["Row"]),
        (f"class Row:\n    def __init__(self, {PARAMETERS}): ...", ["Row"]),
        (f"module.Row({PARAMETERS})", ["Row"]),
        (f"@dataclass(kw_only=True)\nclass Row:\n    {FIELDS}", []),
        (f"class Row(BaseModel):\n    {FIELDS}", []),
        (f"class Row:\n    def __init__(self, *, {PARAMETERS}): ...", []),
        (f"@dataclass\nclass Row:\n    {FIELDS} = field(init=False)", []),
        (f"function({PARAMETERS})", []),
        ("Row(*values)", []),
    ],
)
def test_the_check_sees_every_form_of_constructor(source: str, names: list[str]) -> None:
    assert list(long_constructors(source)) == names
