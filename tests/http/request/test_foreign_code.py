"""Nothing that a request contains is executed."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from assay.service.http.job_server import JOBS
from tests.http.foreign_code import ROUTES, hostile_bodies, storm

ROOT = Path(__file__).resolve().parents[3]
EXECUTING = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "multiprocessing", "pebble", "joblib"}
"""Modules that execute what they deserialize, or pass objects between processes with one that does."""


@pytest.mark.attack
def test_no_module_of_the_service_imports_what_executes_bytes() -> None:
    """Look for a deserializer that could be given a body by mistake."""
    imported = [
        (path.relative_to(ROOT).as_posix(), name)
        for folder in ("service", "research", "clients")
        for path in (ROOT / folder).rglob("*.py")
        if not path.is_relative_to(ROOT / "service" / "ray")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in names_of(node)
        if name.partition(".")[0] in EXECUTING
    ]
    assert imported == []


def names_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""] if not node.level else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute) and node.args:
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        first = node.args[0]
        if name in ("import_module", "__import__") and isinstance(first, ast.Constant):
            return [str(first.value)]
    return []


def test_the_table_of_jobs_is_closed() -> None:
    assert sorted(JOBS) == ["aggregate", "evaluate", "explain", "reward"]


@pytest.mark.attack
@pytest.mark.parametrize("route", ROUTES)
def test_pickles_of_every_protocol_are_not_json(client, route: str, tmp_path: Path) -> None:
    """Send bodies that would make a folder if they were unpickled."""
    target = tmp_path / "made"
    for body in hostile_bodies(target):
        for headers in ({}, {"content-type": "application/json"}, {"x-request-timeout": "0.001"}):
            reply = client.post(route, content=body, headers=headers)
            assert reply.status_code in (400, 422, 504), reply.text
    assert not target.exists()


@pytest.mark.attack
def test_abandoned_jobs_never_read_the_bytes_of_others(fresh_server, tmp_path: Path) -> None:
    """Abandon jobs all the time while others send pickles, so that a process may meet another request's descriptor."""
    counts = storm(fresh_server, tmp_path / "made", float(os.environ.get("ATTACK_SECONDS", "6")))
    assert not (tmp_path / "made").exists()
    assert counts["wrong"] == counts["failed"] == counts["500"] == 0, counts
    assert counts["504"] > 10, counts
    assert counts["400"] > 10, counts
    assert counts["200"] > 3, counts
