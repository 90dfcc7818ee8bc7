"""Puts load on a service with Locust, in separate processes, and checks every answer (README.md)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import orjson

from ..service.tables.table import Table
from ..service.terminal import say
from ..service.wording import in_this_shell, install_command
from .exchanges import KEY, write_exchanges
from .payloads import Payloads, config_of
from .results import BUSY_CLIENT, machine
from .servers import BenchmarkError, ServerProcess, elapsed, fetch, service

LOCUSTFILE = Path(__file__).with_name("locustfile.py")
RAMP = 2
"""Seconds until all users of a load have started, which its figures leave out."""
HEAD_START = 3
"""Seconds by which batches start before the concurrent single requests, and end after them."""
REPLIES_WITHIN = 60
"""Seconds that requests in flight may take at the end of a run."""
STARTED_WITHIN = 60

MAX_LATE = 5.0
"""Milliseconds that Locust may send late: the allowance below."""
TIMES, ALLOWANCE = 5, 5.0
"""Single requests during batches may take TIMES times as long as alone plus ALLOWANCE milliseconds, at p99."""


class Load(NamedTuple):
    """One run of Locust: a class of the Locust file, its users, and their requests per second (0: unlimited)."""

    name: str
    user: str
    users: int = 1
    rate: float = 0
    longer: int = 0  # seconds beyond the time of the others


Figures = dict[str, Any]
"""What `Record` writes about a load, the CPU seconds of the service, and why the figures are invalid, if they are."""


def why_invalid(figures: Figures) -> str | None:
    """Return why the figures describe the load generator rather than the service, or None."""
    late, p99 = figures["late_p99"], figures["p99"]
    if figures["client_share"] > BUSY_CLIENT:
        return f"Locust used {figures['client_share']:.0%} of a core"
    if p99 is None:
        return "no request fell into the measured time"
    if late > max(MAX_LATE, p99 / 2):
        return f"most of p99 is Locust's own: it sent {late:.0f} ms late (p99), the machine was too busy"
    return None


def plan(scenario: str, users: int, pace: float, rate: float) -> list[list[Load]]:
    """Return the loads of a scenario in order; those in one list run concurrently, each started after the previous."""
    steady = Load("steady-alone", "Steady", rate=rate)
    plans = {
        "batches": [[Load("batches", "Batches")]],
        "pieces": [[Load("pieces", "Pieces")]],
        "singles": [[Load("singles", "Singles", users, pace)]],
        "singles_reconnecting": [[Load("singles-reconnecting", "SinglesReconnecting", users, pace)]],
        "mixed": [[Load("mixed", "Mixed", users, pace / 4)]],
        "steady": [
            [steady],
            [Load("batches-beside", "Batches", longer=2 * HEAD_START), steady._replace(name="steady-beside")],
        ],
    }
    return plans[scenario]


def put_load(
    url: str | None, scenarios: Sequence[str], sizes: Mapping[str, int], pace: float, rate: float
) -> dict[str, Any]:
    """Run scenarios on the service at an address or on one of its own; raise BenchmarkError.

    Returns the figures of each load in order by its name, and what they are figures of.
    """
    if find_spec("locust") is None:
        raise BenchmarkError(f"Locust is not installed: {in_this_shell(install_command('load'))}")
    with ExitStack() as stack:
        server = stack.enter_context(service("--log-level", "error")) if url is None else None
        address = server.address if server else str(url).rstrip("/")
        key = os.environ.get(KEY) if url else None
        config = config_of(address, key)
        swarm = Swarm(address, key, Path(stack.enter_context(TemporaryDirectory())), sizes["seconds"])
        say("Computing the answers …", err=True)
        payloads = Payloads(sizes["references"], sizes["samples"], sizes["seed"], config)
        write_exchanges(swarm.exchanges, payloads.by_scenario())
        loads: dict[str, Figures] = {}
        for scenario in scenarios:
            for concurrent in plan(scenario, sizes["connections"], pace, rate):
                say(f"Running {' and '.join(load.name for load in concurrent)} …", err=True)
                loads |= put_on(server, swarm, concurrent)
        try:
            fetch(f"{address}/livez", key)
        except OSError as error:
            raise BenchmarkError(f"the service does not answer any more: {error}") from None
    return {"loads": loads, "latency": latency(loads), "url": url, "version": config["version"], "machine": machine()}


def put_on(server: ServerProcess | None, swarm: Swarm, loads: Sequence[Load]) -> dict[str, Figures]:
    """Run loads concurrently, with staggered starts."""
    before = server.cpu_seconds() if server else None
    with ExitStack() as stack:
        processes: list[subprocess.Popen[bytes]] = []
        for load in loads:
            time.sleep(HEAD_START if processes else 0)
            processes.append(stack.enter_context(swarm.started(load)))
        records = [swarm.record(load, process) for load, process in zip(loads, processes, strict=True)]
    cpu_seconds = elapsed(before, server.cpu_seconds() if server else None)
    responses = sum(record["responses"] for record in records)
    cost = None if cpu_seconds is None or not responses else cpu_seconds / responses
    named = zip((load.name for load in loads), records, strict=True)
    return {name: record | {"cpu_seconds": cost, "invalid": why_invalid(record)} for name, record in named}


class Swarm(NamedTuple):
    """Starts Locust, each in a process of its own, with files in `folder`."""

    address: str
    key: str | None
    folder: Path
    seconds: int

    @property
    def exchanges(self) -> Path:
        return self.folder / "exchanges"

    @contextmanager
    def started(self, load: Load) -> Iterator[subprocess.Popen[bytes]]:
        options = {
            "--locustfile": LOCUSTFILE,
            "--host": self.address,
            "--users": load.users,
            "--spawn-rate": ceil(load.users / RAMP),
            "--run-time": RAMP + self.seconds + load.longer,
            "--stop-timeout": REPLIES_WITHIN,
            "--exchanges": self.exchanges,
            "--record": self.folder / f"{load.name}.json",
            "--ramp": RAMP,
            "--hold": self.seconds + load.longer,
            "--rate": load.rate,
        }
        command = [sys.executable, "-m", "locust", load.user, "--headless", "--only-summary"]
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith("LOCUST_") and name != KEY
        }
        with (self.folder / f"{load.name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, *(str(word) for option in options.items() for word in option)],
                cwd=self.folder,  # has no locust.conf
                env=variables | ({KEY: self.key} if self.key else {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def record(self, load: Load, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """Wait for the end and return the record; raise BenchmarkError if Locust failed."""
        try:
            process.wait(STARTED_WITHIN + RAMP + self.seconds + load.longer + REPLIES_WITHIN)
            record: dict[str, Any] = orjson.loads((self.folder / f"{load.name}.json").read_bytes())
        except (subprocess.TimeoutExpired, OSError):
            log = (self.folder / f"{load.name}.log").read_text(encoding="utf-8", errors="replace")
            raise BenchmarkError(f"{load.name}: Locust failed or did not end: {log[-2000:]}") from None
        return record


HEADS = (
    "load",
    "requests/s",
    "responses/s",
    "median ms",
    "p95 ms",
    "p99 ms",
    "failed",
    "wrong",
    "CPU s/1,000",
    "Locust CPU",
)


def load_parts(loads: Mapping[str, Figures], sentences: Sequence[str]) -> list[str | Table]:
    """Return the table, then all faults, the reasons for invalid figures, and what `latency` says."""
    rows, lines = [], []
    for name, figures in loads.items():
        times = [figures[time] for time in ("median", "p95", "p99")]
        cpu, invalid = figures["cpu_seconds"], figures["invalid"]
        rows.append(
            [
                name,
                f"{figures['requests_per_second']:,.1f}",
                f"{figures['responses_per_second']:,.0f}",
                *(None if milliseconds is None else f"{milliseconds:,.1f}" for milliseconds in times),
                figures["failed"],
                figures["wrong"],
                None if cpu is None else f"{1000 * cpu:.3f}",
                f"{figures['client_share']:.0%}{' invalid' if invalid else ''}",
            ]
        )
        lines += [f"{name}: {count} × {fault}" for fault, count in figures["faults"]]
        lines += [f"{name}: INVALID: {invalid}"] if invalid else []
    return [Table(HEADS, rows), *lines, *sentences]


def latency(loads: Mapping[str, Figures]) -> list[str]:
    """Say how much longer single requests wait during batches; nothing if that was not measured."""
    if "steady-beside" not in loads:
        return []
    alone, beside, batches = loads["steady-alone"], loads["steady-beside"], loads["batches-beside"]
    before, after = alone["p99"], beside["p99"]
    if before is None or after is None:
        return []
    most = TIMES * before + ALLOWANCE
    lines = [
        f"p99 of steady from when each request was due: {before:.1f} ms alone, {after:.1f} ms during batches; "
        f"ratio {after / before:.2f}. Allowed: {TIMES} × {before:.1f} + {ALLOWANCE:g} = {most:.1f} ms: "
        f"{'met' if after <= most else 'NOT met'}.",
        f"Part of that: Locust sent {alone['late_p99']:.1f} ms and {beside['late_p99']:.1f} ms late (p99).",
    ]
    if not (batches["first"] <= beside["began"] and beside["ended"] <= batches["last"]):
        lines.append("INVALID: batches did not run during all of the single requests.")
    return lines
