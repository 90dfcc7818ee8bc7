"""Small data sets for `assay check`, with figures that can be computed by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.research.check.data_set import DataSet, RecordRules, RowFinding
from assay.research.check.rows import open_checked_rows
from assay.service.records.files.opening import SourceFile
from assay.service.records.jobs.row_tasks import RowTasks
from assay.service.records.rows.fields import FieldNames
from assay.service.settings import ScoreSettings
from tests.command_line import write_rows

STEPS = [
    {"action": "add", "objects": ["buffer"], "parameters": ["5 ml"]},
    {"action": "mix", "objects": ["tube"], "parameters": ["gently"]},
]


def key_of(steps: Sequence[dict[str, Any]]) -> str:
    return "\n".join(f"Step {n}: {json.dumps(step)}" for n, step in enumerate(steps, 1))


def answer(steps: Sequence[dict[str, Any]], prose: Sequence[str]) -> str:
    """A whole answer."""
    orc = "\n".join(f"Step {n}: {text}" for n, text in enumerate(prose, 1))
    return f"<think>t</think>\n<key>\n{key_of(steps)}\n</key>\n<orc>\n{orc}\n</orc>\n<note>n</note>"


GOOD = answer(STEPS, ["Add 5 ml of buffer.", "Mix the tube gently."])


def ten_words(left_out: int) -> str:
    """An answer of one step with ten words, of which the prose leaves some out."""
    objects = [f"reagent{n}" for n in range(9)]
    prose = "Add " + " ".join(objects[left_out:])
    return answer([{"action": "add", "objects": objects, "parameters": []}], [prose])


def checked(
    folder: Path, *files: Sequence[Any], similarity: float | None = None, split: str | None = None, **settings: Any
) -> tuple[DataSet, list[RowFinding]]:
    """Check files of these rows, and return what was collected and every finding."""
    tasks = RowTasks(ScoreSettings(**settings))
    paths = [str(write_rows(folder / f"{name}.jsonl", rows)) for name, rows in zip("abc", files, strict=False)]
    data = DataSet(tasks.scorer, RecordRules(None, "reference", None), paths, similarity)
    findings: list[RowFinding] = []
    for path in paths:
        with open_checked_rows(SourceFile(path, "jsonl"), tasks, FieldNames(split=split)) as (pieces, _):
            for piece in pieces:
                findings += data.add(piece)
    return data, [*findings, *data.finish()]
