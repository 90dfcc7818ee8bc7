"""Fixtures that every test may ask for."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from examples.rollouts import generate
from tests import launcher

ROOT = Path(__file__).resolve().parent.parent

pytest_plugins = ["tests.command_line", "tests.servers"]

for name in ("LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)
os.environ.update(COLUMNS="80", TERM="xterm", LC_ALL="C.UTF-8", TZ="UTC")
time.tzset()
os.umask(0o022)
"""Neither the terminal nor the locale, the time zone or the mask of whoever runs the suite changes a result."""

# Without it, every worker and every process would compile all tests and the product again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    # A suite in the background or under nohup ignores these signals, and so would all the processes that it starts.
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
INTENDED = r"ignore:overflow encountered in scalar (add|subtract|multiply|negative):RuntimeWarning:assay\.kernels\."
"""Compiled, uint64 wraps around without a word; as plain Python, NumPy warns of it."""

# The sizes of property tests are shares of a profile's: see `strategies/effort.py`.
settings.register_profile(
    "suite",
    max_examples=20,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("nightly", settings.get_profile("suite"), max_examples=3_000)
settings.register_profile("quick", settings.get_profile("suite"), max_examples=10)
settings.load_profile("suite" if JIT else "quick")


def compile_tests() -> None:
    """Let one process compile all tests before the first run, instead of each worker of pytest-xdist."""
    if not (ROOT / "tests" / "kernels" / "__pycache__").is_dir():
        command = [sys.executable, "-m", "pytest", "-n", "0", "--collect-only", "-qq"]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)


def pytest_configure(config: pytest.Config) -> None:
    if not JIT:
        config.addinivalue_line("filterwarnings", INTENDED)
    launcher.use(getattr(config, "workerinput", {}).get("template", ""))
    if config.getoption("numprocesses", None):  # the controller of pytest-xdist: its workers find compiled kernels
        compile_tests()
        launcher.use(launcher.start_template())
    else:
        os.environ.pop("ASSAY_TEST_FRESH", None)  # the launcher has read it; a service would refuse it


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Name the template to a worker of pytest-xdist."""
    node.workerinput["template"] = launcher.address_of_template()


@pytest.fixture(scope="session")
def compiled() -> None:
    """Asked for by tests that make sense only for compiled kernels."""
    if not JIT:
        pytest.skip("kernels run as plain Python")


def read_records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


@pytest.fixture(scope="session")
def gold_records() -> list[dict[str, Any]]:
    """Return 24 generated records in the form of the published ones: id, query and reference, a whole answer.

    The query of every third has no library of actions, and the prose of every fourth leaves out the first step.
    """
    records = []
    whole = (rollout for rollout in generate(48, 1) if "<orc>" in rollout["reference"])
    for k, rollout in enumerate(islice(whole, 24)):
        query, reference = rollout["prompt"].partition(" Use only")[0], rollout["reference"]
        if k % 3:
            actions = re.findall(r'"action": "[^"]+"', reference)
            library = ", ".join(action.removeprefix('"action": ') for action in actions)
            query += f"\nPlease note that you can only use the following actions: {library}."
        head, tail = reference.split("<orc>")
        if k % 4 == 3:
            tail = re.sub(r"Step 1: [^.]*", "Step 1: Begin", tail, count=1)
        reference = re.sub(r"\{.*\}", lambda step: step[0].lower(), head) + "<orc>" + tail
        records.append({"id": f"gold-{k}", "query": query, "reference": reference})
    return records


@pytest.fixture(scope="session")
def example_rollouts() -> list[dict[str, Any]]:
    """Return the rollouts of examples/rollouts.jsonl."""
    return read_records(ROOT / "examples" / "rollouts.jsonl")
