"""The documentation site builds strictly: links, anchors, diagrams. Nothing is loaded from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.own_process import environment

ROOT = Path(__file__).resolve().parents[2]
LOADS = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b[^>]*\bhref=\"?(?:https?:)?//")


@pytest.mark.slow  # make docs is the other test
def test_pages_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="MkDocs is not installed (make docs installs it)")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=environment(), check=True)
    pages = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert len(pages) > 30
    assert '<div class="diagram"><svg' in pages["architecture.html"]
    assert [name for name, text in pages.items() if LOADS.search(text)] == []
