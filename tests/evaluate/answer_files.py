"""Files of answers for `assay evaluate`, every third of which has no sections."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

STEP = '{"action": "add", "objects": ["pbs"], "parameters": ["5 ml"]}'
REFERENCE = f"Step 1: {STEP}"
GOOD = f"<think>t</think><key>{REFERENCE}</key><orc>Step 1: Add 5 ml pbs.</orc><note>n</note>"


def rows(count: int) -> list[dict[str, str]]:
    return [
        {
            "id": f"r{k}",
            "response": GOOD if k % 3 else "nothing",
            "reference": REFERENCE,
            "type": ["planning", "safety"][k % 2],
        }
        for k in range(count)
    ]


def written(folder: Path, lines: Iterable[Any], name: str = "answers.jsonl") -> Path:
    """Write lines, those that are texts as they are; return the path."""
    path = folder / name
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path
