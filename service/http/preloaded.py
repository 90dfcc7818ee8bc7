"""Imported only by the server from which processes are forked, so that each starts with everything loaded."""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported: only a process without threads may be forked

from ...kernels.warmup import warmup
from ..evaluate.registry import every_task
from .endpoints import evaluate, score
from .endpoints.trainers import aggregate
from .request import jobs

__all__ = ["aggregate", "evaluate", "jobs", "score"]

every_task()
warmup()
