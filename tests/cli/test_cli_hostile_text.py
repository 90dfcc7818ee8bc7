"""Texts of files neither control the terminal that they are printed to, nor a spreadsheet that opens a table."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.tables.table import Cell, Table, csv_text, inert
from assay.service.terminal import CONTROLS, say, show, visible
from tests.command_line import KEY_LINE, RESPONSE, write_rows
from tests.launcher import environment

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f\r\u202e\u2066\x00"
NAMED = HOSTILE.replace("\x00", "")
"""Without NUL, which neither arguments nor names of files can have."""

FORGED = "\nError: forged"
LONG = 200_000
"""Characters of the texts of others, of which commands print at most `MAX_PRINTED`, tables and lists included."""

MAX_PRINTED = 60_000

GOOD: dict[str, Any] = {"response": RESPONSE, "reference": KEY_LINE, "prompt": "p", "reward": 0.5, "reason": "ok"}
SCORED = {**GOOD, "components": {"format": 1.0, "consistency": 1.0, "order": 1.0}}

FILES: dict[str, list[Any]] = {
    "field names": [{f"a{HOSTILE}": 1, f"b{HOSTILE}\nError: forged": 2}] * 3,
    "values": [{**SCORED, "response": HOSTILE, "reference": HOSTILE}, {**SCORED, "reference": HOSTILE}, SCORED],
    "ids": [{**SCORED, **dict.fromkeys(("id", "type", "level", "split"), HOSTILE + FORGED)}] * 2,
    "tasks": [{**SCORED, "task": HOSTILE + FORGED, "reason": HOSTILE + FORGED}, SCORED],
    "steps": [{**SCORED, "reference": f"Step 1: {HOSTILE}"}, {**SCORED, "reference": {"steps": [{HOSTILE: 1}]}}],
    "long values": [
        {**SCORED, **dict.fromkeys(("id", "type", "level", "split", "task", "reason", "prompt"), FORGED + "x" * LONG)}
    ]
    * 2,
    "long field names": [{"x" * LONG: 1, **{f"{FORGED}{k}": 1 for k in range(5_000)}}] * 3,
    "long lines": [{**SCORED, "response": FORGED * LONG, "reference": f"Step 1: {FORGED * LONG}"}],
    "not JSON": [HOSTILE.encode(), b'{"' + HOSTILE.encode() + b'": 1'],
}

COMMANDS: dict[str, tuple[str, ...]] = {
    "score": ("score", "FILE", "-o", "OUT.jsonl", "--html", "OUT.html"),
    "score by task": ("score", "FILE", "-o", "OUT.jsonl", "--task-field", "task"),
    "evaluate": ("evaluate", "FILE", "--by", "type,level"),
    "evaluate Markdown": ("evaluate", "FILE", "--markdown", "-", "--by", "type"),
    "evaluate LaTeX": ("evaluate", "FILE", "--latex", "-", "--by", "type"),
    "evaluate CSV": ("evaluate", "FILE", "--csv", "-", "--by", "type"),
    "compare": ("evaluate", "FILE", "OTHER", "--name", f"a{NAMED}", "--name", "b"),
    "lexical": ("evaluate", "FILE", "--task", "lexical"),
    "no such task": ("evaluate", "FILE", "--task", NAMED),
    "check": ("check", "FILE"),
    "check splits": ("check", "FILE", "--split-field", "split", "--prompt-field", "prompt"),
    "ablate": ("ablate", "FILE", "-o", "OUT.jsonl"),
    "no such grid": ("ablate", "FILE", "--grid", NAMED),
    "select": ("select", "FILE", "--curriculum", "-o", "OUT.jsonl"),
    "explain": ("explain", "FILE"),
    "prepare": ("prepare", "FILE", "-o", "OUT", "--similarity", "1"),
    "config": ("config", "--config", "FILE"),
    "engine": ("conformance", "--vectors", "words", "--engine", f"{sys.executable} echo.py"),
    "no such engine": ("conformance", "--engine", NAMED),
    "no such option": ("score", "FILE", f"--{NAMED}"),
    "no such command": (NAMED,),
    "no such file": ("score", f"absent{NAMED}"),
    "a wrong number": ("score", "FILE", "--max-line-bytes", NAMED),
}

ECHO = f"""
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    print(json.dumps({{"id": row["id"], "words": [{HOSTILE!r}]}}))
print({HOSTILE!r})
"""


def controls_in(text: str) -> set[str]:
    return {character for character in text if ord(character) in CONTROLS}


@pytest.mark.attack
@pytest.mark.parametrize("command", COMMANDS)
def test_no_control_character_reaches_the_terminal(call, tmp_path: Path, monkeypatch, command: str) -> None:
    """Put escape sequences into names of files, names of fields, values, ids and tasks, and print every message."""
    monkeypatch.chdir(tmp_path)
    Path("echo.py").write_text(ECHO)
    names = COMMANDS[command]
    contents = FILES if "FILE" in names else {"no file": []}
    for what, rows in contents.items():
        source = write_rows(tmp_path / f"in{NAMED}.jsonl", rows)
        other = write_rows(tmp_path / f"other{NAMED}.jsonl", [SCORED])
        words = {"FILE": source, "OTHER": other, "OUT": f"rows{NAMED}"}
        arguments = [words.get(name, name.replace("OUT.", f"out{NAMED}.")) for name in names]
        result = call(*arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), (what, result.exception)
        assert result.stdout or result.stderr, what
        assert controls_in(result.stdout + result.stderr) == set(), (what, result.stdout, result.stderr)
        printed = result.stderr if "--csv" in names else result.stdout + result.stderr  # CSV is data, and whole
        assert FORGED not in printed, what
        assert len(printed) < MAX_PRINTED, what


def test_text_for_people_is_readable(capsys) -> None:
    say("Größe ± 5 %\t溶液 ✓\nnext")
    show(Table([f"head{HOSTILE}"], [[f"cell{HOSTILE}"]]), f"line{HOSTILE}")
    out, err = capsys.readouterr()
    assert out.startswith("Größe ± 5 %\t溶液 ✓\nnext\n")
    assert controls_in(out + err) == set()
    assert out.count(r"\x1b]0;title\x07") == 3
    assert visible("\u202e\x9b\r\x1b") == r"\u202e\x9b\r\x1b"


def test_rows_as_data_stay_json(run, tmp_path: Path) -> None:
    """They are for programs: JSON escapes what it must, and every text is as it was."""
    source = write_rows(tmp_path / "in.jsonl", [{**GOOD, "id": HOSTILE}])
    done = run("score", source, "-q", env=environment())
    assert json.loads(done.stdout)["id"] == HOSTILE


FORMULAS = ['=HYPERLINK("http://x")', "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1", " =1", "＝1+1"]


@pytest.mark.attack
@pytest.mark.parametrize("several", [False, True])
def test_no_cell_of_a_csv_file_is_a_formula(call, tmp_path: Path, monkeypatch, several: bool) -> None:
    """Put formulas into ids, groups and names of models: a spreadsheet that opens the table must not compute them."""
    monkeypatch.chdir(tmp_path)
    rows = [{**GOOD, "id": f"{text}{n}", "type": text, "level": text} for n, text in enumerate(FORMULAS)]
    sources = [write_rows(Path(f"={n}.jsonl"), rows) for n in range(1 + several)]
    assert call("evaluate", *sources, "--csv", "out.csv", "-q").exit_code == 0
    lines = list(csv.reader(io.StringIO(Path("out.csv").read_bytes().decode(), newline="")))
    text = [cell for line in lines for cell in line]
    assert [cell for cell in text if cell.lstrip(" ")[:1] in "=+-@\t\r\n＝" and cell and not is_number(cell)] == []
    assert any(cell.startswith("'=HYPERLINK") for cell in text)
    assert sum(map(is_number, text)) > len(lines)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@given(st.floats(allow_nan=False) | st.integers())
def test_numbers_stay_numbers(number: float) -> None:
    assert csv_text([[number, str(number)]]) == f"{number},{number}\n"


@given(st.text())
def test_other_text_stays_as_it_is(text: str) -> None:
    cell = inert(text)
    assert cell in (visible(text), f"'{visible(text)}")
    if text[:1].isalnum():
        assert cell == visible(text)


def test_negative_numbers_of_tables_are_numbers() -> None:
    drawn = Table(["", "mean"], [["=cmd", Cell("−0.25", "0.10", "1,234")], ["b", None]])
    assert list(csv.reader(io.StringIO(drawn.csv()))) == [
        ["", "mean", "mean standard error", "mean n"],
        ["'=cmd", "-0.25", "0.10", "1234"],
        ["b", "–", "", ""],
    ]
    hostile = Table([HOSTILE], [[HOSTILE]], notes=[HOSTILE], title=HOSTILE)
    for _, text in hostile.forms():
        assert controls_in(text) == set()
