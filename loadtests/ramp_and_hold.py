"""The shape of every run: users start one after the other, then all of them stay."""

from __future__ import annotations

from math import ceil

from locust import LoadTestShape

__all__ = ["RampAndHold"]


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
