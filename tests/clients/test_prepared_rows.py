"""Rows of `assay prepare` for frameworks, and the scores of responses to them."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay_client import InvalidReference, Unavailable
from assay_environments import (
    PreparedRow,
    Scored,
    read_rows,
    score_response_async,
    score_responses,
    score_responses_async,
)
from tests.cases.mixed import OPTIONS, ROWS
from tests.servers import LiveServer

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which step is wrong?"}]
ROW = {"prompt": MESSAGES, "reference": "key lines", "id": "r1", "task": "score", "group": "g1", "split": "test"}
ORD = ROW | {"id": "r2", "task": "bioprobench.ord", "reference": '{"correct_steps": ["a"]}', "level": "2"}
MIXED = [PreparedRow(MESSAGES, one.reference_text, one.task, f"row {k}") for k, one in enumerate(ROWS)]


def written(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_a_split_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "test.jsonl", ROW, ORD)
    written(tmp_path / "train.jsonl", ROW | {"id": 7, "prompt": "Which?", "level": "", "type": None, "task": None})
    first, second = read_rows(tmp_path)
    assert first == PreparedRow(MESSAGES, "key lines", "score", "r1", {"group": "g1", "split": "test"})
    assert second.columns["level"] == "2"
    monkeypatch.setenv("ASSAY_ROWS", str(tmp_path))
    (row,) = read_rows(split="train")
    assert row == PreparedRow(
        [{"role": "user", "content": "Which?"}], "key lines", "score", "7", {"group": "g1", "split": "test"}
    )


def test_rows_as_prime_rl_has_them(tmp_path: Path) -> None:
    info = {name: value for name, value in ORD.items() if name not in ("prompt", "reference")}
    file = written(tmp_path / "any.jsonl", {"prompt": MESSAGES, "answer": ORD["reference"], "info": info})
    assert read_rows(file) == read_rows(written(tmp_path / "trl.jsonl", ORD))


def test_rows_are_selected_by_columns_whatever_type_the_framework_passes(tmp_path: Path) -> None:
    file = written(tmp_path / "rows.jsonl", ROW, ORD, ORD | {"id": "r3", "level": "1"})
    assert [row.id for row in read_rows(file, level=2)] == ["r2"]
    assert [row.id for row in read_rows(file, task="bioprobench.ord", level=None)] == ["r2", "r3"]
    with pytest.raises(ValueError, match=r"no row with \{'level': '9'\}; it has level: 1, 2, None"):
        read_rows(file, level=9)
    with pytest.raises(ValueError, match="no column difficulty: they have task, group"):
        read_rows(file, difficulty=2)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([ROW], "it is no object"),
        (ROW | {"prompt": None}, "its prompt must be"),
        (ROW | {"prompt": []}, "its prompt must be"),
        (ROW | {"prompt": [{"role": "user"}]}, "its prompt must be"),
        (ROW | {"prompt": ["Which?"]}, "its prompt must be"),
        (ROW | {"reference": None}, "its reference (or answer) must be a text"),
        (ROW | {"reference": {"steps": []}}, "its reference (or answer) must be a text"),
        ({"prompt": MESSAGES}, "its reference (or answer) must be a text"),
        (ROW | {"info": "{}"}, "its info must be an object"),
    ],
    ids=["list", "null", "no messages", "no content", "texts", "no reference", "object", "no column", "info"],
)
def test_a_line_that_is_no_row_is_named(tmp_path: Path, record: Any, message: str) -> None:
    file = written(tmp_path / "rows.jsonl", ROW, record)
    with pytest.raises(ValueError, match=re.escape(f"{file}:2: not a row of assay prepare: {message}")):
        read_rows(file)


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('\n{"prompt"\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"rows\.jsonl:2: not a row"):
        read_rows(tmp_path / "rows.jsonl")


def test_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_ROWS", raising=False)
    with pytest.raises(ValueError, match="set ASSAY_ROWS"):
        read_rows()
    with pytest.raises(FileNotFoundError, match=r"test\.jsonl"):
        read_rows(tmp_path)
    (tmp_path / "test.parquet").touch()
    for path in (tmp_path, tmp_path / "test.parquet"):
        with pytest.raises(ValueError, match="rows as Parquet"):
            read_rows(path)
    with pytest.raises(ValueError, match="has no row"):
        read_rows(written(tmp_path / "empty.jsonl"))


def expected(one: Any) -> tuple[float, str, float, str]:
    return one.reward, one.reason, one.passed, one.task


@pytest.fixture
def at(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_URL", server.url)


@pytest.mark.usefixtures("at")
def test_scores_of_rows_of_several_tasks() -> None:
    """From one request, and from concurrent calls of one response each."""
    responses = [one.response for one in ROWS]

    async def one_by_one() -> list[Scored]:
        calls = [score_response_async(*pair, OPTIONS) for pair in zip(MIXED, responses, strict=True)]
        return list(await asyncio.gather(*calls))

    found = score_responses(MIXED, responses, OPTIONS)
    assert [expected(score) for score in found] == [expected(one) for one in ROWS]
    assert found == asyncio.run(score_responses_async(MIXED, responses, OPTIONS)) == asyncio.run(one_by_one())
    assert set(found[1].components) == {"accuracy", "brier", "confidence"}
    assert score_responses([], []) == []


@pytest.mark.usefixtures("at")
def test_scores_of_rows_of_one_task_have_the_same_components() -> None:
    (score,) = score_responses(MIXED[:1], [ROWS[0].response])
    assert "semantics" in score.components
    assert "accuracy" not in score.components


@pytest.mark.usefixtures("at")
def test_an_invalid_reference_names_the_row() -> None:
    wrong = PreparedRow(MESSAGES, '{"wrong_steps": 5}', "bioprobench.ord", "row 99")
    with pytest.raises(InvalidReference, match="record row 99"):
        score_responses([MIXED[0], wrong], ["x", "y"])
    with pytest.raises(InvalidReference, match="record row 99"):
        asyncio.run(score_response_async(wrong, "y"))


def test_a_service_that_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "0.2")
    with pytest.raises(Unavailable):
        score_responses(MIXED[:1], ["x"])


@pytest.mark.usefixtures("at")
def test_the_snippet_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    readme = (ROOT / "environments" / "README.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    rows = [
        ROW | {"reference": one.reference_text, "task": one.task, "type": "planning"}
        for one in ROWS
        if one.task == "score"
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prepared").mkdir()
    written(tmp_path / "prepared" / "test.jsonl", *rows)
    model = SimpleNamespace(generate=lambda messages: ROWS[0].response)
    monkeypatch.setitem(sys.modules, "my_package", model)
    exec(compile(snippet, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["1.0 ok True"] * len(rows)
