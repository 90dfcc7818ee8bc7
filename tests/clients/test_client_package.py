"""The distribution: its dependencies, JSON, names that it repeats, and adapters that are loaded by their path."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

import assay_client
from assay.service.http.endpoints.trainers import dialects
from assay.service.rewards import registry
from assay_client import requests as json_text
from assay_client import tasks
from assay_client.adapters import metrics
from tests.clients.fault_server import FaultServer

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "clients"
PACKAGE = CLIENTS / "assay_client"
MODULES = sorted(PACKAGE.rglob("*.py"))
ADAPTERS = sorted((PACKAGE / "adapters").glob("for_*.py"))
README = (CLIENTS / "README.md").read_text(encoding="utf-8")
OLDEST = (3, 10)

OPTIONAL = {"orjson", "swift", "skyrl_gym", "torch", "verl"}
"""Packages that are imported in a `try` or on request only."""


def name_of(path: Path) -> str:
    parts = path.relative_to(CLIENTS).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = set(map(name_of, MODULES))


def imports_of(path: Path) -> set[str]:
    """Return the full names of all imported modules, also those for type checking and inside functions."""
    package = (path if path.name == "__init__.py" else path.parent / "__init__.py").relative_to(CLIENTS).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), feature_version=OLDEST)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*parents, *([node.module] if node.module else [])])
            members = {f"{module}.{alias.name}" for alias in node.names}
            found |= members & NAMES or {module}
    return found


def test_nothing_but_the_standard_library_is_needed() -> None:
    allowed = sys.stdlib_module_names | OPTIONAL | {"assay_client"}
    roots = {name_of(path): {name.split(".")[0] for name in imports_of(path)} for path in MODULES}
    assert {name: found - allowed for name, found in roots.items() if found - allowed} == {}


def test_no_import_cycle() -> None:
    graph = {name_of(path): {name for name in imports_of(path) if name in NAMES} for path in MODULES}
    assert "assay_client.transport.waiting" in graph["assay_client.client"]
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_version_is_the_same_in_both_places() -> None:
    stated = re.search(r'^version = "(.*)"$', (CLIENTS / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert stated is not None
    assert stated[1] == assay_client.__version__


def test_importing_loads_little_and_reads_no_environment() -> None:
    code = "import sys, assay_client; print(*sys.modules)"
    environ = {"PYTHONPATH": str(CLIENTS), "ASSAY_CLIENT_TIMEOUT": "nonsense", "PATH": os.environ["PATH"]}
    shown = subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True)
    assert not {"numpy", "assay", "httpx"} & set(shown.stdout.split())


LOADED = """
import asyncio, importlib.util, inspect, json, sys
path, what = sys.argv[1:]
spec = importlib.util.spec_from_file_location("reward", path)
module = importlib.util.module_from_spec(spec)
sys.modules["reward"] = module
spec.loader.exec_module(module)

class Sample: prompt, response, label, index = "p", "xx", "r", 0

calls = {
    "for_verl": lambda: module.compute_score("d", "xx", "r", {}),
    "for_verl_sync": lambda: module.compute_score("d", "xx", "r", {}),
    "for_easyr1": lambda: module.compute_score([{"response": "xx", "response_length": 1, "ground_truth": "r"}]),
    "for_trl": lambda: module.score_reward(prompts=["p"], completions=["xx"], reference=["r"]),
    "for_ms_swift": lambda: module.orms["assay"]()(["xx"], solution=["r"]),
    "for_slime": lambda: module.custom_rm(None, Sample()),
    "for_areal": lambda: module.reward_fn("p", "xx", [], [], answer="r"),
    "for_skyrl": lambda: module.AssayEnv({}, {"reward_spec": {"ground_truth": "r"}}).step("xx"),
    "for_openrlhf": lambda: module.reward_func(["pxx"], ["p"], ["r"]),
}
result = calls[what]()
if inspect.iscoroutine(result):
    result = asyncio.run(result)
