"""Valid groups, malformed responses and requests that must be refused, concurrently: none may affect another."""

from __future__ import annotations

from paced_user import PacedUser
from ramp_and_hold import RampAndHold

__all__ = ["RampAndHold", "Visitor"]


class Visitor(PacedUser):
    pass
