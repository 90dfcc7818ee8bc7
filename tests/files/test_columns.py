"""`assay score` and `assay check` for Parquet and Arrow: results like JSONL, other columns unchanged."""

from __future__ import annotations

import datetime
import decimal
import importlib.util
from pathlib import Path

import pyarrow as pa
import pytest

from assay import Scorer
from assay.kernels.score import COMPONENTS
from assay.service.cli.main import main
from tests.command_line import KEY_LINE, RESPONSE, RUNNER, read_rows, write_rows
from tests.files.any_format import COLUMNAR
from tests.files.any_format import read_table as read
from tests.files.any_format import write_table as write

TIMES = 130
BOTH = ["--include", "components,advantages"]


@pytest.fixture(scope="module")
def many(example_rollouts) -> list[dict]:
    """More rows than fit into one piece, with groups that pieces split."""
    return [{**rollout, "row": k} for k, rollout in enumerate(example_rollouts * TIMES)]


@pytest.fixture(scope="module")
def expected(tmp_path_factory, many) -> list[dict]:
    """Return the results for JSONL, as rows of columns."""
    folder = tmp_path_factory.mktemp("expected")
    source, target = write_rows(folder / "in.jsonl", many), folder / "out.jsonl"
    result = RUNNER.invoke(main, ["score", str(source), "-o", str(target), *BOTH])
    assert result.exit_code == 0, result.stderr
    rows = read_rows(target)
    return [{**{name: row[name] for name in row if name != "components"}, **row["components"]} for row in rows]


@pytest.mark.parametrize(
    ("ending", "kind"),
    [*((ending, "dictionary") for ending in COLUMNAR), *(("arrow", kind) for kind in ("string", "large", "views"))],
)
def test_columns_have_the_bits_of_jsonl(call, tmp_path: Path, many, expected, ending: str, kind: str) -> None:
    table = pa.Table.from_pylist(many)
    text = {"string": pa.string(), "large": pa.large_string(), "views": pa.string_view()}.get(kind, pa.string())
    for name in ("response", "reference"):
        k = table.schema.get_field_index(name)
        column = table[name].cast(text)
        table = table.set_column(k, name, column.dictionary_encode() if kind == "dictionary" else column)
    target = tmp_path / f"out.{ending}"
    try:
        source = write(tmp_path / f"in.{ending}", table, 1_100)
    except pa.ArrowNotImplementedError:
        pytest.skip("this pyarrow has no such columns in files of this kind")
    result = call("score", source, "-o", target, *BOTH)
    assert result.exit_code == 0, result.stderr
    assert f"scored       {len(many):,}" in result.stderr
    rows = read(target)
    assert rows.schema.names == [*table.schema.names, "reward", "reason", *COMPONENTS, "advantage"]
    assert rows.select(table.schema.names).to_pylist() == many
    assert rows.to_pylist() == expected
    assert all(rows.schema.field(name).type == pa.float64() for name in ("reward", *COMPONENTS, "advantage"))
    assert [field.type for field in rows.schema][: len(table.schema)] == [field.type for field in read(source).schema]


def test_dictionaries_that_change_from_batch_to_batch(call, tmp_path: Path) -> None:
    def batch(responses, references):
        column = pa.array(references).dictionary_encode()
        return pa.record_batch({"response": pa.array(responses), "reference": column})

    other = KEY_LINE.replace("add", "spin")
    batches = [batch([RESPONSE, "x"], [KEY_LINE, other]), batch([RESPONSE] * 2, [other, KEY_LINE])]
    source = tmp_path / "in.arrows"
    with pa.ipc.new_stream(source, batches[0].schema) as writer:
        for each in batches:
            writer.write_batch(each)
    for ending in COLUMNAR:
        target = tmp_path / f"out.{ending}"
        assert call("score", source, "-o", target).exit_code == 0
        assert [bool(reward) for reward in read(target)["reward"].to_pylist()] == [True, False, False, True]
        assert read(target)["reference"].to_pylist() == [KEY_LINE, other, other, KEY_LINE]


