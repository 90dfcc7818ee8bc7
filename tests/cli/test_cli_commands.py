"""The command as a whole: quick help, exit codes, a flag for every setting."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import click
import pytest

from assay.service.cli.command import Command
from assay.service.cli.main import COMMANDS, main
from assay.service.tables.table import Table
from assay.service.terminal import show
from assay.service.version import VERSION
from tests.command_line import ROOT
from tests.launcher import environment

HEAVY = ("numpy", "numba", "llvmlite", "fastapi", "starlette", "uvicorn", "pydantic", "orjson")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_imports_load_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys, assay.kernels\nfrom assay.service.cli.main import main\n"
        f"try: main({arguments!r})\nexcept SystemExit as end: assert not end.code\n"
        f"assert not sys.modules.keys() & {set(HEAVY)!r}, sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment(), stdout=subprocess.DEVNULL)


def test_python_m_assay_is_the_command(tmp_path) -> None:
    options = {"cwd": tmp_path, "env": environment(), "capture_output": True, "text": True, "check": False}
    module = [sys.executable, "-m", "assay"]
    assert subprocess.run([*module, "--version"], **options).stdout == f"assay {VERSION}\n"
    wrong = subprocess.run([*module, "scor"], **options)
    assert wrong.returncode == 2
    assert "did you mean score?" in wrong.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_documented_completion(run, shell: str) -> None:
    assert f"_ASSAY_COMPLETE={shell}_source assay" in (ROOT / "docs" / "cli.md").read_text("utf-8")
    script = run(env=environment() | {"_ASSAY_COMPLETE": f"{shell}_source"}).stdout.decode()
    assert f"_ASSAY_COMPLETE={shell}_complete" in script
    asked = {"COMP_WORDS": "assay score --order ", "COMP_CWORD": "" if shell == "fish" else "3"}
    answer = run(env=environment() | asked | {"_ASSAY_COMPLETE": f"{shell}_complete"})
    assert {"strict", "lcs"} <= set(re.findall(r"\w+", answer.stdout.decode()))


@pytest.mark.parametrize("name", ["check", "evaluate"])
def test_after_ctrl_c(call, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Not 1, which says that some records could not be scored."""

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module(f"assay.service.cli.{name}").command, "callback", interrupted)
    done = call(name, "-")
    assert (done.exit_code, done.stderr) == (130, "\nInterrupted.\n")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_with_an_example_that_it_accepts(call, name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert isinstance(command, Command)
    assert command.examples
    assert re.search(rf"^ +{name} ", call("--help").stdout, re.MULTILINE)
    shown = call(name, "--help").stdout
    assert shown.startswith(f"Usage: assay {name}")
    assert all(example in shown for example in command.examples)
    for example in command.examples:
        _, _, called = example.partition(f"assay {name}")
        words = called.partition(" >")[0].split()
        assert all(
            word in {flag for param in command.params for flag in param.opts} for word in words if word[:2] == "--"
        )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scor"], "No such command 'scor'; did you mean score?"),
        (["score", "-", "--include", "component"], "must be one of: components, advantages, steps; did you mean"),
        (["score", "-", "--min-coverage", "1.5"], "Error: --min-coverage: must be at most 1, got 1.5\n"),
    ],
)
def test_a_mistake_is_named_with_what_may_have_been_meant(call, arguments: list[str], said: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_every_version_of_rich_draws_a_table_alike(capsys: pytest.CaptureFixture[str]) -> None:
    """`make test-lowest` has the lowest: its least width of a column counts padding that it does not draw."""
    show(Table(["verb", "rows", "share"], [["mix", 2, "5.7%"]]), Table(["sd", "n"], [["0.1250", 16]], left=0))
    lines = ["verb  rows  share", "─" * 17, "mix      2   5.7%", "    sd   n", "─" * 10, "0.1250  16"]
    assert capsys.readouterr().out.splitlines() == lines
