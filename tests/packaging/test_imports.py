"""Importing is quick, public names are what they say, and nothing imports upwards."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

STATIONS = [
    ("kernels", "kernels"),
    ("errors, settings, cores", "config errors listening logs service_links settings shadow signals slices version"),
    ("columns to rewards", "columns envelope reference_cache references scorer scores selftest shares workspaces"),
    ("tasks of evaluation", "evaluate"),
    ("bytes to columns and back", "arrow arrow_bounds codec explain problems schema small stream survey timing"),
    ("one exchange over HTTP", "about admission asgi body deadline docs ending executor fleet frame guard health"),
    ("one exchange over HTTP", "intake jobs keys media merging metrics openapi origin preloaded processes protocol"),
    ("one exchange over HTTP", "refusals resident trace tracing"),
    ("one exchange over HTTP", "compat evaluating explaining playground routes scoring stack state task_scoring"),
    ("the service", "app protocol_check server supervisor worker"),
    ("files of rollouts", "rollouts"),
    ("reports", "report"),
    ("files of answers", "answers"),
    ("on Ray", "ray"),
    ("the bench", "bench"),
    ("the command line", "cli commands"),
]
"""From the bottom to the top: the modules of each station import from their own station and from those above in this
list. A folder stands for all that is in it."""

KERNELS_MAY_IMPORT = {"kernels", "numpy", "numba", "llvmlite"}
FORBIDDEN_TO_THE_PRODUCT = {"tests", "examples", "loadtests", "clients"}


def modules() -> dict[str, Path]:
    """Dotted name to file, of the whole product."""
    found = {}
    for path in [*ROOT.glob("kernels/**/*.py"), *ROOT.glob("service/**/*.py")]:
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(name: str, path: Path) -> set[str]:
    """What a module imports when it runs, also inside functions, as dotted names; types alone do not count."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*home, *([node.module] if node.module else [])])
            inner = {f"{source}.{alias.name}" for alias in node.names}
            found |= (inner & MODULES.keys()) or {source}
    return found - {name}


IMPORTS = {name: imported(name, path) for name, path in MODULES.items()}


def station(name: str) -> int:
    parts = name.split(".")
    word = "kernels" if parts[0] == "kernels" else parts[1]
    found = [title for title, words in STATIONS if word in words.split()]
    assert len(found) == 1, f"{name} has no station in the table of imports: give it one"
    return [title for title, _ in STATIONS].index(found[0])


@pytest.mark.parametrize("name", sorted(MODULES.keys() - {"service"}))
def test_nothing_imports_upwards(name: str) -> None:
    ours = {target for target in IMPORTS[name] if target.split(".")[0] in ("kernels", "service")} - {"service"}
    upwards = {target for target in ours if station(target) > station(name)}
    assert not upwards


def test_every_entry_of_the_table_exists() -> None:
    named = {word for _, words in STATIONS for word in words.split()} - {"kernels"}
    assert named == {name.split(".")[1] for name in MODULES if name.startswith("service.")}


def test_no_module_needs_itself() -> None:
    graph = {name: targets & MODULES.keys() for name, targets in IMPORTS.items()}
    list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("name", sorted(name for name in MODULES if name.split(".")[0] == "kernels"))
def test_kernels_know_nothing_of_the_service(name: str) -> None:
    roots = {target.split(".")[0] for target in IMPORTS[name]}
    assert roots <= KERNELS_MAY_IMPORT | sys.stdlib_module_names


@pytest.mark.parametrize("name", sorted(MODULES))
def test_the_product_needs_no_tests_and_no_examples(name: str) -> None:
    assert not {target.split(".")[0] for target in IMPORTS[name]} & FORBIDDEN_TO_THE_PRODUCT


@pytest.mark.parametrize("package", ["service", "kernels"])
def test_importing_a_package_loads_and_compiles_nothing(package: str) -> None:
    heavy = {"numpy", "numba", "llvmlite", "pydantic", "fastapi", "orjson"}
    code = f"import sys, {package}; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert not heavy & set(shown.stdout.split())


@pytest.mark.usefixtures("compiled")
def test_importing_every_kernel_compiles_nothing() -> None:
    names = sorted(name for name in MODULES if name.startswith("kernels"))
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "found = {id(v): v for m in list(sys.modules.values()) if getattr(m, '__name__', '').startswith('kernels')\n"
        "         for v in vars(m).values() if type(v).__name__ == 'CPUDispatcher'}\n"
        "assert found\n"
        "compiled = [v.py_func.__name__ for v in found.values() if v.signatures]\n"
        "assert not compiled, compiled\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def constants_classes_functions(word: str) -> tuple[bool, bool, str]:
    return not word.isupper(), not word[:1].isupper(), word


@pytest.mark.parametrize("name", sorted(MODULES))
def test_public_names_are_sorted_and_there(name: str) -> None:
    module = importlib.import_module(name)
    public = list(getattr(module, "__all__", []))
    assert public == sorted(set(public), key=constants_classes_functions)
    assert all(hasattr(module, word) for word in public)


def test_the_names_of_the_package_are_those_of_their_homes() -> None:
    import assay

    tree = ast.parse(MODULES["service"].read_text(encoding="utf-8"))
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    homes = {alias.name: f".{node.module}" for node in typed.body for alias in node.names}
    assert homes == assay.service._HOMES
    assert set(assay.service.__all__) == homes.keys()
    for word, home in homes.items():
        assert getattr(assay.service, word) is getattr(importlib.import_module(home, "service"), word)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = assay.service.nothing_of_the_kind
