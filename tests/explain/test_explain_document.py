"""docs/explain.md shows what the command prints, and names every field."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from assay.service.cli.main import main
from assay.service.explain.schema import Explanation, KeyStep, ProseStep

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


def test_the_table_names_fields():
    rows = re.findall(r"^\| (`[^|]+) \| [^|]+ \|$", TEXT, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([a-z_.\[\]]+)`", row)]
    inner: dict[str, type[BaseModel]] = {"prediction[]": KeyStep, "prose[]": ProseStep}
    assert len(named) > 15
    for name in named:
        whole, _, field = name.rpartition(".")
        assert field in (inner[whole] if whole else Explanation).model_fields, name
    whole = {name for name in named if "." not in name}
    left = set(Explanation.model_fields) - whole
    assert left == {"headline", "config", "largest_score", "smallest_reward", "largest_reward", "counted"}


def test_the_function_is_public():
    import assay.service.explain as public
    from assay.service.explain.explanation import explain

    assert public.explain is explain
    assert public.Explanation is Explanation
    assert public.__all__ == sorted(public.__all__)
    with pytest.raises(AttributeError):
        _ = public.nothing
