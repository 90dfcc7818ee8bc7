"""NaN, which Python and pandas write beside texts, is read by every command as null."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.service.records.files.opening import with_nulls
from tests.command_line import KEY_LINE, RESPONSE, read_rows

ROW: dict[str, Any] = {"id": "a", "prompt": "p", "response": RESPONSE, "reference": KEY_LINE, "reward": 1.0}
UNUSED = {"loss": float("nan"), "task": None, "more": [float("inf"), {"x": float("-inf")}]}

COMMANDS = {
    "ablate": ("ablate", "-q"),
    "check": ("check", "-q"),
    "evaluate": ("evaluate", "-q"),
    "explain": ("explain", "-q"),
    "score": ("score", "-q"),
    "select": ("select", "--best", "-q"),
}


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
@pytest.mark.parametrize("name", COMMANDS)
def test_nan_in_an_unused_field_does_no_harm(call, tmp_path: Path, name: str, ending: str) -> None:
    unused = UNUSED if ending != "parquet" else {"loss": float("nan")}
    command, *flags = COMMANDS[name]
    source = written(tmp_path / f"rows.{ending}", [ROW | unused, ROW | {"id": "b"} | unused])
    done = call(command, source, *flags)
    assert (done.exit_code, "NaN" in done.stdout) == (0, False), done.stderr


@pytest.mark.parametrize("field", ["response", "reference"])
@pytest.mark.parametrize("ending", ["jsonl", "json"])
@pytest.mark.parametrize("name", ["ablate", "score"])
def test_nan_in_place_of_a_text_is_an_error_of_its_row(
    call, tmp_path: Path, name: str, ending: str, field: str
) -> None:
    command, *flags = COMMANDS[name]
    source = written(tmp_path / f"rows.{ending}", [ROW, ROW | {field: float("nan")}])
    done = call(command, source, *flags)
    assert done.exit_code == 1
    assert f"{source}{':' if ending == 'jsonl' else '#'}2: " in done.stderr


def test_a_row_is_written_with_null(call, tmp_path: Path) -> None:
    call("score", written(tmp_path / "rows.jsonl", [ROW | UNUSED]), "-o", tmp_path / "out.jsonl", "-q")
    (row,) = read_rows(tmp_path / "out.jsonl")
    assert (row["loss"], row["more"], row["reward"]) == (None, [None, {"x": None}], 1.0)
    single = tmp_path / "row.json"
    single.write_text(json.dumps(ROW | UNUSED, indent=1))
    assert call("explain", single).exit_code == call("score", single, "-q").exit_code == 0


@pytest.mark.parametrize("text", [b'{"a": "NaN"}', b'{"a": NaN', b'{"a": NaN, "b": "\\ud800"}', b"nan", b"{}"])
def test_other_texts_stay(text: bytes) -> None:
    assert with_nulls(text) is text
