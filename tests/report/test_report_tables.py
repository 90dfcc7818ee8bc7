"""Tables as Markdown, LaTeX and CSV, with any text in a cell."""

from __future__ import annotations

import csv
import io

from markdown_it import MarkdownIt

from assay.service.tables.table import Cell, Table, broken
from assay.service.tasks.evaluation import every_task

TABLE = Table(
    ["", "n", "Step-M", "F1"],
    [["all", 1_234, Cell("50.00", "11.47", "20"), "0.5"], ["type a|b & c_d\n%", 2, None, "-0.5"]],
    notes=["Out of 100.\nReally."],
)


def test_markdown():
    html = MarkdownIt("commonmark").enable("table").render(TABLE.markdown())
    assert html.count("<tr>") == 3
    assert '<td style="text-align:left">type a|b &amp; c_d %</td>' in html
    assert '<td style="text-align:right">50.00 ± 11.47 (20)</td>' in html
    assert "<p>Out of 100. Really.</p>" in html
    given = Table(["a"], [["<b> of 5*3*1"]], notes=["* is the best."])
    html = MarkdownIt("commonmark").enable("table").render(given.markdown())
    assert "&lt;b&gt; of 5*3*1" in html
    assert "<p>* is the best.</p>" in html


def test_latex():
    assert TABLE.latex().splitlines() == [
        "% Out of 100. Really.",
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r" & n & Step-M & F1 \\",
        r"\midrule",
        r"all & 1,234 & 50.00 $\pm$ 11.47 (20) & 0.5 \\",
        r"type a\textbar{}b \& c\_d \% & 2 & -- & -0.5 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    headings = [metric.title for task in every_task() for metric in task.metrics]
    assert Table(headings, []).latex().isascii()
    assert r"\textbackslash{}input\{x\}\textasciitilde{}" in Table(["a"], [[r"\input{x}~"]]).latex()


def test_csv_has_plain_numbers():
    assert list(csv.reader(io.StringIO(TABLE.csv()))) == [
        ["", "n", "Step-M", "Step-M standard error", "Step-M n", "F1"],
        ["all", "1234", "50.00", "11.47", "20", "0.5"],
        ["type a|b & c_d\n%", "2", "–", "", "", "-0.5"],
    ]


def test_cells_as_text():
    assert str(Cell("50.00", "11.47", "1,020")) == "50.00 ± 11.47 (1,020)"
    assert str(Cell("66.67", n="6")) == "66.67 (6)"
    assert [str(cell) for cell in Table(["a", "b", "c"], [["x", 1_020, None]]).cells[0]] == ["x", "1,020", "–"]


def test_the_best_values_are_bold():
    best = Table(["", "a"], [["x", Cell("1.5", "0.1", best=True)], ["y", Cell("1.0", "0.2")]])
    assert "| x | **1.5 ± 0.1** |\n| y | 1.0 ± 0.2 |" in best.markdown()
    assert r"x & \textbf{1.5 $\pm$ 0.1} \\" in best.latex()


def test_headings_are_broken_on_a_narrow_terminal():
    heads, rows = ["", "n", "Order-LCS", "KW F1"], [["all", "20", "70.59", "0.5000"]]
    assert broken(heads, rows, 80) == heads
    assert broken(heads, rows, 20) == ["\n", "\nn", "Order-\nLCS", "KW\nF1"]
