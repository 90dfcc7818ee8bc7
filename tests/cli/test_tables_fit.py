"""Tables fit the terminal: blocks of columns after the column that names the rows; no number and no name is broken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.service import terminal
from assay.service.tables.table import Cell, Legend, Table, with_notes
from tests.cli.terminals import shown_on_a_terminal
from tests.command_line import ROOT

ROLLOUTS = ROOT / "examples" / "rollouts.jsonl"
PROTOCOLS = ROOT / "examples" / "grpo_tiny" / "protocols.jsonl"

COMMANDS = {
    "ablate": ("ablate", ROLLOUTS, "--grid", "table21"),
    "bench": ("bench", "--lanes", "in_process", "--references", 2, "--samples", 2, "--repeats", 1),
    "check": ("check", ROLLOUTS, "--similarity", 1),
    "compare": ("compare", ROLLOUTS, ROLLOUTS, "--name", "a model with a long name,b", "--resamples", 9),
    "conformance": ("conformance", "--vectors", "words,advantages"),
    "evaluate": (
        "evaluate",
        ROLLOUTS,
        "--profile",
        "thoth",
        "--metrics",
        "step_m,order_s,order_lcs,order_tau,mean_obj",
    ),
    "prepare": ("prepare", PROTOCOLS, "--similarity", 1, "-o", "rows"),
    "published": ("evaluate", ROLLOUTS, "--table", "paper.2", "--beside", "published"),
    "score": ("score", ROLLOUTS, "-o", "scored.jsonl", "--include", "components"),
    "select": ("select", "scored.jsonl", "--best", "-o", "best.jsonl", "--group-field", "prompt"),
}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Table]:
    """Record the tables that commands draw."""
    tables: list[Table] = []
    draw = Table.drawn

    def recorded(self: Table, width: int) -> list:
        tables.append(self)
        return draw(self, width)

    monkeypatch.setattr(Table, "drawn", recorded)
    return tables


def set_width(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    open_console = terminal.console_for

    def console_for(error: bool):
        console = open_console(error)
        console.width = width
        return console

    monkeypatch.setattr(terminal, "console_for", console_for)


def blocks_in(lines: list[str]) -> Iterator[list[str]]:
    """Yield the lines of each block: its header, the rule, its rows."""
    for k, line in enumerate(lines):
        if line and set(line) == {"─"}:
            end = next((j for j in range(k, len(lines)) if not lines[j]), len(lines))
            yield lines[k - 1 : end]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_draws_whole_cells(call, drawn, monkeypatch, tmp_path: Path, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    if name == "prepare":
        pytest.importorskip("datasketch")
    if name == "select":
        assert call(*COMMANDS["score"], "-q").exit_code == 0
    for width in (60, 80, 200):
        drawn.clear()
        with monkeypatch.context() as patched:
            set_width(patched, width)
            done = call(*COMMANDS[name])
        assert done.exit_code in (0, 1), done.stderr
        lines = [line for text in (done.stdout, done.stderr) for line in text.splitlines()]
        assert drawn
        shown = list(blocks_in(lines))
        assert max(len(line) for block in shown for line in block) <= width
        text = "\n".join(line for block in shown for line in block)
        for table in drawn:
            texts = [*table.heads, *(cell.value for row in table.cells for cell in row)]
            for cell in filter(None, texts):
                assert re.search(rf"(?<!\S){re.escape(cell)}[* ]?(?=\s|$)", text, re.MULTILINE), (width, cell)
        if len(shown) > len(drawn):
            assert width < 200


def lines_of(
    table: Table, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    with monkeypatch.context() as patched:
        set_width(patched, width)
        terminal.show(table)
    return [line for line in capsys.readouterr().out.splitlines() if set(line) != {"─"}]


def test_the_columns_of_names_are_repeated(monkeypatch, capsys) -> None:
    table = Table(["", "model", "n", "reward"], [["all", "base", 7, "0.5000"], ["all", "tuned", 7, "0.7500"]], left=2)
    whole = ["     model  n  reward", "all  base   7  0.5000", "all  tuned  7  0.7500"]
    assert lines_of(table, 21, monkeypatch, capsys) == whole
    halves = ["     model  n", "all  base   7", "all  tuned  7", ""]
    halves += ["     model  reward", "all  base   0.5000", "all  tuned  0.7500"]
    assert lines_of(table, 20, monkeypatch, capsys) == halves


def test_a_name_wider_than_the_terminal_is_folded(monkeypatch, capsys) -> None:
    table = Table(["", "reward"], [["a-name-of-21-letters!", "0.5000"]])
    lines = ["", "1  a-name-", "   of-21-l", "   etters!", "", "   reward", "1  0.5000"]
    assert lines_of(table, 10, monkeypatch, capsys) == lines
    assert lines_of(Table(["name"], [["a-name-of-21-letters!"]]), 8, monkeypatch, capsys)[1:] == [
        "a-name-o",
        "f-21-let",
        "ters!",
    ]


def test_numbers_stand_for_names_that_leave_no_room(monkeypatch, capsys) -> None:
    cells = [["a name of 21 letters", Cell("0.5000", "0.1")], ["another of 21 letters", "0.7500"]]
    table = Table(["", "reward"], cells, groups=1)
    lines = ["", "1  a name of 21 letters", "±  ±", "2  another of 21 letters", "", "   reward", "1  0.5000"]
    assert lines_of(table, 24, monkeypatch, capsys) == [*lines, "±     0.1", "2  0.7500"]


def test_only_prose_is_broken(monkeypatch, capsys) -> None:
    table = Table(["reason", "why"], [["best", "others of its group are better"]])
    lines = [f"reason{'why':>21}", "best    others of its group", f"{'are better':>27}"]
    assert lines_of(table, 27, monkeypatch, capsys) == lines


def test_a_terminal_of_80_columns(start) -> None:
    code, shown = shown_on_a_terminal(start, "ablate", ROLLOUTS, "-q", stream="stdout", columns=80)
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert plain.count("strict · product · product ") == 3
    assert max(len(line) for block in blocks_in(plain.splitlines()) for line in block) <= 80


def test_notes_of_several_tables_are_said_once() -> None:
    legend = Legend("±: standard error.")
    tables = [
        Table(["", "x"], [["a", 1]], title="one", notes=["of both", legend, "half: 1 pair."]),
        Table(["", "x"], [["a", 1]], title="two", notes=["of both", legend, "half: 1 pair."]),
        Table(["", "x"], [["a", 1]], title="three", notes=["of both"]),
    ]
    texts = [part for part in with_notes(tables) if isinstance(part, str) and part]
    assert texts == ["one:", "half: 1 pair.", "two:", "half: 1 pair.", "three:", "of both", "±: standard error."]


def test_sentences_wrap_between_words(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    set_width(monkeypatch, 30)
    signature = "SCORE|rules:3|order:strict|semantics:sum"
    terminal.show(f"base, as configured and shown: {signature}", "kept   as it is")
    lines = ["base, as configured and shown:", signature, "kept   as it is"]
    assert capsys.readouterr().out.splitlines() == lines
