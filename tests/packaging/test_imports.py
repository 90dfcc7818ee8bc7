"""The map of the product: its rooms, floor by floor, and no import that runs up, across or in a circle."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]

KERNELS_MAY_IMPORT = {"numpy", "numba", "llvmlite", *sys.stdlib_module_names}
OUTSIDE = {
    ("assay.loadtests.bench", "assay.examples.rollouts"),
    ("assay.loadtests.bench", "assay.tests.reference.scorer"),
    ("assay.loadtests.payloads", "assay.examples.rollouts"),
}
"""What `assay bench` imports from outside the product: package data, and a scorer that the wheel does not contain."""

NOT_OF_THE_PRODUCT = {
    *("tests", "examples", "loadtests", "deploy", "clients", "assay_client", "kernels", "research", "service"),
}


class Import(NamedTuple):
    """One module that another one names in an import."""

    path: str
    line: int
    importer: str
    imported: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.importer} imports {self.imported}"


def sources() -> dict[str, str]:
    """Return the path of each module of the product, relative to the checkout, by dotted name."""
    paths = [Path("__init__.py"), *(path.relative_to(ROOT) for top in TOPS for path in (ROOT / top).rglob("*.py"))]
    return {
        ".".join(("assay", *path.with_suffix("").parts)).removesuffix(".__init__"): path.as_posix() for path in paths
    }


TOPS = ("kernels", "loadtests", "research", "service")
PRODUCT = tuple(f"assay.{top}" for top in TOPS)
MODULES = sources()


def imports_of(name: str) -> Iterator[Import]:
    """Yield every import of a module: at its top, inside functions, and for types alone."""
    path = MODULES[name]
    parts = name.split(".") if path.endswith("__init__.py") else name.split(".")[:-1]
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            home = parts[: len(parts) + 1 - node.level] if node.level else []
            source = ".".join([*home, *filter(None, [node.module])])
            inner = [f"{source}.{alias.name}" for alias in node.names]
            targets = [target if target in MODULES else source for target in inner]
        else:
            continue
        yield from (Import(path, node.lineno, name, target) for target in dict.fromkeys(targets))


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return [each for name in MODULES for each in imports_of(name)]


@pytest.fixture(scope="module")
def inner(imports: list[Import]) -> list[Import]:
    """Return the imports of modules of the product."""
    return [each for each in imports if each.imported in MODULES and each.imported != each.importer]


class House:
    """The rooms of a table of docs/architecture.md: where a module is, and what it may import.

    A module belongs to the longest entry that its path begins with. Of rooms inside one another on one floor, a later
    one may import from an earlier one.
    """

    def __init__(self, table: str) -> None:
        rows = re.findall(r"^\| (\d+) \| (\S+) \|", table, re.MULTILINE)
        self.floors = {room: int(floor) for floor, room in rows}
        self._order = list(self.floors)

    def room(self, name: str) -> str | None:
        """Return the room of a module, None if it has none."""
        rooms = [room for room in self.floors if MODULES[name] == room or MODULES[name].startswith(room)]
        return max(rooms, key=len, default=None)

    def allows(self, each: Import) -> bool:
        """Return whether a module may import another one; it may if one of them has no room."""
        above, below = self.room(each.importer), self.room(each.imported)
        if above is None or below is None or above == below:
            return True
        if self.floors[above] != self.floors[below]:
            return self.floors[above] > self.floors[below]
        nested = self._outermost(above) == self._outermost(below)
        return nested and self._order.index(above) > self._order.index(below)

    def _outermost(self, room: str) -> str:
        """Return the largest room of the same floor that this one is inside of, or the room itself."""
        beside = [other for other, floor in self.floors.items() if floor == self.floors[room]]
        return min((other for other in beside if room.startswith(other)), key=len)


HOUSE, KERNELS = map(House, (ROOT / "docs" / "architecture.md").read_text("utf-8").split("Inside `kernels/`:"))


def test_every_import_runs_down(inner: list[Import]) -> None:
    up = [each for each in inner if not HOUSE.allows(each)]
    up += [each for each in inner if of_kernels(each.importer) and not KERNELS.allows(each)]
    assert list(map(str, up)) == []


def test_no_module_needs_itself(inner: list[Import]) -> None:
    graph: dict[str, set[str]] = {name: set() for name in MODULES}
    for each in inner:
        graph[each.importer].add(each.imported)
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules of a circle


def test_every_module_has_a_room_and_every_room_a_module() -> None:
    for house, names in ((HOUSE, [*MODULES]), (KERNELS, [name for name in MODULES if of_kernels(name)])):
        assert {house.room(name) for name in names} == house.floors.keys()


def test_kernels_need_numba_and_numpy_alone(imports: list[Import]) -> None:
    outer = [each for each in imports if of_kernels(each.importer) and not of_kernels(each.imported)]
    assert [str(each) for each in outer if root(each) not in KERNELS_MAY_IMPORT] == []


def test_the_product_needs_no_tests_and_no_examples(imports: list[Import]) -> None:
    outside = [each for each in imports if root(each) in NOT_OF_THE_PRODUCT]
    outside += [each for each in imports if root(each) == "assay" and not each.imported.startswith(PRODUCT)]
    assert {(each.importer, each.imported) for each in outside} == OUTSIDE


def of_kernels(name: str) -> bool:
    return name.split(".")[:2] == ["assay", "kernels"]


def root(each: Import) -> str:
    return each.imported.partition(".")[0]
