"""Every snippet of the READMEs and docs runs exactly as shown, and prints what the page says.

The Python snippets of a page are one program, from top to bottom: each uses only names that it or one above defines.
Commands run in a folder with the clone's examples/ and what the snippets above have written.

A comment above a fence says otherwise, and why: `<!-- not run: needs a cluster -->` (its syntax is checked),
`<!-- run by tests/… -->`, `<!-- an error: 422 -->`. A `text` or `json` snippet is the output of the one before it; of a
text that ends with a line `…`, the beginning.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from assay.loadtests.servers import service
from assay.service.cli.main import main
from assay.service.config import load
from tests.command_line import as_installed
from tests.packaging.snippets import PAGES, ROOT, Snippet, snippets_of

ADDRESS = "http://127.0.0.1:8000"
ERROR = re.compile(r"an error: (\d{3})")
PROBLEM = re.compile(r'"status": ?(\d{3})')
NOTE = re.compile(r"(not run: .{8,}|run by (?P<path>tests/\S+\.py))")
UNSETTLED = {"signature"}
"""Fields of a reply that a page may omit."""

NOT_HERE = {"docker", "make"}
"""Programs that need an engine, or run the suite itself."""

WITH_SNIPPETS = [page for page in PAGES if snippets_of(page)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with service() as server:
        yield server.address


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", WITH_SNIPPETS)
def test_snippets(page: str, folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: str | None = None
    names: dict[str, Any] = {"__name__": "__main__"}
    for snippet in snippets_of(page):
        at = f"{page}:{snippet.line}"
        error = ERROR.fullmatch(snippet.note)
        if snippet.note and not error:
            check_note(snippet, at)
            printed = None
        elif snippet.language in RUN:
            text = snippet.text
            if ADDRESS in text or "assay_client" in text:
                address = request.getfixturevalue("address")
                monkeypatch.setenv("ASSAY_URL", address)
                text = text.replace(ADDRESS, address)
            printed = RUN[snippet.language](text, names, at)
            assert PROBLEM.findall(printed) == ([error[1]] if error else []), at
        elif snippet.language == "json":
            shown = json.loads(snippet.text)
            if printed is not None:
                reply = json.loads(printed)
                left_out = UNSETTLED - shown.keys()
                assert {name: value for name, value in reply.items() if name not in left_out} == shown, at
            printed = None
        elif snippet.language == "text":
            beginning, shortened, _ = snippet.text.partition("…\n")
            assert printed is None or printed == snippet.text or (shortened and printed.startswith(beginning)), at
            printed = None
        else:
            OTHERS[snippet.language](snippet.text, folder)


def check_note(snippet: Snippet, at: str) -> None:
    """A snippet that is not run here has a reason, or another test; its syntax is right."""
    note = NOTE.fullmatch(snippet.note)
    assert note, at
    assert note["path"] is None or (ROOT / note["path"]).is_file(), at
    if snippet.language == "python":
        ast.parse(snippet.text)
    elif snippet.language == "sh":
        subprocess.run(["bash", "-n"], input=snippet.text.encode(), check=True)
    elif snippet.language == "toml":
        assert tomllib.loads(snippet.text)
    else:
        assert snippet.language == "text", at


def run_python(text: str, names: dict[str, Any], at: str) -> str:
    with redirect_stdout(StringIO()) as printed:
        exec(compile(text, at, "exec"), names)
    return printed.getvalue()


def run_shell(text: str, _names: dict[str, Any], at: str) -> str:
    """Run a snippet command by command: those of Assay in this process."""
    commands = re.split(r"(?<!\\)\n(?=(?:assay|curl|docker|make) )", text.strip())
    return "".join(run_command(command, at) for command in commands)


def run_command(command: str, at: str) -> str:
    program, *arguments = shlex.split(command.replace("\\\n", " "), comments=True)
    if program in NOT_HERE:
        return ""
    if program == "assay" and "|" not in arguments:
        done = CliRunner().invoke(main, as_installed(arguments))
        assert done.exit_code == 0, (at, command, done.output)
        return done.stdout
    assert program == "curl", f"{at}: {program} cannot be run here; say so in a comment above the snippet"
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    variables = {**os.environ, "no_proxy": "*"}
    return subprocess.run(["bash", "-euc", command], check=True, capture_output=True, text=True, env=variables).stdout


def check_toml(text: str, folder: Path) -> None:
    """A file of settings; paths in it need not exist."""
    path = folder / "assay.toml"
    path.write_text(text, encoding="utf-8")
    load(environ={}, path=path)


def check_yaml(text: str, _folder: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="needs the extra deploy")
    assert yaml.safe_load(text)


RUN: dict[str, Callable[[str, dict[str, Any], str], str]] = {"python": run_python, "sh": run_shell}
OTHERS: dict[str, Callable[[str, Path], None]] = {
    "mermaid": lambda _text, _folder: None,  # drawn by `make docs`
    "bibtex": lambda _text, _folder: None,
    "toml": check_toml,
    "yaml": check_yaml,
}


COMMAND = re.compile(r"(?:^ *|`|\| )assay ([a-z][^`|\n]*)", re.MULTILINE)
TARGET = re.compile(r"`make ([a-z-]+)[` ]|^make ([a-z-]+)$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)`")


def named_in_pages(pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return each page with what the pattern's groups find in it."""
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES if page != "CHANGELOG.md"}
    return [
        (page, next(filter(None, match.groups()))) for page, text in texts.items() for match in pattern.finditer(text)
    ]


def test_the_commands_that_a_page_names_exist() -> None:
    """Commands and flags of `assay`, also in snippets that are not run."""
    context = click.Context(main)
    wrong = []
    for page, line in named_in_pages(COMMAND):
        command = main.get_command(context, line.split()[0])
        parameters = command.params if command else []
        options = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)} | {
            "--help"
        }
        flags = {word.partition("=")[0] for word in line.split() if word.startswith("--")}
        if command is None or not flags <= options:
            wrong.append(f"{page}: assay {line}")
    assert wrong == []


def test_the_targets_and_the_tests_that_a_page_names_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert [target for target in named_in_pages(TARGET) if target[1] not in targets] == []
    tests = named_in_pages(TEST)
    assert {"SECURITY.md", "docs/size.md"} <= {page for page, _ in tests}
    assert [test for test in tests if not (ROOT / test[1]).is_file()] == []
