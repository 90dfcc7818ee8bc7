"""Execution of foreign code, tried for minutes; `ATTACK_SECONDS` says for how long on one core and on two each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.http.request.test_foreign_code import storm
from tests.servers import launched

SECONDS = float(os.environ.get("ATTACK_SECONDS", "120"))


@pytest.mark.soak
@pytest.mark.attack
@pytest.mark.parametrize("cores", [1, 2])
def test_no_request_runs_code(cores: int, tmp_path: Path) -> None:
    """Abandon jobs while others send pickles: the service's process may use one core, or two."""
    before = f"import os; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{cores}])"
    with launched("--drain-seconds", "0", before=before) as server:
        server.wait_until_ready()
        counts = storm(server, tmp_path / "made", SECONDS)
        assert "Traceback" not in server.log
    print(f"\n{cores} cores, {SECONDS:.0f} s: {dict(counts)}")
    assert not (tmp_path / "made").exists()
    assert counts["wrong"] == counts["failed"] == counts["500"] == 0, counts
    assert counts["504"] > SECONDS, counts
