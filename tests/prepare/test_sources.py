"""Sources are files of every format and folders: saved by `datasets`, downloaded from the hub, or of JSON files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from assay.research.prepare.examples import Example, PrepareOptions, open_examples
from assay.service.errors import UsageError
from assay.service.records.files.opening import SourceFile, expand
from assay.service.records.rows.rows import Fault, RowPlace
from tests.files.any_format import write as write_rows
from tests.prepare.published import ERR, EVAL, LAB, OWN, PQA, PROTOCOL, RIGHT, TRAIN

Read = list[Example | tuple[RowPlace, Fault]]


def read(*sources: Path) -> Read:
    items: Read = []
    for file in expand([str(source) for source in sources]):
        with open_examples(file, PrepareOptions()) as examples:
            items += examples
    return items


def ids_of(items: Read) -> list[str]:
    """Return the id of each record, or its place in its file if it has none."""
    return [
        item.id or item.place.location.within(Path(item.place.source).name)
        for item in items
        if isinstance(item, Example)
    ]


def write(path: Path, content: Any) -> Path:
    """Write text as it is, and rows or a document in the format of the extension."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
        return path
    return write_rows(path, content)


def saved(folder: Path, *shards: Sequence[dict[str, Any]], **state: Any) -> Path:
    """Write what `Dataset.save_to_disk` writes: Arrow streams, and the list of them."""
    folder.mkdir(parents=True)
    names = [f"data-{k:05}-of-{len(shards):05}.arrow" for k in range(len(shards))]
    for name, rows in zip(names, shards, strict=True):
        table = pa.Table.from_pylist(list(rows))
        with pa.ipc.new_stream(folder / name, table.schema) as stream:
            stream.write_table(table)
    write(folder / "dataset_info.json", {"features": {}})
    write(folder / "state.json", {"_data_files": [{"filename": name} for name in names], "_split": None, **state})
    return folder


def numbered(*numbers: int) -> list[dict[str, Any]]:
    return [{**OWN, "id": number} for number in numbers]


# Files


@pytest.mark.parametrize(
    ("name", "content", "locations"),
    [
        ("a.jsonl", numbered(1, 2), ["line 1", "line 2"]),
        ("a.json", numbered(1, 2), ["record 1", "record 2"]),
        ("a.json", {"records": numbered(1, 2)}, ["record 1", "record 2"]),
        ("a.json", numbered(1)[0], ["record 1"]),
        ("a.JSON", "\ufeff \n" + json.dumps(numbered(1)[0]), ["record 1"]),
    ],
)
def test_json(tmp_path: Path, name: str, content: Any, locations: list[str]) -> None:
    rows = read(write(tmp_path / name, content))
    assert ids_of(rows) == [str(number) for number in range(1, len(locations) + 1)]
    places = [row.place for row in rows if isinstance(row, Example)]
    assert [f"{place.location.kind} {place.location.number}" for place in places] == locations
    assert {place.source for place in places} == {str(tmp_path / name)}


def test_columns_are_read_as_a_json_file_is(tmp_path: Path) -> None:
    records = [TRAIN, EVAL, PQA, LAB, ERR, RIGHT, PROTOCOL, OWN]
    for record in records:
        of_json, of_columns = read(write(tmp_path / "a.json", [record]), write(tmp_path / "a.parquet", [record]))
        assert isinstance(of_json, Example)
        assert isinstance(of_columns, Example)
        assert of_columns.place.location == ("row", 1)
        assert of_columns.replaced(place=of_json.place, id=of_json.id) == of_json

    row = {**OWN, "made": pa.scalar(0, pa.timestamp("s")).as_py(), "image": b"\x00"}  # values that JSON lacks
    (table,) = read(write(tmp_path / "a.parquet", [row]))
    assert isinstance(table, Example)
    assert (table.record["made"], table.record["image"]) == ("1970-01-01T00:00:00", "AA==")
    assert json.dumps(table.record)


# Folders


def test_a_folder_of_json_files(tmp_path: Path) -> None:
    for name in ("10", "9", "2"):
        write(tmp_path / "bioprot" / f"{name}.json", {**PROTOCOL, "id": name})
    write(tmp_path / "bioprot" / "README.md", "Protocols.")
    write(tmp_path / "bioprot" / ".cache" / "1.json", PROTOCOL)
    assert ids_of(read(tmp_path / "bioprot")) == ["10", "2", "9"]


def test_the_splits_of_a_saved_data_set(tmp_path: Path) -> None:
    """A file that is a source itself has the split that is chosen for it."""
    folder = saved(tmp_path / "unsplit", numbered(3, 1), [OWN])
    assert ids_of(read(folder)) == ["3", "1", "data-00001-of-00002.arrow#1"]
    assert [file.split for file in expand([str(folder)])] == [None, None]
    path = write(tmp_path / "test" / "test.jsonl", [OWN])
    assert expand([str(path)]) == [SourceFile(str(path), "jsonl")]
    for name, rows in (("train", [OWN]), ("test", numbered(2)), ("validation", numbered(3))):
        saved(tmp_path / "gels" / name, rows)
    write(tmp_path / "gels" / "dataset_dict.json", {"splits": ["train", "test", "validation"]})
    files = expand([str(tmp_path / "gels")])
    assert [file.split for file in files] == ["test", "train", "validation"]
    assert ids_of(read(tmp_path / "gels")) == ["2", "data-00000-of-00001.arrow#1", "3"]


def test_a_downloaded_snapshot(tmp_path: Path) -> None:
    write(tmp_path / "hub" / "data" / "train-00000-of-00001.parquet", [TRAIN])
    write(tmp_path / "hub" / "eval" / "test.parquet", [EVAL])
    write(tmp_path / "hub" / "test" / "all.parquet", numbered(5))
    write(tmp_path / "hub" / "gels_test.jsonl", numbered(6))
    write(tmp_path / "hub" / "latest.jsonl", numbered(8))
    write(tmp_path / "hub" / "dataset_infos.json", {"default": {}})
    write(tmp_path / "hub" / "assay.json", {"assay": "1"})
    files = expand([str(tmp_path / "hub")])
    assert [(Path(file.path).name, file.format, file.split) for file in files] == [
        ("train-00000-of-00001.parquet", "parquet", "train"),
        ("test.parquet", "parquet", "test"),
        ("gels_test.jsonl", "jsonl", "test"),
        ("latest.jsonl", "jsonl", None),
        ("all.parquet", "parquet", "test"),
    ]
    assert ids_of(read(tmp_path / "hub")) == ["train-00000-of-00001.parquet#1", "7", "6", "8", "5"]


def refusal(*sources: Path) -> str:
    with pytest.raises(UsageError) as refused:
        expand([str(source) for source in sources])
    return str(refused.value)


def test_sources_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    known = (".jsonl", ".ndjson", ".feather", ".json", ".parquet", ".arrow", ".arrows")
    text, path = write(tmp_path / "a.txt", ""), write(tmp_path / "a.jsonl", "")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refusal(tmp_path / "none") == f"{tmp_path}/none: there is no such file or folder"
    assert refusal(text).startswith(f"{text}: the extension is not one of ")
    assert refusal(empty).startswith(f"{empty}: no file in this folder ends in ")
    assert refusal(path, tmp_path) == f"{path}: this file is named twice"
    assert all(extension in refusal(text) for extension in known)
