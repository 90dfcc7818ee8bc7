"""`assay prepare`: records in, the rows of a training run, their manifest and their figures out."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from assay.research.prepare.split import split_digest
from assay.research.prepare.summary import RowStatistics
from assay.service import terminal
from assay.service.explain.reading import ReadStep
from assay.service.records.rows.shapes import forms_with_examples
from assay.service.rewards.scorer import Scorer
from assay.service.tables.table import Table
from tests.command_line import read_rows, write_rows
from tests.files.any_format import FORMATS, read, write
from tests.prepare.by_hand import DRY, RINSE, choice, protocol
from tests.prepare.published import ERR, GEN, ORD, PROTOCOL

ACTIONS = ("rinse", "dry", "store", "label", "weigh", "wipe")


def steps(n: int) -> list[dict[str, Any]]:
    """Steps with more than eight words that no other record has."""
    actions = [ACTIONS[n % 6], ACTIONS[(n + 1) % 6]][: 1 + n % 2]
    objects, parameters = [f"vessel{n}", f"rack{n}", f"lid{n}"], [f"{n}0 ml of buffer{n}", "2 h"]
    return [{"action": action, "objects": objects, "parameters": parameters} for action in actions]


def record(n: int, **fields: Any) -> dict[str, Any]:
    topic = f"vessel{n} with reagent{n} after assay{n} number {n}"
    return {"id": f"r{n}", "question": f"How is {topic} handled?", "type": "planning", "steps": steps(n), **fields}


RECORDS = [record(n) for n in range(20)]
PQA = {"id": "q", "question": "Add ____ of buffer.", "choices": ["2 ml", "5 ml"], "answer": "5 ml", "type": "parameter"}


def manifest(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "assay.json").read_bytes())
    return document


def written(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of both splits."""
    files = (folder / f"{split}.jsonl" for split in ("train", "test"))
    return [row for file in files if file.exists() for row in read_rows(file)]


def sides(folder: Path) -> dict[str, str]:
    """The split of each row by its id."""
    return {row["id"]: row["split"] for row in written(folder)}


Prepare = Callable[..., Result]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def prepare(call: Callable[..., Result], tmp_path: Path, out: Path) -> Prepare:
    """Return a function that prepares records, or the files of a path."""

    def prepare(records: Any, *flags: Any, to: Path = out, status: int = 0) -> Result:
        source = records if isinstance(records, Path) else write_rows(tmp_path / "records.jsonl", records)
        done = call("prepare", source, *flags, "-o", to)
        assert done.exit_code == status, done.output
        return done

    return prepare


def test_rows_their_files_and_the_manifest(prepare: Prepare, tmp_path: Path) -> None:
    source, out = write_rows(tmp_path / "records.jsonl", [*RECORDS, PQA]), tmp_path / "new" / "rows"
    assert prepare(source, to=out).stderr == ""
    train, test = (read_rows(out / f"{split}.jsonl") for split in ("train", "test"))
    order = [entry["id"] for entry in [*RECORDS, PQA]]
    for rows in (train, test):
        assert [row["id"] for row in rows] == sorted((row["id"] for row in rows), key=order.index)
    assert (len(train), len(test)) == (19, 2)
    names = ["prompt", "reference", "id", "task", "group", "level", "type", "split"]
    assert all(list(row) == names for row in train + test)
    document = manifest(out)
    assert document["sources"] == [
        {"name": source.name, "sha256": sha256(source.read_bytes()).hexdigest(), "records": 21, "held_out": False}
    ]
    assert document["files"] == [
        {
            "split": split,
            "path": f"{split}.jsonl",
            "rows": len(rows),
            "groups": len(rows),
            "sha256": sha256((out / f"{split}.jsonl").read_bytes()).hexdigest(),
        }
        for split, rows in (("train", train), ("test", test))
    ]
    assert document["split_sha256"] == split_digest((row["group"], row["id"], row["split"]) for row in train + test)
    assert (document["read"], document["written"], document["renamed_ids"]) == (21, 21, 0)
    assert document["groups"] == {"groups": 21, "largest": 1, "of_one": 21}
    assert document["left_out"] == {"counts": {}, "records": []}


def test_the_rows_get_the_rewards_that_they_promise(prepare: Prepare, tmp_path: Path) -> None:
    """An answer to learn gets the full reward with its own row's reference, the text that trainers send, and task."""
    records = [*RECORDS[:3], PQA, ORD, ERR, GEN, PROTOCOL]
    taught, asked = tmp_path / "taught", tmp_path / "asked"
    prepare(records, "--stage", "supervised", "--test", "0", to=taught)
    prepare(records, "--test", "0", to=asked)
    answers = [row["completion"][0]["content"] for row in read_rows(taught / "train.jsonl")]
    rows = read_rows(asked / "train.jsonl")
    references, tasks = [row["reference"] for row in rows], [row["task"] for row in rows]
    options = {"lexical": {"reward": "rouge_l"}}
    scores = Scorer().score(answers, references, range(8), task=tasks, task_options=options)
    assert scores.rewards.tolist() == pytest.approx([1.0] * 8)
    assert not (asked / "test.jsonl").exists()