@pytest.mark.parametrize("ending", COLUMNAR)
def test_every_fault_is_listed_and_written_without_affecting_others(call, tmp_path: Path, ending: str) -> None:
    rows = [
        (RESPONSE, KEY_LINE, None),
        (None, KEY_LINE, "not_a_string"),
        (RESPONSE, None, "wrong_type"),
        (None, None, "not_a_string"),
        (RESPONSE, "add pbs", "bad_step_line"),
        (RESPONSE, "", "no_steps"),
        (RESPONSE, KEY_LINE + " " * 300_000, "too_long"),
        ("nothing", KEY_LINE, None),
    ]
    references = pa.array([row[1] for row in rows]).dictionary_encode()
    table = pa.table({"response": [row[0] for row in rows], "reference": references, "id": list(range(8))})
    source, target = write(tmp_path / f"in.{ending}", table, 3), tmp_path / f"out.{ending}"
    result = call("score", source, "-o", target, *BOTH)
    assert result.exit_code == 1
    scored = read(target)
    assert scored.schema.names == ["response", "reference", "id", "reward", "reason", *COMPONENTS, "advantage", "error"]
    errors = scored["error"].to_pylist()
    assert [error and error["reason"] for error in errors] == [row[2] for row in rows]
    listed = [line for line in result.stderr.splitlines() if line.startswith(f"{source}#")]
    assert listed == [f"{source}#{e['row']}: {e['detail']} ({e['reason']})" for e in errors if e]
    assert [error["row"] for error in errors if error] == [2, 3, 4, 5, 6, 7]
    for name in ("reward", "reason", *COMPONENTS, "advantage"):
        assert scored[name].is_null().to_pylist() == [row[2] is not None for row in rows], name
    assert scored["reward"].to_pylist()[0] == 1.0
    assert scored["advantage"].to_pylist()[0] == pytest.approx(0.5**0.5)
    lines = tmp_path / "out.jsonl"
    assert call("score", source, "-o", lines).exit_code == 1
    assert [row.get("error") for row in read_rows(lines)] == errors


def test_values_of_every_kind_in_json_rows(call, tmp_path: Path) -> None:
    varied = [
        {"n": 1, "wide": 2**60 + 1, "mixed": 5, "list": [], "rest": {"a": 1}, "big": 2**80, "none": None, "e": {}},
        {"n": 0.5, "wide": 0.5, "mixed": "é", "list": [1.5], "rest": {"b": [True]}, "big": 1, "late": "x"},
    ]
    rows = [{**fields, "response": RESPONSE, "reference": KEY_LINE} for fields in varied for _ in range(1500)]
    first = {"n": 1.0, "wide": str(2**60 + 1), "mixed": "5", "list": [], "rest": {"a": 1, "b": None}}
    first |= {"big": str(2**80), "none": None, "e": "{}", "late": None}
    last = {"n": 0.5, "wide": "0.5", "mixed": "é", "list": [1.5], "rest": {"a": None, "b": [True]}}
    last |= {"big": "1", "none": None, "e": None, "late": "x"}
    source = write_rows(tmp_path / "in.jsonl", rows)
    for target in (tmp_path / "out.parquet", tmp_path / "out.arrow"):
        assert call("score", source, "-o", target).exit_code == 0
        table = read(target).to_pylist()
        assert [{name: row[name] for name in first} for row in (table[0], table[-1])] == [first, last]