print(json.dumps(result))
"""


def first_number(result: object) -> object:
    while isinstance(result, (dict, list)):
        if isinstance(result, dict):
            result = next(result[name] for name in ("score", "overall", "rewards", "reward") if name in result)
        else:
            result = result[0]
    return result


PLACES = [
    *((path, "beside the package") for path in ADAPTERS),
    *((ADAPTERS[0], place) for place in ("in the clone", "installed")),
]


@pytest.mark.parametrize(("path", "place"), PLACES, ids=lambda value: getattr(value, "stem", value))
def test_adapters_loaded_by_their_path(path: Path, place: str, faults: FaultServer, tmp_path: Path) -> None:
    environ = {"ASSAY_URL": faults.url, "PATH": os.environ["PATH"]}
    if place == "beside the package":
        shutil.copytree(PACKAGE, tmp_path / "assay_client", ignore=shutil.ignore_patterns("__pycache__", "for_*"))
        shutil.copy(PACKAGE / "adapters" / "for_verl.py", tmp_path / "assay_client" / "adapters")
        path = Path(shutil.copy(path, tmp_path))
    elif place == "installed":
        environ["PYTHONPATH"] = str(CLIENTS)
        path = Path(shutil.copy(path, tmp_path))
    done = subprocess.run(
        [sys.executable, "-W", "error", *([] if place == "installed" else ["-I"]), "-c", LOADED, str(path), path.stem],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert first_number(json.loads(done.stdout)) == 0.002


PYTHON = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_snippet_of_the_readme_prints_the_output_below_it(server: object) -> None:
    snippet = next(text for text in PYTHON if text.startswith("from assay_client import Client"))
    shown = README[README.index(snippet) :].partition("```text\n")[2].partition("```")[0]
    environ = {"PYTHONPATH": str(CLIENTS), "PATH": os.environ["PATH"], "ASSAY_URL": server.url}  # type: ignore[attr-defined]
    done = subprocess.run(
        [sys.executable, "-c", snippet], env=environ, check=True, capture_output=True, encoding="utf-8"
    )
    assert done.stdout == shown


def test_every_adapter_and_every_variable_is_in_the_readme() -> None:
    from assay_client.settings import KNOWN_VARIABLES

    assert {f"{path.stem}.py" for path in ADAPTERS} <= set(re.findall(r"for_\w+\.py", README))
    assert set(re.findall(r"`(ASSAY_\w+)`", README)) == KNOWN_VARIABLES


@pytest.fixture(params=["orjson", "standard library"])
def _library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "orjson":
        pytest.importorskip("orjson")
    else:
        monkeypatch.setattr(json_text, "orjson", None)


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        ("plain", "plain"),
        ('"\\\n\t\x00\x7f µ 🧪', '"\\\n\t\x00\x7f µ 🧪'),
        ("a\ud800b\udfff", "a\ufffdb\ufffd"),
        ("\ud83e\uddea", "\ufffd\ufffd"),
        (["x", "\udc00"], ["x", "\ufffd"]),
        ({"a": ["\ud800", {}]}, {"a": ["\ufffd", {}]}),
    ],
)
def test_both_write_the_same_value(value: Any, meaning: Any) -> None:
    written = json_text.dumps(value)
    assert json.loads(written.decode()) == meaning
    assert json_text.loads(written) == meaning


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("value", [{1, 2}, b"x", {"a": object()}])
def test_values_without_a_json_form_are_rejected(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        json_text.dumps(value)


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("body", [b"", b"{", b'{"a": NaN}', b"[Infinity]", b"[-Infinity]", b'"\xff"', b"1 2"])
def test_invalid_json_is_rejected(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        json_text.loads(body)


def test_tasks() -> None:
    assert assay_client.REWARD_TASKS == registry.REWARD_TASKS
    assert assay_client.TASK_COMPONENTS == registry.TASK_COMPONENTS


@pytest.mark.parametrize("name", assay_client.REWARD_TASKS)
def test_reasons_and_components_of_a_task(name: str) -> None:
    assert assay_client.TASK_REASONS[name] == tuple(registry.reward_of(name).reasons)
    assert tasks.PASSED_IF[name] == tuple(registry.reward_of(name).passed_if)
    if name != "score":
        assert tasks.OWN_COMPONENTS[name] == tuple(registry.reward_of(name).components)


def test_metrics_are_the_numbers_of_the_routes_for_trainers() -> None:
    assert metrics.METRICS == dialects.NUMBERS
    assert metrics.MIXED_METRICS == dialects.TASK_NUMBERS
    assert metrics.FREQUENT_REASONS == dialects.FREQUENT_REASONS
