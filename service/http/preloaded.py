"""Imported by the fork server, so that forked processes start with everything loaded."""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported: a process with threads must not be forked

from ...kernels.warmup import warmup
from ..evaluate.evaluation import every_task
from .endpoints import evaluate, score
from .endpoints.trainers import aggregate
from .request import jobs

__all__ = ["aggregate", "evaluate", "jobs", "score"]

every_task()
warmup()
