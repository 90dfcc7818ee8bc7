"""The distribution: its dependencies, JSON, names that it repeats, and adapters that are loaded by their path."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import assay_client
from assay.service.http.endpoints.trainers import dialects
from assay.service.rewards import registry
from assay.service.settings import ScoreSettings
from assay_client import requests as json_text
from assay_client import tasks
from assay_client.adapters import metrics

CLIENTS = Path(__file__).resolve().parents[2] / "clients"
PACKAGE = CLIENTS / "assay_client"
ADAPTERS = sorted((PACKAGE / "adapters").glob("for_*.py"))
OLDEST = (3, 10)

OPTIONAL = {"numpy", "orjson", "swift", "skyrl_gym", "torch", "verl"}
"""Packages that are imported in a `try`, on request, or for types only."""


def test_nothing_but_the_standard_library_is_needed() -> None:
    roots = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), feature_version=OLDEST)):
            if isinstance(node, ast.Import):
                roots |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                roots.add(str(node.module).partition(".")[0])
    assert roots - sys.stdlib_module_names == OPTIONAL | {"assay_client"}


def test_importing_loads_little_and_reads_no_environment() -> None:
    code = "import sys, assay_client; print(*sys.modules)"
    environ = {"PYTHONPATH": str(CLIENTS), "ASSAY_CLIENT_TIMEOUT": "nonsense", "PATH": os.environ["PATH"]}
    shown = subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True)
    assert not {"numpy", "assay", "httpx"} & set(shown.stdout.split())


LOADED = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("reward", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["reward"] = module
spec.loader.exec_module(module)
print(*vars(module))
"""
ENTRIES = {
    "for_areal": "reward_fn",
    "for_messages": "evaluate_messages",
    "for_easyr1": "compute_score",
    "for_ms_swift": "AssayReward",
    "for_openrlhf": "reward_func",
    "for_skyrl": "AssayEnv",
    "for_slime": "custom_rm",
    "for_trl": "score_reward",
    "for_verl": "compute_score",
    "for_verl_sync": "compute_score",
}
PLACES = [
    *((path, "beside the package") for path in ADAPTERS),
    *((ADAPTERS[0], place) for place in ("in the clone", "installed")),
]


@pytest.mark.parametrize(("path", "place"), PLACES, ids=lambda value: getattr(value, "stem", value))
def test_adapters_loaded_by_their_path(path: Path, place: str, tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"]}
    if place == "beside the package":
        shutil.copytree(PACKAGE, tmp_path / "assay_client", ignore=shutil.ignore_patterns("__pycache__", "for_*"))
        shutil.copy(PACKAGE / "adapters" / "for_verl.py", tmp_path / "assay_client" / "adapters")
        path = Path(shutil.copy(path, tmp_path))
    elif place == "installed":
        environ["PYTHONPATH"] = str(CLIENTS)
        path = Path(shutil.copy(path, tmp_path))
    command = [sys.executable, "-W", "error", *([] if place == "installed" else ["-I"]), "-c", LOADED, str(path)]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ENTRIES[path.stem] in done.stdout.split(), done.stderr


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
        ('"\\\n\t\x00\x7f µ 🧪', '"\\\n\t\x00\x7f µ 🧪'),
        ("\ud83e\uddea", "\ufffd\ufffd"),
        ({"a": ["x\ud800", {}]}, {"a": ["x\ufffd", {}]}),
    ],
)
def test_both_write_the_same_value(value: Any, meaning: Any) -> None:
    written = json_text.dumps(value)
    assert json.loads(written.decode()) == meaning
    assert json_text.loads(written) == meaning


@pytest.mark.usefixtures("_library")
def test_what_is_no_json_is_rejected() -> None:
    for value in ({1, 2}, b"x"):
        with pytest.raises((TypeError, ValueError)):
            json_text.dumps(value)
    for body in (b"", b'{"a": NaN}', b"[-Infinity]", b'"\xff"', b"1 2", b"[" * 100_000):
        with pytest.raises(ValueError):  # noqa: PT011
            json_text.loads(body)


def test_tasks() -> None:
    assert assay_client.REWARD_TASKS == registry.REWARD_TASKS
    assert set(tasks.SCORE_SETTINGS) == set(ScoreSettings.model_fields)
    assert assay_client.TASK_COMPONENTS == registry.TASK_COMPONENTS
    for name in assay_client.REWARD_TASKS:
        reward = registry.reward_of(name)
        assert assay_client.TASK_REASONS[name] == tuple(reward.reasons)
        assert tasks.PASSED_IF[name] == tuple(reward.passed_if)
        assert name == "score" or tasks.OWN_COMPONENTS[name] == tuple(reward.components)


def test_metrics_are_the_numbers_of_the_routes_for_trainers() -> None:
    assert metrics.METRICS == dialects.NUMBERS
    assert metrics.MIXED_METRICS == dialects.TASK_NUMBERS
    assert metrics.FREQUENT_REASONS == dialects.FREQUENT_REASONS
