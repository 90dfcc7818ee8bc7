"""The summaries that docs/research/select.md shows."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.packaging.snippets import ROOT, snippets_of


def test_the_page_shows_what_is_printed(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    shown, printed = [], ""
    for snippet in snippets_of("docs/research/select.md"):
        if snippet.language == "text":
            shown.append(snippet.text)
            assert printed == snippet.text
        else:
            for line in snippet.text.splitlines():
                done = call(*shlex.split(line)[1:])
                assert done.exit_code == 0
                printed = done.stderr
    assert len(shown) == 1
