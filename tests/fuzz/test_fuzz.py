"""A short run of every fuzz target, on the same inputs each time: `make fuzz` looks for others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.own_process import printed_by

pytestmark = pytest.mark.attack

TARGETS = sorted(Path(__file__).parent.glob("fuzz_*.py"))
INPUTS = 400


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made as Linux makes them")
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.stem)
def test_a_short_run(compiled, target):
    if target.stem == "fuzz_arrow":
        pytest.importorskip("pyarrow")
    assert printed_by(f"tests.fuzz.{target.stem}", "--seeded", INPUTS) == f"{INPUTS}\n"
