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

FLOORS = (
    ("kernels/",),
    ("service/", "service/scoring/", "service/tables/"),
    ("service/config.py", "service/tasks/"),
    ("service/rewards/",),
    ("service/explain/", "service/http/wire/"),
    ("service/records/", "service/http/request/", "service/http/endpoints/", "service/http/", "service/http/process/"),
    ("research/reports/",),
    (
        "research/check/",
        "research/ablate/",
        "research/select/",
        "research/prepare/",
        "research/",
        "service/ray/",
        "service/bench/",
    ),
    ("service/cli/", "__init__.py"),
)
"""Rooms from the ground up: a module belongs to the longest entry that its path begins with, and imports from its own
room and from lower floors. Of rooms inside one another on one floor, a later one may import from an earlier one."""

KERNEL_FLOORS = (
    ("kernels/", "kernels/compiler.py"),
    ("kernels/memory.py",),
    ("kernels/text/",),
    ("kernels/json_scanner.py",),
    ("kernels/json_columns.py", "kernels/reading/"),
    ("kernels/sequences.py",),
    ("kernels/semantics.py",),
    ("kernels/score.py", "kernels/protocol_metrics.py"),
    ("kernels/warmup.py",),
)
"""The same inside `kernels/`."""

KERNELS_MAY_IMPORT = {"numpy", "numba", "llvmlite", *sys.stdlib_module_names}
OUTSIDE = {
    ("assay.service.bench.benchmarks", "assay.examples.rollouts"),
    ("assay.service.bench.benchmarks", "assay.tests.reference.scorer"),
    ("assay.service.bench.payloads", "assay.examples.rollouts"),
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


TOPS = ("kernels", "research", "service")
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
    """Rooms on floors: where a module is, and what it may import."""

    def __init__(self, floors: tuple[tuple[str, ...], ...]) -> None:
        self.floors = {room: number for number, rooms in enumerate(floors, 1) for room in rooms}
        self._order = list(self.floors)

    def room(self, name: str) -> str | None:
        """Return the room of a module, None if it has none."""
        found = [room for room in self.floors if MODULES[name] == room or MODULES[name].startswith(room)]
        return max(found, key=len, default=None)

    def empty(self) -> set[str]:
        """Return the rooms without modules."""
        return self.floors.keys() - set(map(self.room, MODULES))

    def objection(self, each: Import) -> str | None:
        """Return why a module must not import another one, None if it may."""
        above, below = self.room(each.importer), self.room(each.imported)
        if above is None or below is None or above == below or self.floors[above] > self.floors[below]:
            return None
        if self.floors[above] < self.floors[below]:
            return f"{each} (floor {self.floors[below]} from floor {self.floors[above]})"
        nested = self._outermost(above) == self._outermost(below)
        if nested and self._order.index(above) > self._order.index(below):
            return None
        return f"{each} ({below} from {above}, both on floor {self.floors[above]})"

    def _outermost(self, room: str) -> str:
        """Return the largest room of the same floor that this one is inside of, or the room itself."""
        beside = [other for other, floor in self.floors.items() if floor == self.floors[room]]
        return min((other for other in beside if room.startswith(other)), key=len)


HOUSE, KERNELS = House(FLOORS), House(KERNEL_FLOORS)


def test_every_import_runs_down(inner: list[Import]) -> None:
    kernels = [each for each in inner if of_kernels(each.importer)]
    assert list(filter(None, [*map(HOUSE.objection, inner), *map(KERNELS.objection, kernels)])) == []


def test_no_module_needs_itself(inner: list[Import]) -> None:
    graph: dict[str, set[str]] = {name: set() for name in MODULES}
    for each in inner:
        graph[each.importer].add(each.imported)
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules of a circle


def test_every_module_has_a_room_and_every_room_a_module() -> None:
    assert [name for name in MODULES if HOUSE.room(name) is None] == []
    assert [name for name in MODULES if of_kernels(name) and KERNELS.room(name) is None] == []
    assert HOUSE.empty() | KERNELS.empty() == set()


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


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_figure_of_the_architecture_is_this_map() -> None:
    shown = re.findall(r"^\| (\d+) \| (\S+) \| (?:\S.*\S) \|$", ARCHITECTURE, re.MULTILINE)
    assert shown == [(str(floor), room) for house in (HOUSE, KERNELS) for room, floor in house.floors.items()]
