"""Single requests at a constant rate, whatever the earlier replies (an open loop).

Response times are measured from when the request was due. A closed loop would send nothing while the service stalls,
and so count one slow request while a hundred would have waited (coordinated omission).
"""

from __future__ import annotations

import time

from locust import task
from ramp_and_hold import RampAndHold
from rollout_user import RolloutUser

__all__ = ["Arrivals", "RampAndHold"]


class Arrivals(RolloutUser):
    """A source of `--rate` requests per second, with one connection per request in flight."""

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
