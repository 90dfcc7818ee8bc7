"""Inside a Locust process: the requests to send, and a record of the outcomes.

Locust's own statistics round response times to two digits and mix the ramp with the hold; the record does neither.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections import Counter
from itertools import count, cycle
from pathlib import Path
from typing import Any

import orjson
from exchanges import Exchange, WrongAnswer, read_exchanges
from locust import events, runners
from locust.env import Environment
from locust.exception import StopUser

__all__ = ["Ledger"]

runners.CPU_MONITOR_INTERVAL = 2.0
"""Locust's default is 10 s, and the first check has no result: too rare for a run of 15 s."""

FAULTS_SHOWN = 5


class Ledger:
    """The exchanges of one run, handed out in turn, and their outcomes.

    A request belongs to the hold when it was due after the ramp and before the end.
    """

    def __init__(self, environment: Environment) -> None:
        options = environment.parsed_options
        self._environment = environment
        self._path = Path(options.record)
        self._exchanges = cycle(read_exchanges(Path(options.exchanges)))
        self._left: int = options.most
        self.ramp: float = options.ramp
        self.hold: float = options.hold
        self.rate: float = options.rate
        self.users: int = options.num_users
        self.sent = 0
        self._ids = count(1)
        self._rows: list[tuple[float, float, float, int]] = []
        self._failed = self._wrong = 0
        self._faults: Counter[str] = Counter()
        self._started = time.time()
        self._cpu_seconds = time.process_time()

    def start(self) -> None:
        self._started = time.time()
        self._cpu_seconds = time.process_time()

    @property
    def spent(self) -> bool:
        """True when the run has sent its maximum number of requests."""
        return self._left <= 0

    def take(self, most: int = 1) -> list[Exchange]:
        """Return the next exchanges, at most `most`; raise StopUser if none are left."""
        number = min(most, self._left)
        if number <= 0:
            raise StopUser
        self._left -= number
        self.sent += number
        return [next(self._exchanges) for _ in range(number)]

    def new_id(self) -> str:
        """Return a request id that is unique in this run."""
        return f"load-{next(self._ids)}"

    def note(
        self, name: str, response_time: float, start_time: float, exception: Exception | None, context: Any, **_: Any
    ) -> None:
        """Record Locust's `request` event: milliseconds, and seconds since 1970."""
        self._rows.append((start_time, response_time, context.get("late", 0.0), context["responses"]))
        if exception is not None:
            self._wrong += isinstance(exception, WrongAnswer)
            self._failed += not isinstance(exception, WrongAnswer)
            self._faults[f"{name}: {exception}"] += 1

    def close(self) -> None:
        """Write the record."""
        began = self._started + self.ramp
        last = max((row[0] + row[1] / 1000 for row in self._rows), default=began)
        ended = min(began + self.hold, last) if self.spent else began + self.hold
        held = [row for row in self._rows if began <= row[0] < began + self.hold]
        record = {
            "sent": self.sent,
            "answered": len(self._rows),
            "responses": sum(row[3] for row in self._rows),
            "failed": self._failed,
            "wrong": self._wrong,
            "faults": self._faults.most_common(FAULTS_SHOWN),
            "held": {
                "began": began,
                "seconds": max(0.0, ended - began),
                "responses": sum(row[3] for row in held),
                "milliseconds": [row[1] for row in held],
                "late_milliseconds": [row[2] for row in held],
            },
            "first": min((row[0] for row in self._rows), default=began),
            "last": last,
            "cpu_share": (time.process_time() - self._cpu_seconds) / (time.time() - self._started),
            "cpu_warning": self._environment.runner.cpu_warning_emitted,
        }
        self._path.write_bytes(orjson.dumps(record))


@events.init_command_line_parser.add_listener
def add_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("Assay")
    group.add_argument("--exchanges", required=True, help="file of requests with their expected answers")
    group.add_argument("--record", required=True, help="file for the outcomes")
    group.add_argument("--ramp", type=float, default=2, help="seconds until all users have started")
    group.add_argument("--hold", type=float, default=10, help="seconds with all users")
    group.add_argument("--most", type=int, default=20_000, help="maximum number of requests")
    group.add_argument("--rate", type=float, default=100, help="requests per second, if the scenario has a rate")


@events.init.add_listener
def open_ledger(environment: Environment, **_: Any) -> None:
    if not environment.host:
        sys.exit("name the service that gets the load: --host http://127.0.0.1:8000")
    ledger = environment.ledger = Ledger(environment)
    environment.events.test_start.add_listener(lambda **_: ledger.start())
    environment.events.request.add_listener(ledger.note)
    environment.events.test_stop.add_listener(lambda **_: ledger.close())