def test_the_same_records_give_the_same_bytes(prepare: Prepare, tmp_path: Path) -> None:
    first, two, other = (tmp_path / name for name in ("one", "two", "other"))
    for folder, seed in ((first, 3), (two, 3), (other, 4)):
        prepare(RECORDS, "--seed", seed, to=folder)
    for file in ("train.jsonl", "test.jsonl", "assay.json"):
        assert (first / file).read_bytes() == (two / file).read_bytes()
    assert sides(other) != sides(first)
    assert manifest(other)["split_sha256"] != manifest(first)["split_sha256"]


def test_every_output_format(prepare: Prepare, tmp_path: Path) -> None:
    for form in FORMATS:
        prepare(RECORDS, "--output-format", form, to=tmp_path / form)
        for split in ("train", "test"):
            assert read(tmp_path / form / f"{split}.{form}") == read_rows(tmp_path / "jsonl" / f"{split}.jsonl")


def test_records_that_are_held_out(prepare: Prepare, call: Callable[..., Result], tmp_path: Path, out: Path) -> None:
    """They are the split test; whatever shares a group with one is left out, which is no fault."""
    (tmp_path / "data").mkdir()
    held_out = write_rows(tmp_path / "data" / "eval.jsonl", RECORDS[:2])
    more = write_rows(tmp_path / "data" / "more.jsonl", [*RECORDS[2:], record(1, id="copy")])
    done = prepare(tmp_path / "data", "--hold-out", held_out)
    assert sides(out) == {**{f"r{n}": "train" for n in range(2, 20)}, "r0": "test", "r1": "test"}
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{more}:19: ")
    assert line.endswith("(in_held_out_group)")
    document = manifest(out)
    assert [source["held_out"] for source in document["sources"]] == [False, True]
    assert (document["read"], document["written"], document["left_out"]["counts"]) == (21, 20, {"in_held_out_group": 1})
    refused = prepare(held_out, "--hold-out", held_out, "--test", "0.1", status=2)
    assert "exclude each other" in refused.stderr
    assert "warning: the split train is empty" in prepare(held_out, "--hold-out", held_out).stderr
    assert not (out / "train.jsonl").exists()
    assert call("prepare", "--hold-out", held_out, "-o", out).stderr == ""
    assert sides(out) == {"r0": "test", "r1": "test"}
    assert "name the records" in call("prepare", "-o", out).stderr
    held_out.write_bytes(b"no json\n")
    assert "warning: the split test is empty" in prepare(RECORDS, "--hold-out", held_out, status=1).stderr
    assert [path.name for path in sorted(out.iterdir())] == ["assay.json", "train.jsonl"]


BAD = [b"no json", b"[1]", {"something": 1}, {"question": "How?", "steps": []}]


