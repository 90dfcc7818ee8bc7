"""Files that are not in the format that they are read as: one line says what they are and what to do."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.command_line import KEY_LINE, RESPONSE

GOOD = {"id": "x", "prompt": "p", "response": RESPONSE, "reference": KEY_LINE, "reward": 1}
LINE = json.dumps(GOOD).encode() + b"\n"

WRONG = {
    "gzip.jsonl": (gzip.compress, "it is compressed with gzip: gunzip < gzip.jsonl > gzip-unpacked.jsonl"),
    "rows.jsonl.gz": (gzip.compress, "it is compressed with gzip: gunzip < rows.jsonl.gz > rows.jsonl"),
    "utf16.jsonl": (lambda text: text.decode().encode("utf-16"), "iconv -f UTF-16 -t UTF-8 < utf16.jsonl"),
    "le.jsonl": (lambda text: text.decode().encode("utf-16-le"), "iconv -f UTF-16LE -t UTF-8 < le.jsonl"),
    "be.json": (lambda text: text.decode().encode("utf-16-be"), "iconv -f UTF-16BE -t UTF-8 < be.json"),
    "picture.jsonl": (lambda text: b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "it is a binary file, not JSONL"),
    "picture.parquet": (lambda text: b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "it is neither Parquet nor Arrow"),
    "columns.jsonl": (lambda text: b"PAR1" + text, "it is Parquet, not JSONL: mv columns.jsonl columns.parquet"),
    "lines.parquet": (lambda text: text, "it is JSONL, neither Parquet nor Arrow: mv lines.parquet lines.jsonl"),
    "lines.json": (lambda text: text, "it is JSONL, one object a line: mv lines.json lines.jsonl"),
    "array.jsonl": (
        lambda text: json.dumps([json.loads(line) for line in text.splitlines()]).encode(),
        "jq -c '.[]' <",
    ),
    "pretty.jsonl": (lambda _: json.dumps(GOOD, indent=1).encode(), "jq -c . < pretty.jsonl"),
    "pointer.jsonl": (lambda text: b"version https://git-lfs.github.com/spec/v1\n", "it is a pointer of Git LFS"),
    "empty.json": (lambda text: b"", "it is empty"),
}
READERS = dict.fromkeys(["score", "explain", "check", "ablate", "evaluate"], ())
READERS |= {"select": ("--best",), "prepare": ("-o", "prepared")}


@pytest.mark.parametrize("command", READERS)
def test_a_file_in_another_format_is_recognized_in_one_line(call, tmp_path: Path, monkeypatch, command: str) -> None:
    """Each command says in one line what the file is, and which command makes it readable."""
    monkeypatch.chdir(tmp_path)
    for name, (make, expected) in WRONG.items():
        Path(name).write_bytes(make(LINE * 3))
        done = call(command, name, *READERS[command])
        lines = done.stderr.splitlines()
        assert (done.exit_code, len(lines)) == (2, 1), (name, done.stderr)
        assert lines[0].startswith(f"Error: {name}: "), lines
        assert expected in lines[0], lines


def test_a_folder_is_one_line(call, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(b"")
    done = call("score", tmp_path)
    assert (done.exit_code, done.stderr.splitlines()) == (
        2, [f"Error: {tmp_path}: it is a folder; name a file in it, such as {tmp_path / 'train.jsonl'}"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        (json.dumps({"response": "é"}, ensure_ascii=False).encode("latin-1"), "iconv -f LATIN1 -t UTF-8"),
        (b'{"response": ""} {"response": ""}', "has several JSON objects; write one on each line: jq -c ."),
    ],
)
def test_lines_that_are_not_json_say_what_to_do(call, tmp_path: Path, line: bytes, remedy: str) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_bytes(LINE + line + b"\n")
    done = call("score", source, "-o", tmp_path / "out.jsonl", "-q")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert f"{source}:2: line 2 " in done.stderr
    assert remedy in done.stderr


@pytest.mark.parametrize("command", ["score", "check", "ablate", "evaluate", "select"])
def test_a_repeated_problem_is_counted(call, tmp_path: Path, command: str) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_bytes(LINE + b"{}\n[]\n" * 30)
    done = call(command, source, *READERS[command], *(["-o", tmp_path / "out.jsonl"] if command == "score" else []))
    assert done.exit_code == 1
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "missing_field" in line]
    assert len([line for line in lines if line.startswith(f"{source}:")]) == 5
    (more,) = [line for line in lines if "…" in line]
    assert more.startswith("… and 25 more ")
