"""`assay score` for references with alternatives, and its column of steps; the bits: tests/rewards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay import Scorer
from assay.service.scoring.references import NOT_OF_SCORE
from tests.files.any_format import COLUMNAR, FORMATS, read, read_table, write, write_table
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED

OTHER = REFERENCE.replace("add", "wash")
INCLUDE = ("--include", "steps")


@pytest.mark.parametrize("source", FORMATS)
def test_faults_name_the_row_and_the_alternative(score, tmp_path: Path, source: str) -> None:
    references: list[list[Any]] = [
        [OTHER, REFERENCE],
        [],
        [REFERENCE, "x", OTHER, ""],
        [REFERENCE] * 17,
        [REFERENCE, None],
    ]
    rows = [{"response": PERFECT, "reference": reference} for reference in references]
    table, said = score(rows, *INCLUDE, code=1, source=source, target=source)
    assert [row.get("alternative") for row in table] == [1, None, None, None, None]
    assert [row["error"]["reason"] for row in table[1:]] == [
        "no_alternatives",
        "bad_step_line",
        "too_many",
        "wrong_type",
    ]
    details = [row["error"]["detail"] for row in table[1:]]
    line, nothing = (
        "line 1 is not of the form 'Step N: {...}'",
        "it has no step: a line such as 'Step 1: {...}' is needed",
    )
    assert details[1] == f"reference.any_of[1]: {line}; reference.any_of[3]: {nothing}"
    assert details[3].startswith("reference.any_of[1]: ")
    place = f"{tmp_path / 'in.jsonl'}:3" if source == "jsonl" else f"{tmp_path / ('in.' + source)}#3"
    assert f"{place}: {details[1]} (bad_step_line)" in said


@pytest.mark.parametrize("target", FORMATS)
def test_equal_lists_are_a_group(score, target: str) -> None:
    """In JSON, an array is any_of; a text is another reference."""
    references = [[OTHER, REFERENCE], {"any_of": [OTHER, REFERENCE]}, [REFERENCE, OTHER], [REFERENCE, OTHER], REFERENCE]
    rows = [
        {"response": response, "reference": reference}
        for response, reference in zip([PERFECT, SWAPPED, PERFECT, PERFECT, SWAPPED], references, strict=True)
    ]
    table, _ = score(rows, "--include", "advantages", target=target)
    half = 0.5**0.5
    assert [row["advantage"] for row in table] == pytest.approx([half, -half, 0, 0, 0])
    if target in ("json", "jsonl"):
        assert [row["reference"] for row in table] == references
    else:  # one type for all
        lists = [reference if isinstance(reference, list) else [REFERENCE] for reference in references]
        assert [row["reference"] for row in table] == [lists[0], [OTHER, REFERENCE], *lists[2:]]


@pytest.mark.parametrize("kind", ["list", "large_list", "dictionaries", "steps", "struct", "any_of"])
def test_types_of_columns(call, tmp_path: Path, kind: str) -> None:
    """With nulls in the fields that other rows have."""
    steps = [{"steps": REFERENCE_STEPS, "any_of": None} for REFERENCE_STEPS in (STEPS["steps"][:1], STEPS["steps"])]
    texts, index = [[OTHER, REFERENCE], [REFERENCE]], [1, 0]
    columns: dict[str, Any] = {
        "list": lambda: pa.array(texts),
        "large_list": lambda: pa.array(texts, pa.large_list(pa.large_string())),
        "dictionaries": lambda: pa.array(texts, pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        "steps": lambda: pa.array([[{"steps": step["steps"]} for step in steps], [STEPS]]),
        "struct": lambda: pa.array([{"any_of": texts[0]}, {"any_of": texts[1]}]),
        "any_of": lambda: pa.array([{"any_of": [steps[0] | {"any_of": None}, STEPS]}, {"any_of": [STEPS]}]),
    }
    table = pa.table({"response": [PERFECT, PERFECT], "reference": columns[kind]()})
    source, target = write_table(tmp_path / "in.parquet", table), tmp_path / "out.arrow"
    done = call("score", source, "-o", target, *INCLUDE)
    assert done.exit_code == 0, done.output
    rows = read_table(target)
    assert rows["alternative"].to_pylist() == index
    assert rows["reward"].to_pylist() == [1.0, 1.0]
    assert rows["steps"].to_pylist() == list(Scorer().score([PERFECT] * 2, [REFERENCE], steps=True).steps or ())


@pytest.mark.parametrize("target", [*FORMATS, "arrows", "feather"])
def test_steps_of_rows_without_an_error(score, tmp_path: Path, target: str) -> None:
    rows = [
        {"response": PERFECT, "reference": REFERENCE},
        {"response": "no", "reference": "x"},
        {"response": "no", "reference": OTHER},
    ]
    table, _ = score(rows, *INCLUDE, code=1, target=target)
    steps = (Scorer().score([PERFECT], [REFERENCE], steps=True).steps or [])[0]
    assert [(row.get("steps"), row.get("alternative")) for row in table] == [(steps, 0), (None, None), ([], 0)]
    if target in COLUMNAR:
        schema = read_table(tmp_path / f"out.{target}").schema
        names = "start", "end", "orc_start", "orc_end", "coverage", "reference", "value"
        kinds = [pa.float64() if name in ("coverage", "value") else pa.int64() for name in names]
        assert schema.field("steps").type == pa.list_(pa.struct(list(zip(names, kinds, strict=True))))
        assert schema.field("alternative").type == pa.int64()


@pytest.mark.parametrize("fmt", ["jsonl", "parquet"])
def test_a_field_with_the_name_of_a_result_is_never_overwritten(call, tmp_path: Path, fmt: str) -> None:
    """Unless it is a result of an earlier run."""
    row = {"response": PERFECT, "reference": REFERENCE, "steps": 7}
    source, target = write(tmp_path / f"in.{fmt}", [row]), tmp_path / f"out.{fmt}"
    done = call("score", source, "-o", target, *INCLUDE)
    assert (done.exit_code, "names of results: steps" in done.stderr) == (2, True)
    assert call("score", source, "-o", target).exit_code == 0
    assert read(target)[0]["steps"] == 7
    again = tmp_path / f"again.{fmt}"
    scored = write(tmp_path / f"first.{fmt}", [{name: row[name] for name in ("response", "reference")}])
    for flags, names in ((INCLUDE, {"steps", "alternative"}), (INCLUDE, {"steps", "alternative"}), ((), set())):
        assert call("score", scored, "-o", again, *flags).exit_code == 0
        (table,) = read(again)
        assert set(table) == {"response", "reference", "reward", "reason"} | names
        scored = again.rename(tmp_path / f"scored.{fmt}")


def test_requests(score) -> None:
    """The reply, or rows of it."""
    request = {"responses": [PERFECT, SWAPPED], "references": [{"any_of": [OTHER, STEPS]}]}
    expected = Scorer().score(**request, steps=True)
    reply, _ = score(request, *INCLUDE, source="json", target="json")
    assert (reply["steps"], reply["alternative"]) == (list(expected.steps), expected.alternative.tolist())
    for target in ("jsonl", "parquet"):
        rows, _ = score(request, *INCLUDE, source="json", target=target)
        assert [row["steps"] for row in rows] == list(expected.steps)
        assert [row["alternative"] for row in rows] == expected.alternative.tolist()
    listed, _ = score(request | {"references": [[OTHER, STEPS]]}, *INCLUDE, source="json", target="json")
    assert listed == reply
    _, said = score(request | {"references": [[OTHER, 5]]}, code=1, source="json")
    assert "references[0].any_of[1]: must be a string" in said


@pytest.mark.parametrize("source", ["jsonl", "parquet"])
def test_rows_of_several_tasks(score, source: str) -> None:
    question = {"task": "bioprobench.pqa", "response": "[ANSWER_START]5 ml & 80[ANSWER_END]"}
    rows = [
        {"task": "score", "response": PERFECT, "reference": [OTHER, REFERENCE]},
        question | {"reference": ["5 ml"] if source == "parquet" else {"any_of": ["5 ml"]}},
        {"task": "score", "response": SWAPPED, "reference": [REFERENCE]},
    ]
    table, said = score(rows, "--task-field", "task", *INCLUDE, code=1, source=source)
    assert [row.get("alternative") for row in table] == [1, None, 0]
    assert table[1]["error"]["reason"] == "bad_reference"
    assert source == "parquet" or f"reference of bioprobench.pqa: {NOT_OF_SCORE} (bad_reference)" in said
    assert [len(row["steps"]) for row in table[::2]] == [2, 2]


def test_every_command_reads_lists(call, tmp_path: Path) -> None:
    """Of texts, and of structs with nulls."""
    lists: list[list[Any]] = [[OTHER, REFERENCE], [{"steps": STEPS["steps"]}, {"steps": STEPS["steps"][:1]}]]
    structs = pa.array([[{"steps": alternative["steps"], "any_of": None} for alternative in lists[1]]] * 2)
    for references in lists:
        rows = [{"response": text, "reference": references, "prompt": "How?"} for text in (PERFECT, SWAPPED)]
        sources = [write(tmp_path / f"in.{fmt}", rows) for fmt in FORMATS]
        table = pa.table({"response": [PERFECT, SWAPPED], "reference": structs, "prompt": ["How?"] * 2})
        for source in [*sources, write_table(tmp_path / "structs.parquet", table)]:
            done = call("explain", source, "--json")
            assert done.exit_code == 0, done.output
            assert json.loads(done.stdout)["reward"] == 1.0
            done = call("ablate", source, "--json", "-", "-q")
            assert done.exit_code == 0, done.output
            assert json.loads(done.stdout)["groups"] == {"number": 1, "of_two_or_more": 1}
            assert call("check", source, "-q").exit_code == 0
            scored, chosen = tmp_path / "scored.parquet", tmp_path / "chosen.jsonl"
            done = call("score", source, "-o", scored, "--include", "steps", "--html", tmp_path / "report.html")
            assert done.exit_code == 0, done.output
            assert call("select", scored, "--best", "-o", chosen, "-q").exit_code == 0
            (best,) = read(chosen)
            assert (best["reward"], len(best["steps"])) == (1.0, 2)


def test_a_row_with_many_alternatives_is_read_in_pieces(call, tmp_path: Path) -> None:
    """Row groups of a file are read one after the other."""
    table = pa.table({"response": [PERFECT] * 5000, "reference": [[OTHER] * 15 + [REFERENCE]] * 5000})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=3000)
    done = call("score", tmp_path / "in.parquet", "-o", tmp_path / "out.parquet", "--include", "steps,advantages", "-q")
    assert done.exit_code == 0, done.output
    rows = read_table(tmp_path / "out.parquet")
    assert set(rows["alternative"].to_pylist()) == {15}
    assert rows["advantage"].to_pylist() == [0.0] * 5000
