"""What the README says is so: its snippets run, its tables are complete."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from math import cos, pi
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assay.service.bench.servers import service
from assay.service.config import ServerSettings
from assay.service.scoring.threads import usable_cores
from assay.service.settings import ScoreSettings
from tests.own_process import environment

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8000"
NOT_HERE = re.compile(r"^(make|docker) ")
"""Commands of the README that are the suite itself, need an engine, or run for long; make has a test of its own."""


class Snippet(NamedTuple):
    language: str
    text: str


SNIPPETS = [Snippet(*found) for found in re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)]
COMMANDS = [snippet.text for snippet in SNIPPETS if snippet.language == "sh"]


def after(snippet: Snippet) -> Snippet:
    return SNIPPETS[SNIPPETS.index(snippet) + 1]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with service() as server:
        yield server.address


def test_the_python_snippet_prints_what_is_printed_below_it() -> None:
    (snippet,) = [snippet for snippet in SNIPPETS if snippet.language == "python"]
    shown = subprocess.run([sys.executable, "-c", snippet.text], cwd=ROOT, check=True, capture_output=True)
    assert after(snippet).language == "text"
    assert shown.stdout.decode() == after(snippet).text


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_curl_call_gets_the_reply_below_it(address: str) -> None:
    (snippet,) = [snippet for snippet in SNIPPETS if snippet.text.startswith("curl ")]
    assert ADDRESS in snippet.text
    arguments = shlex.split(snippet.text.replace(ADDRESS, address))
    shown = subprocess.run([*arguments, "--noproxy", "*"], check=True, capture_output=True)
    assert after(snippet).language == "json"
    assert json.loads(shown.stdout) == json.loads(after(snippet).text)


def test_the_commands_run(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    lines = [line for text in COMMANDS for line in text.splitlines() if line.startswith("assay ")]
    assert {"score", "check"} <= {line.split()[1] for line in lines}
    for line in lines:
        command = [sys.executable, "-c", "from assay.service.cli.main import main; main()", *shlex.split(line)[1:]]
        variables = {"PYTHONPATH": environment()["PYTHONPATH"], "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
        result = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, check=False)
        assert result.returncode == 0, (line, result.stderr.decode())
    rows = [json.loads(row) for row in (tmp_path / "scored.jsonl").read_text().splitlines()]
    assert {"reward", "components", "advantage"} <= rows[0].keys()


def test_every_command_line_is_known_here() -> None:
    for text in COMMANDS:
        assert text.startswith("curl ") or all(
            line.startswith("assay ") or NOT_HERE.match(line) for line in text.splitlines()
        )


def test_the_targets_that_it_names_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {*re.findall(r"^make ([a-z]+)$", "".join(COMMANDS), re.MULTILINE), *re.findall(r"`make ([a-z]+)`", README)}
    assert {"demo", "test"} <= named <= targets


def shown_default(field: Any) -> str:
    if field.default_factory is not None:
        return "all cores" if field.default_factory is usable_cores else "by cores"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return "none" if field.default in (None, ()) else f"`{field.default}`"


@pytest.mark.parametrize("model", [ScoreSettings, ServerSettings])
def test_the_tables_of_settings_are_complete(model: type[Any]) -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", README, re.MULTILINE))
    for name, field in model.model_fields.items():
        assert rows.get(name) == shown_default(field), name
    assert set(rows) <= {*ScoreSettings.model_fields, *ServerSettings.model_fields}


ANCHOR = re.compile(
    r"^\| (?P<i>\d) \w+ \| (?P<j>\d) \w+ \| (?P<position>[\d.]+) \| (?P<obj>[\d.]+)[^|]* \| (?P<par>[\d.]+)[^|]* "
    r"\| (?P<product>[\d.]+) \|$",
    re.MULTILINE,
)


def test_the_worked_example_adds_up() -> None:
    """The figures of the table of anchors, computed from their definitions."""
    n, m = 3, 4
    products = []
    for found in ANCHOR.finditer(README):
        anchor = {name: float(figure) for name, figure in found.groupdict().items()}
        assert anchor["position"] == 1 - (abs(anchor["i"] - anchor["j"]) / m) ** 1.5
        products.append(anchor["position"] * (anchor["obj"] + anchor["par"] / 2))
        assert anchor["product"] == products[-1]
    assert len(products) == n
    content = sum(products) / n
    score = cos(pi * (m - n) / (2 * int(0.6 * m))) * (1 + content)
    said = README.replace("\n", " ")
    assert f"content = {sum(products)} / 3 = {content:.4f}" in said
    assert f"= {score:.2f}, and the reward is {score:.2f} / 2.5 = {score / 2.5:.3f}" in said


@pytest.mark.parametrize("name", ["SECURITY.md", "docs/operations.md"])
def test_the_tests_that_promises_name_exist(name: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / name).read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []
