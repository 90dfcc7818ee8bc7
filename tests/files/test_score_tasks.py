"""`assay score` for rows of other tasks: mixed files, in every format, have the bits of one task at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import Scorer
from assay.service.evaluate.task_rewards import REWARD_TASKS, TASK_COMPONENTS
from tests.cases.mixed import OPTIONS, ROWS, Row
from tests.command_line import read_rows, write_rows
from tests.http.samples import REFERENCE

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FLAGS = [
    *("--task-field", "task", "--include", "components,advantages", "--group-field", "group"),
    *("--order", "lcs", "--option", "bioprobench.ord.repeats=failed", "--option", "lexical.reward=rouge_l"),
]
FORMATS = ["jsonl", "json", "parquet", "arrow"]


def rows(text_references: bool) -> list[dict[str, Any]]:
    """Return the shared rows as rows of a file; columns hold references of several kinds as text."""
    return [
        {
            "id": k,
            "task": row.task,
            "response": row.response,
            "reference": text_of(row) if text_references else row.reference,
            "group": f"{type(row.group).__name__} {row.group}",
        }
        for k, row in enumerate(ROWS)
    ]


def text_of(row: Row) -> str:
    """Return a reference as text: that of SCORE is its lines."""
    return REFERENCE if row.task == "score" else row.reference_text


def write(path: Path, content: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(content), path, row_group_size=4)
    elif path.suffix == ".arrow":
        table = pa.Table.from_pylist(content)
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
    elif path.suffix == ".json":
        path.write_text(json.dumps(content))
    else:
        write_rows(path, content)
    return path


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, with nested components."""
    if path.suffix in (".json", ".jsonl"):
        return json.loads(path.read_bytes()) if path.suffix == ".json" else read_rows(path)
    found = pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(pa.OSFile(str(path))).read_all()
    return [
        {
            **{name: value for name, value in row.items() if name not in TASK_COMPONENTS},
            "components": {name: row[name] for name in TASK_COMPONENTS},
        }
        for row in found.to_pylist()
    ]


@pytest.fixture(scope="module")
def alone() -> list[dict[str, Any]]:
    """Return the results of each row from the rows of its task alone."""
    found: dict[int, dict[str, Any]] = {}
    for task in REWARD_TASKS:
        members = [k for k, row in enumerate(ROWS) if row.task == task]
        texts, references = [ROWS[k].response for k in members], [ROWS[k].reference for k in members]
        scores = Scorer(order="lcs").score(texts, references, task=task, task_options=OPTIONS.get(task))
        for row, k in enumerate(members):
            columns = {name: float(scores.components[name][row]) if name in scores.components else 0.0 for name in TASK_COMPONENTS}
            found[k] = {"reward": scores.rewards[row], "reason": str(scores.reasons[row]), "components": columns}
    return [found[k] for k in range(len(ROWS))]


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_a_mixed_file_has_the_bits_of_one_task_at_a_time(
    call: Callable[..., Any], tmp_path: Path, alone: list[dict[str, Any]], source: str, target: str
) -> None:
    content = rows(text_references=source in ("parquet", "arrow"))
    path, out = write(tmp_path / f"in.{source}", content), tmp_path / f"out.{target}"
    result = call("score", path, "-o", out, *FLAGS)
    assert result.exit_code == 0, result.stderr
    found = read(out)
    assert [{name: row[name] for name in alone[0]} for row in found] == alone
    assert [row["reward"] for row in found] == [row.reward for row in ROWS]
    scores = Scorer(order="lcs").score(
        [row.response for row in ROWS],
        [row.reference for row in ROWS],
        groups=[row["group"] for row in content],
        task=[row.task for row in ROWS],
        task_options={name: options for name, options in OPTIONS.items() if name != "order"},
    )
    assert [row["advantage"] for row in found] == scores.advantages().tolist()
    names = {"reward", "reason", "components", "advantage"}
    if target in ("json", "jsonl") or source in ("parquet", "arrow"):
        assert [{name: value for name, value in row.items() if name not in names} for row in found] == content
