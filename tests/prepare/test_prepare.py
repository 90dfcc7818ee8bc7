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

Call = Callable[..., Result]

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


def sides(folder: Path) -> dict[str, str]:
    """The split of each row by its id."""
    return {row["id"]: row["split"] for split in ("train", "test") for row in read_rows(folder / f"{split}.jsonl")}


def test_rows_their_files_and_the_manifest(call: Call, tmp_path: Path) -> None:
    source, out = write_rows(tmp_path / "records.jsonl", [*RECORDS, PQA]), tmp_path / "new" / "rows"
    done = call("prepare", source, "-o", out)
    assert (done.exit_code, done.stderr) == (0, "")
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
    assert not call("prepare", source, "-q", "-o", out).output


def test_the_rows_get_the_rewards_that_they_promise(call: Call, tmp_path: Path) -> None:
    """An answer to learn gets the full reward with its own row's reference, the text that trainers send, and task."""
    source = write_rows(tmp_path / "records.jsonl", [*RECORDS[:3], PQA, ORD, ERR, GEN, PROTOCOL])
    call("prepare", source, "--stage", "supervised", "--test", "0", "-o", tmp_path / "taught")
    call("prepare", source, "--test", "0", "-o", tmp_path / "asked")
    answers = [row["completion"][0]["content"] for row in read_rows(tmp_path / "taught" / "train.jsonl")]
    rows = read_rows(tmp_path / "asked" / "train.jsonl")
    references, tasks = [row["reference"] for row in rows], [row["task"] for row in rows]
    options = {"lexical": {"reward": "rouge_l"}}
    scores = Scorer().score(answers, references, range(8), task=tasks, task_options=options)
    assert scores.rewards.tolist() == pytest.approx([1.0] * 8)
    assert not (tmp_path / "asked" / "test.jsonl").exists()


@pytest.mark.parametrize(("stage", "is_said"), [("grpo", True), ("supervised", False)])
def test_the_option_that_rows_of_gen_need_is_named(call: Call, tmp_path: Path, stage: str, is_said: bool) -> None:
    source = write_rows(tmp_path / "records.jsonl", [GEN])
    done = call("prepare", source, "--stage", stage, "--test", "0", "-o", tmp_path / "rows")
    assert done.exit_code == 0
    assert ("""ASSAY_CLIENT_CONFIG='{"lexical": {"reward": "rouge_l"}}'""" in done.stdout) is is_said


