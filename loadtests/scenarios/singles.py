"""Rollouts sent as they finish, one response per request, on persistent connections."""

from __future__ import annotations

from paced_user import PacedUser
from ramp_and_hold import RampAndHold

__all__ = ["RampAndHold", "Sampler"]


class Sampler(PacedUser):
    pass
