"""`assay prepare`: records in, the rows of a training run and their manifest out."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from assay.research.prepare.split import split_digest
from assay.service import terminal
from assay.service.rewards.scorer import Scorer
from assay.service.tasks.scirecipe_records import library_of
from tests.command_line import read_rows, write_rows
from tests.files.any_format import FORMATS, read
from tests.prepare.published import ERR, GEN, ORD, PROTOCOL, TRAIN

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
    found: dict[str, Any] = json.loads((folder / "prepared.json").read_bytes())
    return found


def written(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of both splits."""
    return [row for split in ("train", "test") for row in read_rows(folder / f"{split}.jsonl")]


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
    done = prepare(source, to=out)
    assert done.stderr == ""
    train, test = (read_rows(out / f"{split}.jsonl") for split in ("train", "test"))
    order = [one["id"] for one in [*RECORDS, PQA]]
    for rows in (train, test):
        assert [row["id"] for row in rows] == sorted((row["id"] for row in rows), key=order.index)
    assert (len(train), len(test)) == (19, 2)
    names = ["prompt", "reference", "id", "task", "group", "level", "type", "split"]
    assert all(list(row) == names for row in train + test)
    assert {row["split"] for row in train} == {"train"}
    assert {row["split"] for row in test} == {"test"}
    found = manifest(out)
    assert found["sources"] == [
        {"name": str(source), "sha256": sha256(source.read_bytes()).hexdigest(), "records": 21, "held_out": False}
    ]
    assert found["files"] == [
        {
            "split": split,
            "path": f"{split}.jsonl",
            "rows": len(rows),
            "groups": len(rows),
            "sha256": sha256((out / f"{split}.jsonl").read_bytes()).hexdigest(),
        }
        for split, rows in (("train", train), ("test", test))
    ]
    assert found["split_sha256"] == split_digest((row["group"], row["id"], row["split"]) for row in train + test)
    assert (found["read"], found["written"], found["repeated_ids"]) == (21, 21, 0)
    assert found["groups"] == {"groups": 21, "largest": 1, "of_one": 21}
    assert found["near_duplicates"] == {"groups": 0, "records": 0, "largest": 0}
    assert found["left_out"] == {"counts": {}, "records": []}
    assert (found["options"]["trainer"], found["options"]["test_share"]) == ("trl", 0.1)
    first, second, *_ = done.stdout.splitlines()
    assert first == f"train        19 rows in 19 groups: {out}/train.jsonl"
    assert second == f"test         2 rows in 2 groups: {out}/test.jsonl"
    assert not prepare(source, "-q", to=out).output


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


def test_the_option_that_rows_of_gen_need_is_named(prepare: Prepare) -> None:
    option = """ASSAY_CLIENT_CONFIG='{"lexical": {"reward": "rouge_l"}}'"""
    assert option in prepare([GEN], "--test", "0").stdout
    assert option not in prepare([GEN], "--stage", "supervised", "--test", "0").stdout


def test_the_same_records_give_the_same_bytes(prepare: Prepare, tmp_path: Path) -> None:
    one, two, other = (tmp_path / name for name in ("one", "two", "other"))
    for folder, seed in ((one, 3), (two, 3), (other, 4)):
        prepare(RECORDS, "--seed", seed, to=folder)
    for file in ("train.jsonl", "test.jsonl", "prepared.json"):
        assert (one / file).read_bytes() == (two / file).read_bytes()
    assert sides(other) != sides(one)
    assert manifest(other)["split_sha256"] != manifest(one)["split_sha256"]