def test_the_same_records_give_the_same_bytes(call: Call, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "records.jsonl", RECORDS)
    for name in ("one", "two"):
        call("prepare", source, "--seed", "3", "-o", tmp_path / name)
    for file in ("train.jsonl", "test.jsonl", "prepared.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    call("prepare", source, "--seed", "4", "-o", tmp_path / "other")
    assert sides(tmp_path / "other") != sides(tmp_path / "one")
    assert manifest(tmp_path / "other")["split_sha256"] != manifest(tmp_path / "one")["split_sha256"]


def test_a_record_has_its_split_in_any_order_stage_and_format(call: Call, tmp_path: Path) -> None:
    shares = ("--test", "0.3")
    call("prepare", write_rows(tmp_path / "a.jsonl", RECORDS), *shares, "-o", tmp_path / "a")
    expected = sides(tmp_path / "a")
    assert list(expected.values()).count("test") == 6
    shuffled = write_rows(tmp_path / "b.jsonl", RECORDS[::-1])
    call("prepare", shuffled, *shares, "-o", tmp_path / "b")
    assert sides(tmp_path / "b") == expected
    assert manifest(tmp_path / "b")["split_sha256"] == manifest(tmp_path / "a")["split_sha256"]
    call("prepare", shuffled, *shares, "--stage", "supervised", "-o", tmp_path / "c")
    assert sides(tmp_path / "c") == expected
    (tmp_path / "d.json").write_text(json.dumps(RECORDS), encoding="utf-8")
    call("prepare", tmp_path / "d.json", *shares, "--trainer", "verl", "-o", tmp_path / "d")
    rows = [
        row for split in ("train", "test") for row in pq.read_table(tmp_path / "d" / f"{split}.parquet").to_pylist()
    ]
    assert {row["extra_info"]["index"]: row["extra_info"]["split"] for row in rows} == expected


def rows_in(folder: Path) -> list[tuple[str, str, str]]:
    rows = [row for split in ("train", "test") for row in read_rows(folder / f"{split}.jsonl")]
    return sorted((row["group"], row["id"], row["split"]) for row in rows)


def test_ids_and_the_digest_of_the_split_do_not_depend_on_names_and_order(call: Call, tmp_path: Path) -> None:
    """Also of records without an id, of which two are equal, and two differ only in their answers."""
    without = [{name: value for name, value in one.items() if name != "id"} for one in RECORDS]
    answers = [{**TRAIN, "think": f"For reason {k}."} for k in range(2)]
    records = [*without, without[0], *answers, {**PQA, "id": None}]
    call("prepare", write_rows(tmp_path / "a.jsonl", records), "--test", "0.3", "-o", tmp_path / "a")
    first = rows_in(tmp_path / "a")
    ids = [name for _, name, _ in first]
    assert len(set(ids)) == len(ids) == len(records)
    (second,) = [name for name in ids if name.endswith("-2")]
    assert second.removesuffix("-2") in ids
    assert all(re.fullmatch("[0-9a-f]{16}(-2)?", name) for name in ids)
    (tmp_path / "deep").mkdir()
    parts = [records[::-1][:9], records[::-1][9:]]
    files = [write_rows(tmp_path / "deep" / f"other-{k}.jsonl", part) for k, part in enumerate(parts)]
    call("prepare", *files[::-1], "--test", "0.3", "-o", tmp_path / "b")
    assert rows_in(tmp_path / "b") == first
    assert manifest(tmp_path / "b")["split_sha256"] == manifest(tmp_path / "a")["split_sha256"]
    assert manifest(tmp_path / "a")["repeated_ids"] == 0


def test_distractors_are_for_level_2_of_the_split_test(call: Call, tmp_path: Path) -> None:
    """As in the paper; `--distractors` adds some to every row, or to none."""
    library = ["rinse", "dry", "store", "label"]
    records = [
        record(n, action=library, steps=[step for k in range(2) for step in steps(2 * n + 1 + 40 * k)])
        for n in range(20)
    ]
    records += [record(n, action=library) for n in range(20, 40)]
    source = write_rows(tmp_path / "a.jsonl", [*records, record(99, action=["weigh", "wipe", "mix", "spin", "heat"])])

    def added(*flags: str) -> set[tuple[str, str, bool]]:
        """Return split, level and whether the prompt names more actions than record and reference do."""
        assert call("prepare", source, "--test", "0.4", *flags, "-o", tmp_path / "out").exit_code == 0
        found = set()
        for split in ("train", "test"):
            for row in read_rows(tmp_path / "out" / f"{split}.jsonl"):
                actions = set(library_of({"prompt": row["prompt"]}) or ())
                own = {*library, *re.findall(r'"action": ?"(\w+)"', row["reference"])}
                if row["id"] != "r99":
                    found.add((row["split"], row["level"], actions > own))
        return found

    everywhere = [(split, level) for split in ("train", "test") for level in ("1", "2")]
    assert added() == {(*place, place == ("test", "2")) for place in everywhere}
    assert added("--distractors", "0") == {(*place, False) for place in everywhere}
    assert added("--distractors", "2") == {(*place, True) for place in everywhere}


@pytest.mark.parametrize("form", FORMATS)
def test_every_output_format(call: Call, tmp_path: Path, form: str) -> None:
    source = write_rows(tmp_path / "records.jsonl", RECORDS)
    assert call("prepare", source, "--output-format", form, "-o", tmp_path / "out").exit_code == 0
    call("prepare", source, "-o", tmp_path / "lines")
    for split in ("train", "test"):
        assert read(tmp_path / "out" / f"{split}.{form}") == read_rows(tmp_path / "lines" / f"{split}.jsonl")


def test_near_duplicates_and_titles_are_on_one_side(call: Call, tmp_path: Path) -> None:
    alike = [record(n, question=f"{record(1)['question']} Why {n}?") for n in range(30, 33)]
    titled = [record(n, question=f'Step {n} of "A Rapid Protocol for Vessels"?') for n in range(40, 43)]
    source = write_rows(tmp_path / "records.jsonl", [*RECORDS, *alike, *titled])
    for seed in range(6):
        call("prepare", source, "--test", "0.4", "--seed", seed, "-o", tmp_path / "out")
        found = sides(tmp_path / "out")
        assert len({found[one["id"]] for one in titled}) == 1
        assert len({found[one["id"]] for one in (*alike, RECORDS[1])}) == 1
    assert manifest(tmp_path / "out")["groups"] == {"groups": 21, "largest": 4, "of_one": 19}
    assert manifest(tmp_path / "out")["near_duplicates"] == {"groups": 1, "records": 4, "largest": 4}
    call("prepare", source, "--similarity", "1", "-o", tmp_path / "out")
    assert manifest(tmp_path / "out")["groups"]["groups"] == 24


def test_records_that_are_held_out(call: Call, tmp_path: Path) -> None:
    """They are the split test; whatever shares a group with one is left out, which is no fault."""
    (tmp_path / "data").mkdir()
    held_out = write_rows(tmp_path / "data" / "eval.jsonl", RECORDS[:2])
    copy = record(1, id="copy")
    write_rows(tmp_path / "data" / "more.jsonl", [*RECORDS[2:], copy])
    done = call("prepare", tmp_path / "data", "--hold-out", held_out, "-o", tmp_path / "out")
    assert done.exit_code == 0
    assert sides(tmp_path / "out") == {**{f"r{n}": "train" for n in range(2, 20)}, "r0": "test", "r1": "test"}
    place = f"{tmp_path / 'data' / 'more.jsonl'}:19"
    assert done.stderr.splitlines() == [
        f"{place}: it shares a group with a record that is held out (in_held_out_group)"
    ]
    found = manifest(tmp_path / "out")
    assert [source["held_out"] for source in found["sources"]] == [False, True]
    assert (found["read"], found["written"], found["left_out"]["counts"]) == (21, 20, {"in_held_out_group": 1})
    refused = call("prepare", held_out, "--hold-out", held_out, "--test", "0.1", "-o", tmp_path / "out")
    assert refused.exit_code == 2
    assert "exclude each other" in refused.stderr
    only = call("prepare", held_out, "--hold-out", held_out, "-o", tmp_path / "out")
    assert "warning: the split train is empty" in only.stderr
    assert not (tmp_path / "out" / "train.jsonl").exists()


def test_without_a_usable_record_that_is_held_out_nothing_is_tested(call: Call, tmp_path: Path) -> None:
    held_out = write_rows(tmp_path / "eval.jsonl", [b"no json"])
    source = write_rows(tmp_path / "records.jsonl", RECORDS)
    done = call("prepare", source, "--hold-out", held_out, "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert "warning: the split test is empty" in done.stderr
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == ["prepared.json", "train.jsonl"]


def test_a_source_is_not_replaced(call: Call, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "train.jsonl", RECORDS)
    before = source.read_bytes()
    done = call("prepare", tmp_path, "-o", tmp_path)
    assert done.exit_code == 2
    assert f"{source}: the output would replace this source" in done.stderr
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


BAD = [b"no json", b"[1]", {"something": 1}, {"question": "How?", "steps": []}]


def test_records_with_a_fault_are_listed_and_left_out(call: Call, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "records.jsonl", [*RECORDS, *BAD])
    done = call("prepare", source, "-o", tmp_path / "out")
    assert done.exit_code == 1
    listed = done.stderr.splitlines()
    assert [line.removeprefix(f"{source}:").partition(":")[0] for line in listed] == ["21", "22", "23", "24"]
    found = manifest(tmp_path / "out")
    left_out = found["left_out"]["records"]
    assert [f"{source}:{one['line']}: {one['detail']} ({one['reason']})" for one in left_out] == listed
    assert sum(found["left_out"]["counts"].values()) == 4
    assert (found["read"], found["written"]) == (24, 20)
    assert "records left out" in done.stdout
    assert sides(tmp_path / "out").keys() == {one["id"] for one in RECORDS}


def test_faults_of_one_reason_are_listed_up_to_a_limit(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "MAX_LISTED", 2)
    source = write_rows(tmp_path / "records.jsonl", [*RECORDS[:2], *[b"no json"] * 5])
    done = call("prepare", source, "-o", tmp_path / "out")
    omitted = "… and 3 more lines with the same problem: not_json (prepared.json lists all)"
    assert done.stderr.splitlines()[-1] == omitted
    assert len(done.stderr.splitlines()) == 3
    assert len(manifest(tmp_path / "out")["left_out"]["records"]) == 5


def test_without_a_usable_record_nothing_is_written(call: Call, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "records.jsonl", BAD)
    done = call("prepare", source, "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == "Error: nothing is written: no row can be made of 4 records"
    assert not (tmp_path / "out").exists()


def test_a_malformed_file_is_named(call: Call, tmp_path: Path) -> None:
    good, bad = write_rows(tmp_path / "good.jsonl", RECORDS), tmp_path / "bad.json"
    bad.write_text("[{]")
    done = call("prepare", good, bad, "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: {bad}: not JSON: ")
    assert not (tmp_path / "out").exists()


def test_a_file_of_an_earlier_run_does_not_stay(call: Call, tmp_path: Path) -> None:
    """A test split of other records would be a leak."""
    source, out = write_rows(tmp_path / "records.jsonl", RECORDS), tmp_path / "out"
    call("prepare", source, "-o", out)
    assert (out / "test.jsonl").exists()
    done = call("prepare", source, "--test", "0", "-o", out)
    assert sorted(path.name for path in out.iterdir()) == ["prepared.json", "train.jsonl"]
    assert not done.stderr


def test_own_prompts(call: Call, tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How are vessels rinsed?"}]
    rows = [record(n, prompt=[*chat[:1], {"role": "user", "content": f"Question {n}?"}]) for n in range(3)]
    source = write_rows(tmp_path / "records.jsonl", rows)
    done = call("prepare", source, "--own-prompts", "--test", "0", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert [row["prompt"] for row in read_rows(tmp_path / "out" / "train.jsonl")] == [one["prompt"] for one in rows]


def test_a_split_that_a_folder_names_is_kept_unless_a_share_is_asked_for(call: Call, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    test = write_rows(tmp_path / "data" / "test.jsonl", RECORDS[:5])
    write_rows(tmp_path / "data" / "train.jsonl", [*RECORDS[5:], record(0, id="copy")])
    done = call("prepare", tmp_path / "data", "-o", tmp_path / "kept")
    note = f"note: {test} is held out, as split test; --test SHARE would split it"
    assert done.stderr.splitlines()[0] == note
    assert [name for name, split in sides(tmp_path / "kept").items() if split == "test"] == [f"r{n}" for n in range(5)]
    assert manifest(tmp_path / "kept")["left_out"]["counts"] == {"in_held_out_group": 1}
    assert note not in call("prepare", tmp_path / "data", "--hold-out", test, "-o", tmp_path / "named").stderr
    assert sides(tmp_path / "named") == sides(tmp_path / "kept")
    assert not call("prepare", tmp_path / "data", "--test", "0.1", "-o", tmp_path / "new").stderr
    assert manifest(tmp_path / "new")["left_out"]["counts"] == {}
    assert sides(tmp_path / "new") != sides(tmp_path / "kept")


def test_repeated_ids_are_reported(call: Call, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "records.jsonl", [*RECORDS, record(50, id="r1"), record(51, id="r1")])
    done = call("prepare", source, "-o", tmp_path / "out")
    assert (done.exit_code, manifest(tmp_path / "out")["repeated_ids"]) == (0, 2)
    assert done.stderr == "warning: 2 rows have the id of another row\n"


def test_without_datasketch(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketch", None)
    source = write_rows(tmp_path / "records.jsonl", RECORDS)
    done = call("prepare", source, "-o", tmp_path / "out")
    assert done.exit_code == 2
    message = r"Error: Finding near-duplicates needs datasketch: \S+ -m pip install (\S+ )*'?datasketch\S+ .*"
    assert re.fullmatch(message + r"Or pass --similarity 1 to find only equal texts\.\n", done.stderr)
    assert call("prepare", source, "--similarity", "1", "-o", tmp_path / "out").exit_code == 0


def test_usage_errors(call: Call, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "records.jsonl", RECORDS)
    for flags, words in (
        (["--stage", "supervised", "--trainer", "areal"], "areal has no rows for the stage supervised"),
        (["--task", "bioprobench.odr"], "bioprobench.ord"),
        (["--group-field", "protokoll"], "no field 'protokoll'"),
        (["--test", "1"], "--test"),
        (["--hold-out", tmp_path / "missing.jsonl"], "does not exist"),
    ):
        done = call("prepare", source, *flags, "-o", tmp_path / "out")
        assert done.exit_code == 2
        assert words in done.stderr
    (tmp_path / "file").touch()
    assert call("prepare", source, "-o", tmp_path / "file").exit_code == 2
    assert not (tmp_path / "out").exists()
