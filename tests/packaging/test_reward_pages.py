"""The worked examples on the pages of the reward: the figures add up. `test_snippets.py` runs all of their snippets."""

from __future__ import annotations

import contextlib
import io
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from assay import Scorer, explain
from tests.reference.scale import step_gap

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reward"
PAGES = sorted(path.stem for path in FOLDER.glob("*.md"))
SNIPPET = re.compile(r"^```python\n(.*?)^```\n\n```text$", re.MULTILINE | re.DOTALL)
ARITHMETIC = re.compile(r"^```text\n((?:\S+ = .*\n)+)```$", re.MULTILINE)

SYMBOLS = {"·": "*", "−": "-", "π": "pi", "√": "sqrt", "²": "**2", "⌊": "floor(", "⌋": ")"}
FUNCTIONS = {"abs": abs, "cos": math.cos, "floor": math.floor, "max": max, "pi": math.pi, "sqrt": math.sqrt}
SLACK = 1e-4
"""Sums and quotients of figures that are rounded to four decimals."""


def text_of(page: str) -> str:
    return (FOLDER / f"{page}.md").read_text(encoding="utf-8")


@cache
def measured(page: str) -> dict[str, Any]:
    """Run the first snippet of a page, and return its names."""
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(SNIPPET.findall(text_of(page))[0], names)
    return names


def evaluate(side: str, names: dict[str, float]) -> float:
    """Return the value of one side of an equation in mathematical notation."""
    expression = re.sub(r"\|([^|]*)\|", r"abs(\1)", side)
    for symbol, code in SYMBOLS.items():
        expression = expression.replace(symbol, code)
    return float(eval(expression, {"__builtins__": {}}, FUNCTIONS | names))


def rounded(value: float, shown: str) -> bool:
    """Return whether `shown` is `value`, rounded to the decimals that it has."""
    decimals = len(shown.partition(".")[2])
    return math.isclose(value, float(shown.replace("−", "-")), rel_tol=0, abs_tol=0.5000001 * 10**-decimals)


def equations(page: str) -> list[list[str]]:
    """Return the sides of each line of arithmetic on a page."""
    return [line.split(" = ") for block in ARITHMETIC.findall(text_of(page)) for line in block.splitlines()]


@pytest.mark.parametrize("page", sorted(set(PAGES) - {"format"}))
def test_the_arithmetic_adds_up(page: str) -> None:
    """Each side of an equation is the value of the others, and a component is that of the snippet's first response."""
    known = {}
    if page in ("index", "content"):
        scores = measured(page)["scores"]
        known = {name: float(column[0]) for name, column in scores.components.items()}
        known["reward"] = float(scores.rewards[0])
    assert equations(page)
    names: dict[str, float] = {}
    for name, *sides in equations(page):
        computed = [evaluate(side, names) for side in sides]
        assert max(computed) - min(computed) <= SLACK, (name, sides)
        names[name] = known.get(name, computed[0])
        assert rounded(names[name], sides[-1]), (name, sides, names[name])


@pytest.mark.parametrize("page", ["index", "content"])
def test_the_table_of_pairs_is_that_of_the_explanation(page: str) -> None:
    names = measured(page)
    pairs = explain(Scorer(), names["response"], names["reference"]).pairs
    table = text_of(page).partition("| step | paired with |")[2].partition("\n\n")[0]
    rows = [[cell.split()[:2] for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    assert len(rows) == len(pairs)
    for (step, partner, *figures), pair in zip(rows, pairs, strict=True):
        assert step == [str(pair.predicted), pair.action]
        assert partner == [str(pair.reference)]
        values = (pair.position, pair.objects.value, pair.parameters.value, pair.value)
        for figure, value in zip(figures, values, strict=True):
            assert rounded(value, figure[0]), (step, figure, value)


def test_the_table_of_step_gaps_is_that_of_the_formula() -> None:
    rows = re.findall(r"^\| m = (\d+) \| (\d+) \| (.*) \|$", text_of("step-scale"), re.MULTILINE)
    assert len(rows) > 3
    for m, largest, figures in rows:
        assert int(largest) == max(1, 6 * int(m) // 10)
        for d, figure in enumerate(figures.split(" | ")):
            assert rounded(step_gap(int(m) + d, int(m)), figure), (m, d)
