"""Start the service, run all loads on it, check every answer, and write a report (`make load`).

    PYTHONPATH=. python loadtests/run.py --seconds 10 --output out/load
    PYTHONPATH=. ASSAY_API_KEY=… python loadtests/run.py --url http://10.0.0.5:8000 --only singles steady

Exit codes: 0 success; 1 an answer was wrong, or a request failed; 3 answers are right, but a run is invalid because
Locust lacked CPU time.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from exchanges import KEY, write_exchanges
from payloads import Payloads
from report import Row, latency, table
from swarm import Load, Swarm
from target import Remote, Target, config_of

from assay.service.settings import RULES_VERSION
from assay.service.wording import in_this_shell, install_command

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = ("batches", "pieces", "singles", "singles_reconnecting", "mixed", "steady")
WRONG, INVALID = 1, 3
HEAD_START = 3.0
"""Seconds by which batches start before the concurrent single requests, and end after them."""


def main() -> int:
    chosen = arguments()
    chosen.output.mkdir(parents=True, exist_ok=True)
    config = checked_config(chosen.url) if chosen.url else None
    with TemporaryDirectory() as scratch:
        print("Computing the answers …", flush=True)
        plan = planned(chosen, Payloads(chosen.prompts, chosen.samples, chosen.seed, config), Path(scratch))
        print(f"Loading {chosen.url} …" if chosen.url else "Starting the service …", flush=True)
        with Remote(chosen.url) if chosen.url else Target(chosen.output / "service.log") as target:
            rows = [row for loads in plan for row in put_on(target, loads, chosen.output)]
            survived = target.alive()
    text = table(rows) + latency(rows)
    head = f"# Load on {chosen.url}, version {config['version']}" if config else "# Load"
    (chosen.output / "report.md").write_text(f"{head}\n\n{text}\n", encoding="utf-8")
    print(f"\n{text}\n\nThe report is in {chosen.output}.")
    if not survived:
        print("The service does not answer any more." if chosen.url else "The service ended before it was stopped.")
    if not survived or any(row.failed or row.wrong for row in rows):
        return WRONG
    return INVALID if any(row.invalid for row in rows) else 0


def checked_config(url: str) -> dict[str, Any]:
    """Return the configuration of the service at an address; raise SystemExit if its answers cannot be known here."""
    config = config_of(url)
    if config.get("rules_version") != RULES_VERSION:
        theirs = config.get("rules_version", "none")
        sys.exit(f"{url} scores by rules {theirs}, this checkout by rules {RULES_VERSION}: check out its version")
    return config


def planned(chosen: argparse.Namespace, payloads: Payloads, scratch: Path) -> list[list[Load]]:
    """Return the loads in order; those in one list run concurrently."""
    written = {
        name: write_exchanges(scratch / name, getattr(payloads, name)())
        for name in ("batch", "pieces", "singles", "mixed")
    }

    def load(name: str, scenario: str, exchanges: str, users: int = 1, rate: float = 0, longer: float = 0) -> Load:
        hold = chosen.seconds + longer
        return Load(name, scenario, written[exchanges], users, rate, chosen.ramp, hold, chosen.requests)

    stream = {"users": chosen.users, "rate": chosen.pace}
    plan = {
        "batches": [[load("batches", "Batches", "batch")]],
        "pieces": [[load("pieces", "Pieces", "pieces")]],
        "singles": [[load("singles", "Singles", "singles", **stream)]],
        "singles_reconnecting": [[load("singles-reconnecting", "SinglesReconnecting", "singles", **stream)]],
        "mixed": [[load("mixed", "Mixed", "mixed", chosen.users, chosen.pace / 4)]],
        "steady": [
            [load("steady-alone", "Steady", "singles", rate=chosen.rate)],
            [
                load("batches-beside", "Batches", "batch", longer=2 * HEAD_START),
                load("steady-beside", "Steady", "singles", rate=chosen.rate),
            ],
        ],
    }
    return [loads for name in dict.fromkeys(chosen.only or plan) for loads in plan[name]]


def put_on(target: Target | Remote, loads: Sequence[Load], folder: Path) -> list[Row]:
    """Run these loads concurrently, with staggered starts; return one row each."""
    print(f"Running {' and '.join(load.name for load in reversed(loads))} …", flush=True)
    target.forget_peak()
    before = target.usage()
    with ExitStack() as stack:
        swarms: list[Swarm] = []
        for load in loads:
            time.sleep(HEAD_START if swarms else 0)
            swarms.append(stack.enter_context(Swarm(load, target.address, folder)))
        records = [swarm.record() for swarm in swarms]
    after = target.usage()
    cpu_seconds = after.cpu_seconds - before.cpu_seconds if before and after else None
    responses = sum(record["responses"] for record in records)
    return [Row(load, record, cpu_seconds, responses, after) for load, record in zip(loads, records, strict=True)]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10, help="seconds that each load is held (10)")
    parser.add_argument("--ramp", type=float, default=2, help="seconds before that in which its users start (2)")
    parser.add_argument("--requests", type=int, default=20_000, help="maximum number of requests per load (20,000)")
    parser.add_argument("--users", type=int, default=64, help="number of connections of the streams (64)")
    parser.add_argument("--pace", type=float, default=400, help="requests/s of the streams; 0: unlimited (400)")
    parser.add_argument("--rate", type=float, default=100, help="requests/s of the steady arrivals (100)")
    parser.add_argument("--prompts", type=int, default=1024, help="groups per GRPO step (1,024)")
    parser.add_argument("--samples", type=int, default=5, help="responses per group (5)")
    parser.add_argument("--seed", type=int, default=0)
    names = f"run only these scenarios: {', '.join(SCENARIOS)}"
    parser.add_argument("--only", action="extend", nargs="+", metavar="NAME", choices=SCENARIOS, help=names)
    where = f"address of a service that runs already; the variable {KEY} has its key (one of its own)"
    parser.add_argument("--url", help=where)
    parser.add_argument("--output", type=Path, default=ROOT / "out" / "load", help="folder of the report (out/load)")
    chosen = parser.parse_args()
    if min(chosen.seconds, chosen.requests, chosen.users, chosen.rate, chosen.prompts, chosen.samples) <= 0:
        parser.error("times and numbers must be positive")
    if importlib.util.find_spec("locust") is None:
        parser.error(f"Locust is not installed: {in_this_shell(install_command('load'))}")
    if chosen.url is not None and not chosen.url.startswith(("http://", "https://")):
        parser.error(f"--url must begin with http:// or https://, such as http://127.0.0.1:8000: {chosen.url}")
    if chosen.url:
        chosen.url = chosen.url.rstrip("/")
    else:
        os.environ.pop(KEY, None)  # a service that this program starts has no key
    chosen.output = chosen.output.resolve()
    return chosen


if __name__ == "__main__":
    sys.exit(main())
