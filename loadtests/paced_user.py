"""A user of a stream: one request at a time, at a pace that leaves Locust time to measure."""

from __future__ import annotations

import random
import time

import gevent
from locust import task
from rollout_user import RolloutUser

__all__ = ["PacedUser"]


class PacedUser(RolloutUser):
    """Together, all users send `--rate` requests a second, or as many as they can if it is 0.

    Each has at most one request in flight (a closed loop): when replies are slow, fewer are sent. The scenario
    `steady` measures the waits that this hides.
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
