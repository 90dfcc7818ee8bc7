"""schemathesis: requests made from the OpenAPI description, right and wrong ones, and replies checked against it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.storm import check_settled

pytest.importorskip("schemathesis")

CONFIG = Path(__file__).with_name("schemathesis.toml")
EXAMPLES = os.environ.get("ASSAY_SCHEMATHESIS_EXAMPLES", "60")
SEED = os.environ.get("ASSAY_SCHEMATHESIS_SEED", "")
"""Of its random choices; another one for each run where this is empty. A failure prints the one it had."""


@pytest.mark.soak
def test_the_service_is_what_it_says(fresh_server, tmp_path):
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run"]
    options = ["--checks", "all", "-n", EXAMPLES, "--suppress-health-check", "all", "--request-timeout", "30"]
    if SEED:
        options += ["--seed", SEED]
    done = subprocess.run(
        [*command, f"{fresh_server.url}/openapi.json", *options, "--no-color"],
        cwd=tmp_path,  # where it keeps a data base of its own
        capture_output=True,
        text=True,
        timeout=900,
    )
    print(done.stdout if done.returncode else done.stdout[-3_000:])
    assert done.returncode == 0, done.stderr[-3_000:]
    check_settled(fresh_server)
    assert " failed\n" not in fresh_server.log
