"""Rollouts sent as they finish, each on a new TCP connection, as some trainers do."""

from __future__ import annotations

from typing import ClassVar

from paced_user import PacedUser
from ramp_and_hold import RampAndHold

__all__ = ["RampAndHold", "ReconnectingSampler"]


class ReconnectingSampler(PacedUser):
    extra_headers: ClassVar[dict[str, str]] = {"Connection": "close"}
