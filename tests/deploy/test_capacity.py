"""The table of replicas in docs/operations.md, computed from the formulas above it."""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path

OPERATIONS = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
TRAINERS, ROLLOUTS, SINGLES, BATCHES, SHARE, WITHIN = 64, 5_120, 7_000, 60_000, 0.2, 2


def test_the_table_of_replicas_follows_from_the_formulas():
    section = OPERATIONS.partition("## Capacity for a burst")[2].partition("\n## ")[0]
    shown = [tuple(map(int, row)) for row in re.findall(r"^\| (\d+) s \| (\d+) \| (\d+) \| (\d+) \|$", section, re.M)]
    burst = TRAINERS * ROLLOUTS
    computed = [
        (
            wait,
            ceil(burst * SHARE / (SINGLES * (wait + WITHIN))),
            ceil(burst / (SINGLES * wait)),
            ceil(burst / (BATCHES * wait)),
        )
        for wait, *_ in shown
    ]
    assert shown == computed
    assert len(shown) > 4
    given = (f"{TRAINERS} trainers with {ROLLOUTS:,}", f"last fifth arriving within {WITHIN} s", f"{SINGLES:,} single")
    words = " ".join(section.split())
    assert [text for text in (*given, f"{BATCHES:,} batched") if text not in words] == []
