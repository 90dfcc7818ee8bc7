"""What the tests of the command line call it with, and the smallest rollout that gets the whole reward."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ASSAY = [sys.executable, "-c", "import sys; sys.argv[0] = 'assay'; from assay.service.cli.main import main; main()"]


def environment() -> dict[str, str]:
    """The environment without settings of the machine's own, with the packages of this checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    if "ASSAY_CACHE_DIR" in os.environ:
        kept["ASSAY_CACHE_DIR"] = os.environ["ASSAY_CACHE_DIR"]
    return kept


def write_rows(path: Path, rows: Sequence[Any]) -> Path:
    """JSONL; a row that is bytes is written as it is."""
    lines = (row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode() for row in rows)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


STEP = {"action": "add", "objects": ["pbs"], "parameters": ["5 min"]}
REFERENCE = {"steps": [STEP]}
KEY_LINE = "Step 1: " + json.dumps(STEP)
RESPONSE = f"<think>t</think><key>{KEY_LINE}</key><orc>Step 1: Add the PBS for 5 minutes.</orc><note>n</note>"
