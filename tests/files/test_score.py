"""`assay score`: rows and fields of a file, faulty ones, advantages, what is written, and progress on a terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from assay import Scorer, ScoreSettings
from tests.cli.terminals import shown_on_a_terminal
from tests.command_line import KEY_LINE, REFERENCE, RESPONSE, read_rows, write_rows
from tests.files.any_format import FORMATS
from tests.launcher import environment

GOOD = {"id": 7, "response": RESPONSE, "reference": KEY_LINE}
SCORED = {**GOOD, "reward": 1.0, "reason": "ok"}
ADVANTAGES = ("--include", "advantages")


def expected(rollouts: list[dict], **settings):
    return Scorer(**settings).score([r["response"] for r in rollouts], [r["reference"] for r in rollouts])


@pytest.mark.parametrize("settings", [{}, {"order": "lcs", "total": "sum", "reward_scale": "raw"}])
def test_bits_are_those_of_the_scorer(score, example_rollouts, settings) -> None:
    flags = [part for name, value in settings.items() for part in ("--" + name.replace("_", "-"), value)]
    rows, _ = score(example_rollouts, "--include", "components", *flags)
    scores = expected(example_rollouts, **settings)
    assert [row["reward"] for row in rows] == scores.rewards.tolist()
    assert [row["reason"] for row in rows] == scores.reasons.tolist()
    columns = {name: [row["components"][name] for row in rows] for name in rows[0]["components"]}
    assert columns == {name: column.tolist() for name, column in scores.components.items()}
    added = {"reward", "reason", "components"}
    assert [{k: v for k, v in row.items() if k not in added} for row in rows] == example_rollouts


def test_earlier_results_are_replaced(score) -> None:
    row = {**GOOD, "big": 2**80}
    stale = {**row, "reward": -1, "reason": "old", "components": {}, "advantage": 3, "error": {"reason": "not_json"}}
    assert score([stale])[0] == [{**row, "reward": 1.0, "reason": "ok"}]


def test_other_fields_stay_as_they_are_written(score, tmp_path: Path) -> None:
    rest = b'{ "big": 123456789012345678901234567890, "float": 1.50e0, "a": 1, "a": 2, "u": "\\u00b5" , '
    score([rest + json.dumps({"response": RESPONSE, "reference": REFERENCE}).encode()[1:]])
    written = (tmp_path / "out.jsonl").read_bytes()
    assert written.startswith(rest.replace(b"{ ", b"{"))
    assert written.endswith(b',"reward":1.0,"reason":"ok"}\n')


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\n\n  \n"])
@pytest.mark.parametrize("last", [b"", b"\n"])
def test_line_ends_blank_lines_and_a_byte_order_mark(call, tmp_path: Path, ends: bytes, last: bytes) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b"\xef\xbb\xbf" + ends.join([json.dumps(GOOD).encode()] * 3) + last)
    assert call("score", source, "-o", target).exit_code == 0
    assert read_rows(target) == [SCORED] * 3


def test_an_empty_file(score, tmp_path: Path) -> None:
    for ending, empty in (("jsonl", b""), ("json", b"[]\n")):
        for flags in ((), ADVANTAGES):
            assert "scored       0" in score([], *flags, target=ending)[1]
            assert (tmp_path / f"out.{ending}").read_bytes() == empty


def test_pipes(run) -> None:
    row = json.dumps(GOOD).encode()
    result = run("score", "-", given=row + b"\n" + row)
    assert result.returncode == 0, result.stderr
    assert [json.loads(line)["reward"] for line in result.stdout.splitlines()] == [1.0, 1.0]
    flags = ("-o", "-", "--input-format", "json", "--output-format", "json")
    document = run("score", "-", *flags, given=b"[" + row + b"]")
    assert json.loads(document.stdout)[0]["reward"] == 1.0
    assert b"\x1b" not in result.stderr + document.stderr


def test_the_summary(score, tmp_path: Path) -> None:
    rows = [{**GOOD, "response": text} for text in [RESPONSE, RESPONSE, RESPONSE, "nothing"]]
    page = tmp_path / "page.html"
    _, shown = score([*rows, b"{"], "--html", page, code=1)
    table = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.strip()}
    assert (table["output"], table["report"]) == ([str(tmp_path / "out.jsonl")], [str(page)])
    assert table["scored"][0] == "4"
    assert table["not_json"] == ["1"]
    assert table["format"] == table["consistency"] == table["ok"] == ["3", "75.0", "%"]
    assert table["missing_sections"] == ["1", "25.0", "%"]
    assert table["0.7500"] == ["0.0000", "0.1500", "0.7500", "1.0000", "1.0000", "1.0000", "1.0000"]


# Names of the fields: usual ones are found, and a wrong one ends the command before anything is written


@pytest.mark.parametrize("flag", ["--response-field", "--reference-field", "--group-field"])
def test_a_field_that_no_row_has_stops_with_the_fields_there_are(score, tmp_path: Path, flag: str) -> None:
    _, said = score([GOOD] * 300, flag, "refrence", code=2)
    known = "fields: id, reference, response; did you mean reference?"
    missing = f"no field 'refrence' in any of the first 100 rows; {known} Name the right one with {flag}"
    assert said == f"Error: {tmp_path / 'in.jsonl'}: {missing}\n"
    _, said = score([b"not json"] * 150, code=2)
    assert (said.count("\n"), "none of the first 100 lines is JSON" in said) == (1, True)
    assert not (tmp_path / "out.jsonl").exists()


# An invalid row does not affect other rows

FAULTS = {
    "not utf-8": (b'{"response": "\xff", "reference": "x"}', "not_json"),
    "lone surrogate": (b'{"response": "\\ud800", "reference": "x"}', "not_json"),
    "deep": (b'{"response": ' + b"[" * 5000 + b"]" * 5000 + b"}", "not_json"),
    "null": (b"null", "not_an_object"),
    "empty object": ({}, "missing_field"),
    "no response": ({"reference": KEY_LINE}, "missing_field"),
    "no reference": ({"response": RESPONSE}, "missing_field"),
    "number": ({"response": 5, "reference": KEY_LINE}, "not_a_string"),
    "null response": ({"response": None, "reference": KEY_LINE}, "not_a_string"),
    "steps of text": ({"response": RESPONSE, "reference": {"steps": "x"}}, "bad_step_schema"),
    "empty reference": ({"response": RESPONSE, "reference": ""}, "no_steps"),
    "prose": ({"response": RESPONSE, "reference": "add pbs"}, "bad_step_line"),
    "long reference": ({"response": RESPONSE, "reference": KEY_LINE + " " * 300_000}, "too_long"),
    "long line": ({"response": "x" * 2_000_000, "reference": KEY_LINE}, "line_too_long"),
}


def test_every_fault_is_listed_and_written_without_affecting_others(score, tmp_path: Path) -> None:
    rows = [row for fault, _ in FAULTS.values() for row in (GOOD, fault)] + [GOOD]
    written, said = score(rows, "--max-line-bytes", 1_000_000, code=1)
    assert written[::2] == [SCORED] * (len(FAULTS) + 1)
    source = tmp_path / "in.jsonl"
    listed = [line for line in said.splitlines() if line.startswith(f"{source}:")]
    faulty = zip(FAULTS.items(), written[1::2], listed, range(2, 2 * len(rows), 2), strict=False)
    for (name, (fault, reason)), row, line, number in faulty:
        error = row.pop("error")
        assert set(error) == {"reason", "detail", "line"}, name
        assert (error["reason"], error["line"]) == (reason, number), name
        assert line == f"{source}:{number}: {error['detail']} ({reason})"
        assert row == (fault if isinstance(fault, dict) and reason != "line_too_long" else {}), name
    assert len(listed) == len(FAULTS)


@pytest.mark.attack
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_a_full_disk_is_reported(call, tmp_path: Path, form: str) -> None:
    source = write_rows(tmp_path / "in.jsonl", [GOOD] * 1000)
    result = call("score", source, "-o", "/dev/full", "--output-format", form)
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr


@pytest.mark.attack
def test_a_reader_that_leaves_ends_the_run(start, tmp_path: Path, example_rollouts) -> None:
    source = write_rows(tmp_path / "in.jsonl", example_rollouts * 500)
    process = start("score", source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert json.loads(process.stdout.readline())["id"] == example_rollouts[0]["id"]
    process.stdout.close()
    complaint = process.stderr.read()
    assert process.wait(timeout=60) == 141
    process.stderr.close()
    assert complaint == b""


# Advantages: groups over the whole file


def test_a_field_names_the_group_and_faulty_rows_belong_to_none(score) -> None:
    rows = [
        {"g": {"a": 1, "b": 2}, "response": RESPONSE, "reference": KEY_LINE},
        {"g": 5, "response": "x", "reference": KEY_LINE},
        {"g": {"b": 2, "a": 1}, "response": "x", "reference": REFERENCE},
        {"g": 5, "response": "x", "reference": "unreadable"},
        b"{",
        {"response": "x", "reference": KEY_LINE},
    ]
    written, _ = score(rows, *ADVANTAGES, "--group-field", "g", code=1, target="json")
    assert [row.get("advantage") for row in written] == pytest.approx([0.5**0.5, 0.0, -(0.5**0.5), None, None, None])
    reasons = [row.get("error", {}).get("reason") for row in written]
    assert reasons == [*[None] * 3, "bad_step_line", "not_json", "missing_field"]


@pytest.mark.parametrize("ending", FORMATS)
def test_named_groups_of_one_have_advantage_zero(score, ending: str) -> None:
    """The last part of a file of samples may have one row of each prompt."""
    rows = [{"id": k, "response": "x", "reference": KEY_LINE} for k in range(3)]
    for flags in ((), ("--task", "lexical", "--option", "reward=rouge_l")):
        written, _ = score(rows, *flags, *ADVANTAGES, "--group-field", "id", target=ending)
        assert [row["advantage"] for row in written] == [0.0] * 3


def test_a_terminal_sees_progress_and_the_faults_above_it(start, tmp_path: Path, example_rollouts, monkeypatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    source, target = write_rows(tmp_path / "in.jsonl", [*example_rollouts * 150, b"{"]), tmp_path / "out.jsonl"
    code, shown = shown_on_a_terminal(start, "score", source, "-o", target)
    assert code == 1
    assert re.search(r"\d+%.* rows, .* a second", shown)
    assert f"\x1b[2K{source}:3001: " in shown
    summary = shown[shown.index("scored       3,000") :]
    assert "\x1b[1mreason" in summary
    assert summary.rstrip().endswith(f"%\r\n\r\n{ScoreSettings().signature}")


def test_no_terminal_no_progress(run, tmp_path: Path, example_rollouts) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", example_rollouts * 150), tmp_path / "out.jsonl"
    result = run("score", source, "-o", target, env={**environment(), "FORCE_COLOR": "1", "COLUMNS": "20"})
    assert result.returncode == 0
    rewards = [row["reward"] for row in read_rows(target)]  # of more rows than fit into one piece
    assert rewards == expected(example_rollouts).rewards.tolist() * 150
    assert max(map(len, result.stderr.splitlines())) > 70
    assert b"\r" not in result.stderr
    assert b"\x1b" not in result.stderr
