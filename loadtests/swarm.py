"""One headless run of Locust in a separate process, and its record."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Self

import orjson

__all__ = ["Load", "Swarm"]

HERE = Path(__file__).parent
REPLY_WITHIN = 60
"""Seconds that requests in flight may take at the end of a run."""
START_WITHIN = 60


class Load(NamedTuple):
    """One run: a class of `scenarios.py`, requests per second (0: unlimited), and times in seconds."""

    name: str
    scenario: str
    exchanges: Path
    users: int
    rate: float
    ramp: float
    hold: float
    most: int


class Swarm:
    """A running Locust. It writes CSV, HTML, log and record to `folder`, named after the load."""

    def __init__(self, load: Load, address: str, folder: Path) -> None:
        self.load = load
        prefix = folder / load.name
        self._record = prefix.with_suffix(".json")
        self._record.unlink(missing_ok=True)
        self._log = prefix.with_suffix(".log")
        with self._log.open("wb") as sink:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "locust", *flags(load, address, prefix, self._record)],
                cwd=folder,  # has no locust.conf
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()

    def record(self) -> dict[str, Any]:
        """Wait for the end and return the record; raise SystemExit if Locust failed."""
        allowed = START_WITHIN + self.load.ramp + self.load.hold + REPLY_WITHIN
        try:
            code = self._process.wait(allowed)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"{self.load.name}: Locust did not end within {allowed:.0f} s; see {self._log}") from None
        if code not in (0, 1) or not self._record.exists():  # 1: there were failures, which are in the record
            raise SystemExit(f"{self.load.name}: Locust ended with exit code {code}; see {self._log}")
        record: dict[str, Any] = orjson.loads(self._record.read_bytes())
        return record


def flags(load: Load, address: str, prefix: Path, record: Path) -> list[str]:
    chosen = {
        "--locustfile": HERE / "scenarios.py",
        "--host": address,
        "--csv": prefix,
        "--html": prefix.with_suffix(".html"),
        "--stop-timeout": REPLY_WITHIN,
        "--users": load.users,
        "--exchanges": load.exchanges,
        "--record": record,
        "--ramp": load.ramp,
        "--hold": load.hold,
        "--most": load.most,
        "--rate": load.rate,
    }
    return [load.scenario, "--headless", "--only-summary", *(str(word) for pair in chosen.items() for word in pair)]


def environment() -> dict[str, str]:
    """Return the environment without Locust's variables, with the scenarios' helpers on PYTHONPATH."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOCUST_")}
    places = [str(HERE), *filter(None, [clean.get("PYTHONPATH")])]
    return clean | {"PYTHONPATH": os.pathsep.join(places)}
