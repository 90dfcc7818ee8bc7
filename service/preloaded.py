"""Imported by the server from which processes are forked, and nowhere else: each begins with everything loaded."""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported: only a process without threads may be forked

from kernels.warmup import warmup

from . import evaluating, jobs, task_scoring
from .compat import aggregate
from .evaluate.registry import every_task

__all__ = ["aggregate", "evaluating", "jobs", "task_scoring"]

every_task()
warmup()