def test_records_with_a_fault_are_listed_and_left_out(
    prepare: Prepare, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to a limit for one reason; without any other record, nothing is written."""
    refused = prepare(BAD, status=2)
    assert refused.stderr.splitlines()[-1] == "Error: nothing is written: no row can be made of 4 records"
    assert not out.exists()
    done = prepare([*RECORDS, *BAD], status=1)
    listed = done.stderr.splitlines()
    assert listed[4:] == [*forms_with_examples()]
    listed = listed[:4]
    source = tmp_path / "records.jsonl"
    assert [line.removeprefix(f"{source}:").partition(":")[0] for line in listed] == ["21", "22", "23", "24"]
    document = manifest(out)
    left_out = document["left_out"]["records"]
    assert [f"{source}:{entry['line']}: {entry['detail']} ({entry['reason']})" for entry in left_out] == listed
    assert sum(document["left_out"]["counts"].values()) == 4
    assert (document["read"], document["written"]) == (24, 20)
    assert "records left out" in done.stdout
    assert sides(out).keys() == {entry["id"] for entry in RECORDS}
    monkeypatch.setattr(terminal, "MAX_LISTED", 2)
    listed = prepare([*RECORDS[:2], *[b"no json"] * 5], status=1).stderr.splitlines()
    omitted = "… and 3 more lines with the same problem: not_json (assay.json lists all)"
    assert (len(listed), listed[-1]) == (3, omitted)
    assert len(manifest(out)["left_out"]["records"]) == 5


def test_files_of_an_earlier_run_and_sources(prepare: Prepare, out: Path, tmp_path: Path) -> None:
    """A test split of other records would be a leak."""
    prepare(RECORDS)
    assert (out / "test.jsonl").exists()
    assert not prepare(RECORDS, "--test", "0").stderr
    assert sorted(path.name for path in out.iterdir()) == ["assay.json", "train.jsonl"]
    (tmp_path / "data").mkdir()
    source = write_rows(tmp_path / "data" / "train.jsonl", RECORDS)  # a source is not replaced
    before = source.read_bytes()
    assert str(source) in prepare(source.parent, to=source.parent, status=2).stderr
    assert [path.read_bytes() for path in source.parent.iterdir()] == [before]


def test_a_split_that_a_folder_names_is_kept_unless_a_share_is_asked_for(prepare: Prepare, tmp_path: Path) -> None:
    data, kept, named, new = (tmp_path / name for name in ("data", "kept", "named", "new"))
    data.mkdir()
    test = write_rows(data / "test.jsonl", RECORDS[:5])
    write_rows(data / "train.jsonl", [*RECORDS[5:], record(0, id="copy")])
    note = f"note: {test} is held out, as split test; --test SHARE would split it"
    assert prepare(data, to=kept).stderr.splitlines()[0] == note
    assert [name for name, split in sides(kept).items() if split == "test"] == [f"r{n}" for n in range(5)]
    assert manifest(kept)["left_out"]["counts"] == {"in_held_out_group": 1}
    assert note not in prepare(data, "--hold-out", test, to=named).stderr
    assert sides(named) == sides(kept)
    assert not prepare(data, "--test", "0.1", to=new).stderr
    assert manifest(new)["left_out"]["counts"] == {}
    assert sides(new) != sides(kept)


def test_a_split_in_a_field_of_records_is_kept_unless_a_share_is_asked_for(
    prepare: Prepare, tmp_path: Path, out: Path
) -> None:
    """As in one file of BioProBench's tasks; a split that is not one is not kept."""
    named = ["test", "validation", "Train", "odd", None]
    records = [{**entry, "split": named[n % 5]} for n, entry in enumerate(RECORDS)]
    source = write(tmp_path / "all.parquet", [*records, {**PQA, "split": "test"}])
    (note,) = prepare(source).stderr.splitlines()
    assert note == f"note: {source}: 9 records held out by the field 'split'; --test SHARE would split them"
    tested = {name for name, split in sides(out).items() if split == "test"}
    assert tested == {"q", *(entry["id"] for entry in records if entry["split"] in named[:2])}
    assert len(sides(out)) == 21
    assert not prepare(source, "--test", "0.1").stderr
    assert list(sides(out).values()).count("test") == 2


ROWS = [
    (protocol([RINSE, DRY], "How is it cleaned?", type="planning", level="1", answer="one two three"), "train"),
    (protocol([RINSE, DRY, RINSE, DRY], "How?", type="planning", level="2"), "train"),
    (protocol([ReadStep(" Dry ", (), ())], "How is it dried?", type="planning", level="1"), "test"),
    (choice(), "train"),
]


def test_the_figures_of_rows() -> None:
    document = RowStatistics(ROWS).document()
    keys = ("split", "task", "type", "level", "rows")
    assert [tuple(row[key] for key in keys) for row in document["rows"]] == [
        ("train", "bioprobench.pqa", None, None, 1),
        ("train", "score", "planning", "1", 1),
        ("train", "score", "planning", "2", 1),
        ("test", "score", "planning", "1", 1),
    ]
    assert document["steps"] == {
        "rows": 3,
        "mean": 7 / 3,
        "median": 2.0,
        "smallest": 1,
        "largest": 4,
        "histogram": {"1": 1, "2": 1, "4": 1},
    }
    assert document["words"]["question"] == {"rows": 4, "mean": 3.25, "median": 4.0, "smallest": 1, "largest": 4}
    # rinse beaker ethanol 70% 10 s; dry beaker 60 °c 1 h
    reference = {"rows": 4, "mean": (12 + 24 + 1 + 2) / 4, "median": 7.0, "smallest": 1, "largest": 24}
    assert document["words"]["reference"] == reference
    assert document["words"]["answer"] == {"rows": 1, "mean": 3.0, "median": 3.0, "smallest": 3, "largest": 3}
    assert document["words"]["text"] == {"rows": 0}
    assert document["actions"] == {
        "steps": 7,
        "distinct": 2,
        "most_frequent": [{"action": "dry", "steps": 4}, {"action": "rinse", "steps": 3}],
    }


def test_long_protocols_share_a_row_in_the_terminal() -> None:
    rows = [(protocol([DRY] * count), "train") for count in (12, 30, 2)]
    table = list(RowStatistics(rows).parts())[3]
    assert isinstance(table, Table)
    shown = [[str(cell) for cell in row] for row in table.cells]
    assert shown == [["2", "1", "33.3%"], ["12 or more", "2", "66.7%"]]
    assert RowStatistics(rows).document()["steps"]["histogram"] == {"2": 1, "12": 1, "30": 1}
    assert len(list(RowStatistics([(choice(), "train")]).parts())) == 2
    assert RowStatistics([]).document()["steps"] == {"rows": 0, "histogram": {}}
