"""Imported by the server from which processes are forked, and nowhere else: each begins with everything loaded."""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported: only a process without threads may be forked

from ...kernels.warmup import warmup
from ..evaluate.registry import every_task
from .endpoints import evaluate as evaluating
from .endpoints.trainers import aggregate
from .request.work import jobs
from .wire import task_request as task_scoring

__all__ = ["aggregate", "evaluating", "jobs", "task_scoring"]

every_task()
warmup()
