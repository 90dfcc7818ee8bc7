"""`assay score`: input, kept fields and added results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay import Scorer
from tests.command_line import KEY_LINE, REFERENCE, RESPONSE, read_rows, write_rows


def expected(rollouts: list[dict], **settings):
    return Scorer(**settings).score([r["response"] for r in rollouts], [r["reference"] for r in rollouts])


@pytest.mark.parametrize("settings", [{}, {"order": "lcs", "total": "sum", "reward_scale": "raw"}])
def test_bits_are_those_of_the_scorer(call, tmp_path: Path, example_rollouts, settings) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", example_rollouts), tmp_path / "out.jsonl"
    flags = [part for name, value in settings.items() for part in ("--" + name.replace("_", "-"), value)]
    result = call("score", source, "-o", target, "--include", "components", *flags)
    assert result.exit_code == 0, result.stderr
    scores, rows = expected(example_rollouts, **settings), read_rows(target)
    assert [row["reward"] for row in rows] == scores.rewards.tolist()
    assert [row["reason"] for row in rows] == scores.reasons.tolist()
    columns = {name: [row["components"][name] for row in rows] for name in rows[0]["components"]}
    assert columns == {name: column.tolist() for name, column in scores.components.items()}
    added = {"reward", "reason", "components"}
    assert [{k: v for k, v in row.items() if k not in added} for row in rows] == example_rollouts


def test_more_rows_than_fit_into_one_piece(call, tmp_path: Path, example_rollouts) -> None:
    many = example_rollouts * 260
    source, target = write_rows(tmp_path / "in.jsonl", many), tmp_path / "out.jsonl"
    assert call("score", source, "-o", target, "-q").exit_code == 0
    rows = read_rows(target)
    assert [row["id"] for row in rows] == [rollout["id"] for rollout in many]
    assert [row["reward"] for row in rows] == expected(example_rollouts).rewards.tolist() * 260


def test_other_fields_stay_as_they_are_written(call, tmp_path: Path) -> None:
    rest = b'{ "big": 123456789012345678901234567890, "float": 1.50e0, "a": 1, "a": 2, "u": "\\u00b5" , '
    parts = json.dumps({"response": RESPONSE, "reference": REFERENCE}).encode()[1:]
    target = tmp_path / "out.jsonl"
    assert call("score", write_rows(tmp_path / "in.jsonl", [rest + parts]), "-o", target).exit_code == 0
    written = target.read_bytes()
    assert written.startswith(rest.replace(b"{ ", b"{"))
    assert written.endswith(b',"reward":1.0,"reason":"ok"}\n')


def test_earlier_results_are_replaced(call, tmp_path: Path) -> None:
    row = {"id": 7, "response": RESPONSE, "reference": REFERENCE, "big": 2**80}
    stale = {**row, "reward": -1, "reason": "old", "components": {}, "advantage": 3, "error": {"reason": "not_json"}}
    target = tmp_path / "out.jsonl"
    assert call("score", write_rows(tmp_path / "in.jsonl", [stale]), "-o", target).exit_code == 0
    assert read_rows(target) == [{**row, "reward": 1.0, "reason": "ok"}]


def test_names_of_the_fields(call, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in.jsonl", [{"answer": RESPONSE, "gold": KEY_LINE, "response": 5}])
    target = tmp_path / "out.jsonl"
    result = call("score", source, "-o", target, "--response-field", "answer", "--reference-field", "gold")
    assert result.exit_code == 0
    assert read_rows(target)[0]["reward"] == 1.0


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\n\n  \n"])
@pytest.mark.parametrize("last", [b"", b"\n"])
def test_line_ends_blank_lines_and_a_byte_order_mark(call, tmp_path: Path, ends: bytes, last: bytes) -> None:
    row = json.dumps({"response": RESPONSE, "reference": KEY_LINE}).encode()
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b"\xef\xbb\xbf" + ends.join([row] * 3) + last)
    assert call("score", source, "-o", target).exit_code == 0
    assert [row["reward"] for row in read_rows(target)] == [1.0] * 3


@pytest.mark.parametrize(("ending", "empty"), [("jsonl", b""), ("json", b"[]\n")])
def test_an_empty_file(call, tmp_path: Path, ending: str, empty: bytes) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / f"out.{ending}"
    source.write_bytes(b"")
    result = call("score", source, "-o", target)
    assert result.exit_code == 0
    assert target.read_bytes() == empty
    assert "scored       0" in result.stderr


def test_pipes(run) -> None:
    row = json.dumps({"response": RESPONSE, "reference": KEY_LINE}).encode()
    result = run("score", "-", given=row + b"\n" + row)
    assert result.returncode == 0, result.stderr
    assert [json.loads(line)["reward"] for line in result.stdout.splitlines()] == [1.0, 1.0]
    document = run(
        "score", "-", "-o", "-", "--input-format", "json", "--output-format", "json", given=b"[" + row + b"]"
    )
    assert json.loads(document.stdout)[0]["reward"] == 1.0
    assert b"\x1b" not in result.stderr + document.stderr


def test_the_summary(call, tmp_path: Path) -> None:
    rows = [{"response": text, "reference": KEY_LINE} for text in [RESPONSE, RESPONSE, RESPONSE, "nothing"]]
    source, target = write_rows(tmp_path / "in.jsonl", [*rows, b"{"]), tmp_path / "out.jsonl"
    shown = call("score", source, "-o", target).stderr
    table = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.strip()}
    assert table["scored"][0] == "4"
    assert table["not_json"] == ["1"]
    assert table["format"] == table["consistency"] == table["ok"] == ["3", "75.0", "%"]
    assert table["missing_sections"] == ["1", "25.0", "%"]
    assert table["0.7500"] == ["0.0000", "0.1500", "0.7500", "1.0000", "1.0000", "1.0000", "1.0000"]
    assert call("score", write_rows(source, rows), "-o", target, "--quiet").stderr == ""


def test_settings_come_from_flags_environment_and_file(call, tmp_path: Path, monkeypatch) -> None:
    source, target = (
        write_rows(tmp_path / "in.jsonl", [{"response": RESPONSE, "reference": KEY_LINE}]),
        tmp_path / "o.json",
    )
    file = tmp_path / "assay.toml"
    file.write_text("[score]\nreward_scale = 'double'\n")
    for flags, reward in (([], 5.0), (["--reward-scale", "shift"], 1.25)):
        assert call("score", source, "-o", target, "--config", file, *flags).exit_code == 0
        assert json.loads(target.read_bytes())[0]["reward"] == reward
    monkeypatch.setenv("ASSAY_REWARD_SCALE", "raw")
    assert call("score", source, "-o", target, "--config", file).exit_code == 0
    assert json.loads(target.read_bytes())[0]["reward"] == 2.5
