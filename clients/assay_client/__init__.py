"""Client of an Assay service, for trainers.

`Client` and `AsyncClient` send responses and references and return columns of rewards. They keep connections alive,
enforce a deadline, retry transient failures, and coalesce concurrent single calls into batches. If scoring fails for
good, they raise an `AssayError`: a failure never becomes a reward.
"""

from __future__ import annotations

from .client import AsyncClient, Client
from .credit import token_credit, token_offsets
from .errors import (
    AssayError,
    BadReply,
    InvalidReference,
    InvalidRequest,
    InvalidSetting,
    Issue,
    LocalServiceError,
    ServiceError,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from .results import Score, Scores
from .settings import ClientSettings
from .steps import Step
from .tasks import COMPONENTS, REASONS, REWARD_TASKS, TASK_COMPONENTS, TASK_REASONS

__all__ = [
    "COMPONENTS",
    "REASONS",
    "REWARD_TASKS",
    "TASK_COMPONENTS",
    "TASK_REASONS",
    "AssayError",
    "AsyncClient",
    "BadReply",
    "Client",
    "ClientSettings",
    "InvalidReference",
    "InvalidRequest",
    "InvalidSetting",
    "Issue",
    "LocalServiceError",
    "Score",
    "Scores",
    "ServiceError",
    "Step",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "token_credit",
    "token_offsets",
]

__version__ = "0.3.0"
