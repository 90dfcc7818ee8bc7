"""Locust users that know the right answers: one class for each load scenario (README.md).

`assay bench --url` runs them; with Locust's own options: `locust -f loadtests/locustfile.py --host URL Singles Mixed`.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from argparse import ArgumentParser
from itertools import count, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import gevent
from gevent.pool import Group
from locust import FastHttpUser, events, task
from locust.contrib.fasthttp import FastResponse
from locust.env import Environment

from assay.loadtests.exchanges import (
    LoadExchange,
    RecordedExchange,
    ReplyFault,
    RequestFailed,
    WrongAnswer,
    authorization,
    read_exchanges,
)


@events.init_command_line_parser.add_listener
def add_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("Assay")
    group.add_argument("--exchanges", help="file of requests with their answers (default: computed for the service)")
    group.add_argument("--record", help="file for the outcomes")
    group.add_argument("--ramp", type=float, default=0, help="seconds at the start that the record leaves out")
    group.add_argument("--hold", type=float, default=10, help="seconds after that (10)")
    group.add_argument("--rate", type=float, default=100, help="requests/s of all users of a class; 0: unlimited (100)")


@events.init.add_listener
def begin(environment: Environment, **_: Any) -> None:
    options = environment.parsed_options
    if not environment.host:
        sys.exit("name the service that gets the load: --host http://127.0.0.1:8000")
    with TemporaryDirectory() as folder:
        file = options.exchanges or f"{folder}/exchanges"
        if not options.exchanges:  # in a separate process, whose threads Locust has not patched
            command = [sys.executable, "-m", "assay.loadtests.payloads", environment.host.rstrip("/"), file]
            subprocess.run(command, check=True)
        environment.exchanges = {name: cycle(exchange) for name, exchange in read_exchanges(Path(file)).items()}
    gevent.get_hub().loop.update_now()  # else `--run-time` counts from before the imports
    if options.record:
        record = RecordedExchange(options.ramp, options.hold)
        environment.events.test_start.add_listener(lambda **_: record.start())
        environment.events.request.add_listener(record.add)
        environment.events.test_stop.add_listener(
            lambda **_: record.write(Path(options.record), sum(user.sent for user in RolloutUser.users))
        )


class RolloutUser(FastHttpUser):
    """Sends exchanges of its scenario and checks every reply: status, rewards, reasons, order, request id.

    Each request has a separate greenlet: Locust ends a waiting user with an exception, which may arrive when its next
    turn has just begun.
    """

    abstract = True
    max_redirects = 0
    insecure = False  # Locust's default would send the key to anyone
    scenario: ClassVar[str]
    """The name of its exchanges."""
    extra_headers: ClassVar[dict[str, str]] = {}
    numbers: ClassVar = count(1)
    users: ClassVar[list[RolloutUser]] = []

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.rate: float = environment.parsed_options.rate
        self.sent = 0
        self._headers = authorization() | self.extra_headers
        self._exchanges = environment.exchanges[self.scenario]
        self._under_way = Group()
        self.users.append(self)

    def on_stop(self) -> None:
        self._under_way.join()

    def send(self, number: int = 1) -> None:
        """Send the next exchanges all at once, and wait for their replies."""
        gevent.joinall([self.begin() for _ in range(number)])

    def begin(self, due: float | None = None) -> gevent.Greenlet:
        """Send a request without waiting; its response time starts at `due` (seconds since 1970), if given."""
        self.sent += 1
        return self._under_way.spawn(self._exchange, next(self._exchanges), due)

    def _exchange(self, exchange: LoadExchange, due: float | None) -> None:
        identity = f"load-{next(self.numbers)}"
        with self.client.request(
            exchange.method,
            exchange.path,
            name=exchange.name,
            data=exchange.body,
            headers={**exchange.headers, **self._headers, "X-Request-ID": identity},
            catch_response=True,
            context={"responses": exchange.responses},
        ) as reply:
            if due is not None:
                count_from(due, reply.request_meta)
            fault = fault_of(reply, exchange, identity)
            if fault is None:
                reply.success()
            else:
                reply.failure(fault)


def fault_of(reply: FastResponse, exchange: LoadExchange, identity: str) -> ReplyFault | None:
    if reply.status_code == 0:
        return RequestFailed(f"no reply: {type(reply.error).__name__}")
    if reply.headers.get("x-request-id") != identity:
        return WrongAnswer("the reply has the id of another request")
    return exchange.fault(reply.status_code, reply.content)


def count_from(due: float, request: dict[str, Any]) -> None:
    """Add the time by which a request was sent late to the response time of Locust's `request` event."""
    late = 1000 * max(0.0, request["start_time"] - due)
    request["context"]["late"] = late
    request["response_time"] += late
    request["start_time"] = due


class PacedUser(RolloutUser):
    """A user of a stream. Together, all send `--rate` requests a second, or as many as they can if it is 0.

    Each has at most one request in flight (a closed loop): when replies are slow, it sends fewer requests. `Steady`
    measures the waits that this hides.
    """

    abstract = True

    def on_start(self) -> None:
        """Begin at a random time, so that users that start together do not send together."""
        self.period = self.environment.parsed_options.num_users / self.rate if self.rate else 0.0
        gevent.sleep(self.period * random.random())
        self.turn = time.time()

    def wait_time(self) -> float:
        """Return the seconds until this user's next turn; missed turns are skipped."""
        now = time.time()
        self.turn = max(self.turn + self.period, now)
        return self.turn - now

    @task
    def rollout(self) -> None:
        self.send()


class Batches(RolloutUser):
    """A GRPO trainer that sends each step in one request, and the next when it has the rewards."""

    scenario = "batches"
    concurrency = 1

    @task
    def step(self) -> None:
        self.send(self.concurrency)


class Pieces(Batches):
    """A GRPO trainer that sends each step as 20 requests at once, on as many connections, and waits for all of them."""

    scenario = "pieces"
    concurrency = 20


class Singles(PacedUser):
    """Rollouts sent as they finish, one response per request, on persistent connections."""

    scenario = "singles"


class SinglesReconnecting(PacedUser):
    """Rollouts sent as they finish, each on a new TCP connection, as some trainers do."""

    scenario = "singles"
    extra_headers: ClassVar[dict[str, str]] = {"Connection": "close"}


class Mixed(PacedUser):
    """Valid groups, malformed responses and requests that must be refused, concurrently: none may affect another."""

    scenario = "mixed"


class Steady(RolloutUser):
    """A source of `--rate` requests per second, whatever the earlier replies; each in flight has its own connection.

    Response times are measured from when the request was due. A closed loop would send nothing while the service
    stalls, and so count one slow request while a hundred would have waited (coordinated omission).
    """

    scenario = "singles"
    concurrency = 1_000

    def on_start(self) -> None:
        self.due = time.time()

    def wait_time(self) -> float:
        """Return the seconds until the next request is due; 0 if that has passed."""
        return max(0.0, self.due - time.time())

    @task
    def arrive(self) -> None:
        self.begin(self.due)
        self.due += 1 / self.rate
