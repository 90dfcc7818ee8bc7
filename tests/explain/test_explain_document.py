"""docs/explain.md shows what the command prints, and names every field."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.service.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)


def test_the_sample_is_what_is_printed(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    (sample,) = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)
    exec(next(block for block in PYTHON if "rollout.json" in block), {})
    done = CliRunner().invoke(main, shlex.split(COMMANDS[0])[1:])
    assert done.stdout == sample