def test_other_columns_and_metadata_stay(call, tmp_path: Path) -> None:
    table = pa.table(
        {
            "time": pa.array([1_600_000_000_123_456_789], pa.timestamp("ns", "UTC")),
            "amount": pa.array([decimal.Decimal("1.50")]),
            "raw": pa.array([b"\xff\x00"]),
            "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
            "day": pa.array([datetime.date(2020, 1, 2)]),
            "colour": pa.array(["red"]).dictionary_encode(),
            "nan": pa.array([float("nan")]),
            "reward": pa.array([-5]),
            "reason": pa.array(["old"]),
            "error": pa.array(["old"]),
            "response": [RESPONSE],
            "reference": [KEY_LINE],
        }
    ).replace_schema_metadata({"mine": "kept"})
    kept = [name for name in table.schema.names if name not in ("reward", "reason", "error")]
    for ending in COLUMNAR:
        source, target = write(tmp_path / f"in.{ending}", table), tmp_path / f"out.{ending}"
        assert call("score", source, "-o", target).exit_code == 0
        rows = read(target)
        assert rows.schema.names == [*kept, "reward", "reason"]
        assert rows.select(kept).drop_columns("nan").equals(read(source).select(kept).drop_columns("nan"))
        assert rows.schema.metadata[b"mine"] == b"kept"
        assert rows.schema.metadata[b"signature"].decode() == Scorer().signature
        assert rows["reward"].to_pylist() == [1.0]
    lines = tmp_path / "out.jsonl"
    assert call("score", source, "-o", lines).exit_code == 0
    (row,) = read_rows(lines)
    assert row["time"].startswith("2020-09-13 12:26:40.123456789")
    assert (row["amount"], row["raw"], row["map"], row["day"]) == ("1.50", "/wA=", [["a", 1]], "2020-01-02")
    assert (row["colour"], row["nan"], row["reward"]) == ("red", None, 1.0)


@pytest.mark.parametrize("ending", COLUMNAR)
def test_a_damaged_file_leaves_the_earlier_output(call, tmp_path: Path, ending: str) -> None:
    rows = [{"response": RESPONSE, "reference": KEY_LINE}] * 9000
    source = write(tmp_path / f"in.{ending}", pa.Table.from_pylist(rows), 1000)
    target = tmp_path / f"out.{ending}"
    target.write_text("earlier")
    whole = source.read_bytes()
    for damaged in (whole[:4] + b"\xff" * 200 + whole[204:], b"", b"{}", whole[: len(whole) // 2]):
        source.write_bytes(damaged)
        result = call("score", source, "-o", target)
        assert result.exit_code == 2, result.output
        assert f"{source}: " in result.stderr
    assert call("check", source).exit_code == 2
    assert target.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"in.{ending}", f"out.{ending}"]


def test_without_pyarrow_a_command_installs_it(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "assay.service.records.files.opening.find_spec", lambda name: None if name == "pyarrow" else find(name)
    )
    lines = write_rows(tmp_path / "in.jsonl", [{"response": RESPONSE, "reference": KEY_LINE}])
    columns = write(tmp_path / "in.parquet", pa.table({"response": ["x"], "reference": [KEY_LINE]}))
    for arguments in (["score", columns], ["score", lines, "-o", tmp_path / "out.arrow"], ["check", columns]):
        result = call(*arguments)
        assert result.exit_code == 2
        assert "-m pip install 'pyarrow>=" in result.stderr
    assert call("score", lines, "-o", tmp_path / "out.json").exit_code == 0


def test_nothing_of_a_file_is_trusted(call, tmp_path: Path) -> None:
    source = write(tmp_path / "in.arrows", pa.table({"response": ["abcdef"], "reference": [KEY_LINE]}))
    source.write_bytes(source.read_bytes().replace(b"abcdef", b"ab\xff\xfeef"))
    result = call("score", source, "-o", tmp_path / "out.jsonl")
    assert result.exit_code == 2
    assert "UTF8" in result.stderr


def test_components_never_take_the_place_of_other_columns(call, tmp_path: Path) -> None:
    rows = [{"response": RESPONSE, "reference": KEY_LINE, "order": 17, "score": "mine"}]
    source, target = write(tmp_path / "in.parquet", pa.Table.from_pylist(rows)), tmp_path / "out.parquet"
    for path in (write_rows(tmp_path / "in.jsonl", rows), source):
        result = call("score", path, "-o", target, "--include", "components")
        assert (result.exit_code, "names of components: order, score" in result.stderr) == (2, True)
        assert not target.exists()
    assert call("score", source, "-o", target).exit_code == 0
    assert read(target)["order"].to_pylist() == [17]
