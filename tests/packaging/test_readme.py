"""The README is short, and its claims are those of the pages it links; tests/packaging/test_snippets.py runs it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PERFORMANCE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")

MAX_LINES = 150


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MAX_LINES


def test_what_it_links_exists() -> None:
    targets = re.findall(r"\]\((?!https?:|#|\.\./\.\./actions)([^)#\s]+)", README)
    assert {"docs/rules.md", "CONTRIBUTING.md", "CITATION.cff", "LICENSE"} <= set(targets)
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_its_speedup_is_the_one_that_was_measured() -> None:
    (claimed,) = re.findall(r"some (\d+) times as fast as plain Python", README)
    (measured,) = re.findall(r"speedup over plain Python \| ([\d.]+)", PERFORMANCE)
    assert abs(int(claimed) - float(measured)) < 0.1 * float(measured)


def test_its_chart_shows_the_rates_that_were_measured() -> None:
    shown = (ROOT / "docs" / "throughput.svg").read_text(encoding="utf-8")
    rates = [int(rate.replace(",", "")) for rate in re.findall(r">([\d,]+)</text>", shown)]
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="20"', shown)]
    assert widths == [round(400 * rate / max(rates), 1) for rate in rates]
    assert len(rates) == 6
    for rate in rates:
        assert f"{rate:,}" in PERFORMANCE, rate