def test_a_record_has_its_split_in_any_order_stage_and_format(prepare: Prepare, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    prepare(RECORDS, "--test", "0.3", to=a)
    expected = sides(a)
    assert list(expected.values()).count("test") == 6
    prepare(RECORDS[::-1], "--test", "0.3", to=b)
    assert sides(b) == expected
    assert manifest(b)["split_sha256"] == manifest(a)["split_sha256"]
    prepare(RECORDS[::-1], "--test", "0.3", "--stage", "supervised", to=b)
    assert sides(b) == expected
    (tmp_path / "d.json").write_text(json.dumps(RECORDS), encoding="utf-8")
    prepare(tmp_path / "d.json", "--test", "0.3", "--trainer", "verl", to=b)
    rows = [row for split in ("train", "test") for row in pq.read_table(b / f"{split}.parquet").to_pylist()]
    assert {row["extra_info"]["index"]: row["extra_info"]["split"] for row in rows} == expected


def placed(folder: Path) -> list[tuple[str, str, str]]:
    return sorted((row["group"], row["id"], row["split"]) for row in written(folder))


def test_ids_and_the_digest_of_the_split_do_not_depend_on_names_and_order(
    call: Callable[..., Result], prepare: Prepare, tmp_path: Path
) -> None:
    """Also of records without an id, of which two are equal, and two differ only in their answers."""
    without = [{name: value for name, value in one.items() if name != "id"} for one in RECORDS]
    answers = [{**TRAIN, "think": f"For reason {k}."} for k in range(2)]
    records = [*without, without[0], *answers, {**PQA, "id": None}]
    prepare(records, "--test", "0.3", to=tmp_path / "a")
    first = placed(tmp_path / "a")
    ids = [name for _, name, _ in first]
    assert len(set(ids)) == len(ids) == len(records)
    (second,) = [name for name in ids if name.endswith("-2")]
    assert second.removesuffix("-2") in ids
    assert all(re.fullmatch("[0-9a-f]{16}(-2)?", name) for name in ids)
    (tmp_path / "deep").mkdir()
    parts = [records[::-1][:9], records[::-1][9:]]
    files = [write_rows(tmp_path / "deep" / f"other-{k}.jsonl", part) for k, part in enumerate(parts)]
    call("prepare", *files[::-1], "--test", "0.3", "-o", tmp_path / "b")
    assert placed(tmp_path / "b") == first
    assert manifest(tmp_path / "b")["split_sha256"] == manifest(tmp_path / "a")["split_sha256"]
    assert manifest(tmp_path / "a")["repeated_ids"] == 0


def test_every_output_format(prepare: Prepare, tmp_path: Path) -> None:
    for form in FORMATS:
        prepare(RECORDS, "--output-format", form, to=tmp_path / form)
        for split in ("train", "test"):
            assert read(tmp_path / form / f"{split}.{form}") == read_rows(tmp_path / "jsonl" / f"{split}.jsonl")


def test_distractors_are_for_level_2_of_the_split_test(prepare: Prepare, out: Path) -> None:
    """As in the paper; `--distractors` adds some to every row, or to none."""
    own = ["rinse", "dry", "store", "label", "weigh", "wipe"]
    records = [record(n, action=own, steps=steps(2 * n + 1) + steps(2 * n + 41)) for n in range(20)]
    records += [record(n, action=own) for n in range(20, 40)]
    for flags, where in (((), {("test", "2")}), (("--distractors", "0"), set()), (("--distractors", "2"), None)):
        prepare([*records, record(99, action=["mix", "spin", "heat"])], "--test", "0.4", *flags)
        rows = {(row["split"], row["level"]): row for row in written(out) if row["id"] != "r99"}
        assert len(rows) == 4
        for place, row in rows.items():
            actions = set(library_of({"prompt": row["prompt"]}) or ())
            assert (actions > {*own}) == (where is None or place in where)


def test_near_duplicates_and_titles_are_on_one_side(prepare: Prepare, out: Path) -> None:
    alike = [record(n, question=f"{record(1)['question']} Why {n}?") for n in range(30, 33)]
    titled = [record(n, question=f'Step {n} of "A Rapid Protocol for Vessels"?') for n in range(40, 43)]
    records = [*RECORDS, *alike, *titled]
    prepare(records, "--test", "0.4")
    found = sides(out)
    for group in (titled, [*alike, RECORDS[1]]):
        assert len({found[one["id"]] for one in group}) == 1
    assert manifest(out)["groups"] == {"groups": 21, "largest": 4, "of_one": 19}
    assert manifest(out)["near_duplicates"] == {"groups": 1, "records": 4, "largest": 4}
    prepare(records, "--similarity", "1")
    assert manifest(out)["groups"]["groups"] == 24


def test_records_that_are_held_out(prepare: Prepare, tmp_path: Path, out: Path) -> None:
    """They are the split test; whatever shares a group with one is left out, which is no fault."""
    (tmp_path / "data").mkdir()
    held_out = write_rows(tmp_path / "data" / "eval.jsonl", RECORDS[:2])
    more = write_rows(tmp_path / "data" / "more.jsonl", [*RECORDS[2:], record(1, id="copy")])
    done = prepare(tmp_path / "data", "--hold-out", held_out)
    assert sides(out) == {**{f"r{n}": "train" for n in range(2, 20)}, "r0": "test", "r1": "test"}
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{more}:19: ")
    assert line.endswith("(in_held_out_group)")
    found = manifest(out)
    assert [source["held_out"] for source in found["sources"]] == [False, True]
    assert (found["read"], found["written"], found["left_out"]["counts"]) == (21, 20, {"in_held_out_group": 1})
    refused = prepare(held_out, "--hold-out", held_out, "--test", "0.1", status=2)
    assert "exclude each other" in refused.stderr
    assert "warning: the split train is empty" in prepare(held_out, "--hold-out", held_out).stderr
    assert not (out / "train.jsonl").exists()
    held_out.write_bytes(b"no json\n")
    assert "warning: the split test is empty" in prepare(RECORDS, "--hold-out", held_out, status=1).stderr
    assert [path.name for path in sorted(out.iterdir())] == ["prepared.json", "train.jsonl"]


def test_a_malformed_file_is_named(prepare: Prepare, tmp_path: Path, out: Path) -> None:
    (tmp_path / "data").mkdir()
    write_rows(tmp_path / "data" / "good.jsonl", RECORDS)
    bad = tmp_path / "data" / "bad.json"
    bad.write_text("[{]")
    assert prepare(tmp_path / "data", status=2).stderr.startswith(f"Error: {bad}: not JSON: ")
    assert not out.exists()


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
    source = tmp_path / "records.jsonl"
    assert [line.removeprefix(f"{source}:").partition(":")[0] for line in listed] == ["21", "22", "23", "24"]
    found = manifest(out)
    left_out = found["left_out"]["records"]
    assert [f"{source}:{one['line']}: {one['detail']} ({one['reason']})" for one in left_out] == listed
    assert sum(found["left_out"]["counts"].values()) == 4
    assert (found["read"], found["written"]) == (24, 20)
    assert "records left out" in done.stdout
    assert sides(out).keys() == {one["id"] for one in RECORDS}
    monkeypatch.setattr(terminal, "MAX_LISTED", 2)
    listed = prepare([*RECORDS[:2], *[b"no json"] * 5], status=1).stderr.splitlines()
    omitted = "… and 3 more lines with the same problem: not_json (prepared.json lists all)"
    assert (len(listed), listed[-1]) == (3, omitted)
    assert len(manifest(out)["left_out"]["records"]) == 5


def test_files_of_an_earlier_run_and_sources(prepare: Prepare, out: Path, tmp_path: Path) -> None:
    """A test split of other records would be a leak."""
    prepare(RECORDS)
    assert (out / "test.jsonl").exists()
    assert not prepare(RECORDS, "--test", "0").stderr
    assert sorted(path.name for path in out.iterdir()) == ["prepared.json", "train.jsonl"]
    (tmp_path / "data").mkdir()
    source = write_rows(tmp_path / "data" / "train.jsonl", RECORDS)  # a source is not replaced
    before = source.read_bytes()
    assert str(source) in prepare(source.parent, to=source.parent, status=2).stderr
    assert [path.read_bytes() for path in source.parent.iterdir()] == [before]


def test_own_prompts(prepare: Prepare, out: Path) -> None:
    system = {"role": "system", "content": "Be brief."}
    rows = [record(n, prompt=[system, {"role": "user", "content": f"Question {n}?"}]) for n in range(3)]
    prepare(rows, "--own-prompts", "--test", "0")
    assert [row["prompt"] for row in read_rows(out / "train.jsonl")] == [one["prompt"] for one in rows]


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


def test_repeated_ids_are_reported(prepare: Prepare, out: Path) -> None:
    done = prepare([*RECORDS, record(50, id="r1"), record(51, id="r1")])
    assert manifest(out)["repeated_ids"] == 2
    assert done.stderr == "warning: 2 rows have the id of another row\n"


def test_without_datasketch(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketch", None)
    message = r"Error: Finding near-duplicates needs datasketch: \S+ -m pip install (\S+ )*'?datasketch\S+ .*"
    found = prepare(RECORDS, status=2).stderr
    assert re.fullmatch(message + r"Or pass --similarity 1 to find only equal texts\.\n", found)
    prepare(RECORDS, "--similarity", "1")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--stage", "supervised", "--trainer", "areal"], "areal has no rows for the stage supervised"),
        (["--task", "bioprobench.odr"], "bioprobench.ord"),
        (["--group-field", "protokoll"], "no field 'protokoll'"),
        (["--test", "1"], "--test"),
        (["--hold-out", "missing.jsonl"], "does not exist"),
    ],
)
def test_usage_errors(prepare: Prepare, tmp_path: Path, out: Path, flags: list[str], words: str) -> None:
    assert words in prepare(RECORDS, *flags, status=2).stderr
    assert not out.exists()
    prepare(RECORDS, to=tmp_path / "records.jsonl", status=2)
