"""A GRPO trainer that sends each step in one request, and the next when it has the rewards."""

from __future__ import annotations

from locust import task
from ramp_and_hold import RampAndHold
from rollout_user import RolloutUser

__all__ = ["RampAndHold", "Trainer"]


class Trainer(RolloutUser):
    @task
    def step(self) -> None:
        self.send()
