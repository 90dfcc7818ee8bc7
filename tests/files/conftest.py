"""Rows through `assay score`, from and to files of any format."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from tests.files.any_format import read, write

Scored = tuple[list[dict[str, Any]], str]


@pytest.fixture
def score(call, tmp_path: Path) -> Callable[..., Scored]:
    """Score rows, or a document, in a file `in.SOURCE`; return the rows of `out.TARGET` and standard error."""

    def score(
        rows: Any, *flags: Any, code: int = 0, source: str = "jsonl", target: str = "jsonl", names: Collection[str] = ()
    ) -> Scored:
        path, out = write(tmp_path / f"in.{source}", rows), tmp_path / f"out.{target}"
        result = call("score", path, "-o", out, *flags)
        assert result.exit_code == code, result.stderr
        return read(out, names) if code < 2 else [], result.stderr

    return score
