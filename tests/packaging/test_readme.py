"""The worked example of the README adds up; tests/packaging/test_snippets.py runs its snippets."""

from __future__ import annotations

import re
from math import cos, pi
from pathlib import Path

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")

ANCHOR = re.compile(
    r"^\| (?P<i>\d) \w+ \| (?P<j>\d) \w+ \| (?P<position>[\d.]+) \| (?P<obj>[\d.]+)[^|]* \| (?P<par>[\d.]+)[^|]* "
    r"\| (?P<product>[\d.]+) \|$",
    re.MULTILINE,
)


def test_the_worked_example_adds_up() -> None:
    """The figures of the table of anchors, computed from their definitions."""
    n, m = 3, 4
    products = []
    for found in ANCHOR.finditer(README):
        anchor = {name: float(figure) for name, figure in found.groupdict().items()}
        assert anchor["position"] == 1 - (abs(anchor["i"] - anchor["j"]) / m) ** 1.5
        products.append(anchor["position"] * (anchor["obj"] + anchor["par"] / 2))
        assert anchor["product"] == products[-1]
    assert len(products) == n
    content = sum(products) / n
    score = cos(pi * (m - n) / (2 * int(0.6 * m))) * (1 + content)
    said = README.replace("\n", " ")
    assert f"content = {sum(products)} / 3 = {content:.4f}" in said
    assert f"= {score:.2f}, and the reward is {score:.2f} / 2.5 = {score / 2.5:.3f}" in said
