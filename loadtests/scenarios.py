"""Locust users that know the expected answers: one class for each scenario, named as in README.md."""

from __future__ import annotations

import random
import time
from math import ceil
from typing import Any, ClassVar

import gevent
from exchanges import Exchange, Fault, RequestFailed, WrongAnswer, authorization
from gevent.pool import Group
from ledger import Ledger
from locust import FastHttpUser, LoadTestShape, task
from locust.contrib.fasthttp import FastResponse
from locust.env import Environment


class RampAndHold(LoadTestShape):
    """Start `--users` users in `--ramp` seconds; keep them for `--hold` seconds or until all requests are sent."""

    use_common_options = True

    def tick(self) -> tuple[int, float] | None:
        """Return the current number of users and how many may start per second; None ends the run."""
        ledger = self.runner.environment.ledger
        elapsed = self.get_run_time()
        if elapsed >= ledger.ramp + ledger.hold or ledger.spent:
            return None
        share = min(1.0, (elapsed + 1) / ledger.ramp) if ledger.ramp else 1.0  # Locust asks once a second
        return max(1, ceil(ledger.users * share)), min(100, ledger.users)


class RolloutUser(FastHttpUser):
    """Sends exchanges of the run's ledger and checks every reply: status, rewards, reasons, order, request id.

    Each request has a separate greenlet: Locust ends a waiting user with an exception, which may arrive when its next
    turn has just begun.
    """

    abstract = True
    max_redirects = 0
    insecure = False  # Locust's default would send the key to anyone
    extra_headers: ClassVar[dict[str, str]] = {}

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.ledger: Ledger = environment.ledger
        self._authorization = authorization()
        self._under_way = Group()

    def on_stop(self) -> None:
        self._under_way.join()

    def send(self, most: int = 1) -> None:
        """Send the next exchanges, at most `most`, all at once, and wait for their replies."""
        gevent.joinall([self.begin(exchange) for exchange in self.ledger.take(most)])

    def begin(self, exchange: Exchange, due: float | None = None) -> gevent.Greenlet:
        """Send a request without waiting; its response time starts at `due` (seconds since 1970), if given."""
        return self._under_way.spawn(self._exchange, exchange, due)

    def _exchange(self, exchange: Exchange, due: float | None) -> None:
        identity = self.ledger.new_id()
        with self.client.request(
            exchange.method,
            exchange.path,
            name=exchange.name,
            data=exchange.body,
            headers={**exchange.headers, **self._authorization, **self.extra_headers, "X-Request-ID": identity},
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


def fault_of(reply: FastResponse, exchange: Exchange, identity: str) -> Fault | None:
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
        self.period = self.ledger.users / self.ledger.rate if self.ledger.rate else 0.0
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

    @task
    def step(self) -> None:
        self.send()


class Pieces(RolloutUser):
    """A GRPO trainer that sends each step as 20 requests at once, on as many connections, and waits for all of them."""

    concurrency = 20

    @task
    def step(self) -> None:
        self.send(self.concurrency)


class Singles(PacedUser):
    """Rollouts sent as they finish, one response per request, on persistent connections."""


class SinglesReconnecting(PacedUser):
    """Rollouts sent as they finish, each on a new TCP connection, as some trainers do."""

    extra_headers: ClassVar[dict[str, str]] = {"Connection": "close"}


class Mixed(PacedUser):
    """Valid groups, malformed responses and requests that must be refused, concurrently: none may affect another."""


class Steady(RolloutUser):
    """A source of `--rate` requests per second, whatever the earlier replies; each in flight has its own connection.

    Response times are measured from when the request was due. A closed loop would send nothing while the service
    stalls, and so count one slow request while a hundred would have waited (coordinated omission).
    """

    concurrency = 1_000

    def on_start(self) -> None:
        self.due = time.time()

    def wait_time(self) -> float:
        """Return the seconds until the next request is due; 0 if that has passed."""
        return max(0.0, self.due - time.time())

    @task
    def arrive(self) -> None:
        for exchange in self.ledger.take():
            self.begin(exchange, self.due)
            self.due += 1 / self.ledger.rate
