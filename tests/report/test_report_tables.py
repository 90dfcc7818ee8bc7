"""Tables as Markdown, LaTeX and CSV, and charts, in which every value is drawn at the height that its axis says."""

from __future__ import annotations

import csv
import io
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from assay.service.tables.page import MAX_POINTS, Chart, histogram, number, scatter, span, ticks
from assay.service.tables.table import Cell, Table
from assay.service.tasks.evaluation import every_task
from tests.strategies import examples

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
    table = Table(["a"], [["<b> of 5*3*1"]], notes=["* is the best."])
    html = MarkdownIt("commonmark").enable("table").render(table.markdown())
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
    best = Table(["", "a"], [["x", Cell("1.5", "0.1", best=True)], ["y", Cell("1.0", "0.2")]])
    assert "| x | **1.5 ± 0.1** |\n| y | 1.0 ± 0.2 |" in best.markdown()
    assert r"x & \textbf{1.5 $\pm$ 0.1} \\" in best.latex()


@given(st.floats(-100, 100), st.floats(1e-3, 1e5), st.integers(3, 9), st.booleans())
@examples(200)
def test_ticks_are_round_numbers_of_the_range(low, width, most, whole):
    high = low + (max(width, most) if whole else width)
    positions = ticks(low, high, most, whole)
    assert 1 <= len(positions) <= most
    assert all(low - 1e-6 * width <= tick <= high + 1e-6 * width for tick in positions)
    assert len({round(b - a, 9) for a, b in pairwise(positions)}) <= 1
    assert not whole or all(tick == round(tick) for tick in positions)


def height(chart: Chart, length: float) -> float:
    """Return what a length says on the axis of a chart whose lowest tick is 0."""
    low, high = chart.y_ticks[0], chart.y_ticks[-1]
    assert low.text == "0"
    return float(high.text) * length / (low.at - high.at)


@given(st.lists(st.floats(-0.2, 1.2), min_size=1, max_size=200), st.integers(0, 5))
@examples(100)
def test_a_histogram_has_every_value(values, failed):
    values = np.array([0.0] * failed + values)
    chart = histogram(values, (0.0, 1.0), "label", "reward", failed=failed)
    counts, _ = np.histogram(np.clip(values, 0, 1), 20, (0.0, 1.0))
    drawn: dict[float, float] = {}
    for bar in chart.bars:
        assert chart.left <= bar.x < bar.x + bar.width <= chart.right
        assert chart.top - 1e-6 <= bar.y < bar.y + bar.height <= chart.bottom + 1e-6
        drawn[bar.x] = drawn.get(bar.x, 0) + height(chart, bar.height)
    assert [drawn[x] for x in sorted(drawn)] == pytest.approx(counts[counts > 0].tolist())
    assert sum(height(chart, bar.height) for bar in chart.bars if bar.failed) == pytest.approx(failed)
    assert chart.line is not None
    assert chart.line.text == f"mean {values.mean():.4f}"
    assert chart.left <= chart.line.x <= chart.right


def test_bars_and_ticks_say_their_numbers():
    chart = histogram(np.array([0.0, 0.0, 0.0, 0.97]), (0.0, 1.0), "label", "reward", failed=2)
    assert [bar.text.rpartition(": ")[2] for bar in chart.bars] == [
        "2 failed a gate",
        "1 passed both gates",
        "1 responses",
    ]
    assert [tick.text for tick in chart.x_ticks] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    ticks_of = {0.0: "0", 0.25: "0.25", -1.25: "-1.25", 5_000.0: "5,000", 150_000.0: "150k", 2_500_000.0: "2.5M"}
    assert {value: number(value) for value in ticks_of} == ticks_of
    chart = scatter(np.array([300.0, 5_000.0]), np.zeros(2), np.ones(2, bool), (0.0, 1.0), "label", "bytes")
    assert [tick.text for tick in chart.x_ticks] == ["256 B", "512 B", "1 KB", "2 KB", "4 KB", "8 KB"]
    spans = (span(2.5, 3.5, "steps"), span(2.5, 4.5, "steps"), span(512.0, 724.1, "bytes"))
    assert spans == ("3 steps", "3 to 4 steps", "512 to 724 bytes")


def test_points_of_few_and_cells_of_many():
    random = np.random.default_rng(1)
    for size in (MAX_POINTS, MAX_POINTS + 1):
        sizes, rewards = np.floor(2.0 ** random.uniform(0, 18, size)), random.uniform(-1.25, 1.25, size)
        passed = rewards > 0
        chart = scatter(sizes, rewards, passed, (-1.25, 1.25), "label", "bytes")
        if size == MAX_POINTS:
            assert not chart.bars
            assert len(chart.dots) == size
            assert sum(dot.failed for dot in chart.dots) == size - passed.sum()
        else:
            assert sum(int(bar.text.split(": ")[1].split()[0].replace(",", "")) for bar in chart.bars) == size
            assert all(dot.mean for dot in chart.dots)
            assert max(bar.opacity for bar in chart.bars if bar.opacity) == pytest.approx(1.0)
        for x, y in [*((dot.x, dot.y) for dot in chart.dots), *((bar.x, bar.y) for bar in chart.bars)]:
            assert chart.left - 1e-6 <= x <= chart.right + 1e-6
            assert chart.top - 1e-6 <= y <= chart.bottom + 1e-6
