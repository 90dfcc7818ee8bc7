"""The metrics of `assay evaluate` on prepared rows: some are no means, so the service computes them over all rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from assay_client.adapters.common import sync_client
from assay_client.json_text import dumps
from assay_client.tasks import SCORE

from .rows import PreparedRow

__all__ = ["METRICS", "evaluate", "record_of"]

METRICS = {
    SCORE: ("semantic_a", "order_lcs", "order_s", "order_tau", "step_m"),
    "bioprobench.pqa": ("accuracy", "brier", "failed", "accuracy_over_all"),
    "bioprobench.ord": ("exact_match", "kendall_tau", "kendall_tau_macro", "failed", "exact_match_over_all"),
    "bioprobench.err": ("accuracy", "precision", "recall", "f1", "failed", "accuracy_over_all"),
}


def record_of(row: PreparedRow, response: str) -> bytes:
    if row.task == SCORE:
        return dumps({"reference": row.reference, "response": response})
    return dumps({**_benchmark_record(row), "generated_response": response})


def _benchmark_record(row: PreparedRow) -> dict[str, Any]:
    try:
        record = json.loads(row.reference)
    except ValueError:
        record = None
    if isinstance(record, dict):
        return record
    if row.task == "bioprobench.err":
        return {"is_correct": row.reference.strip().lower() == "true"}
    return {"answer": row.reference}


def evaluate(task: str, records: Sequence[bytes]) -> dict[str, Any]:
    """Return the service's evaluation of records of one task: `aggregate` and `per_record`, a value each or None."""
    client = sync_client()
    options = json.loads(client.settings.merged(None, task))
    if task == SCORE:  # settings of the reward: one is an option of the evaluation too
        options = {name: value for name, value in options.items() if name == "think_prefilled"}
    about = dumps({"task": task, "options": {**options, "metrics": METRICS[task]}})
    return client.request("/v1/evaluate", about[:-1] + b',"records":[' + b",".join(records) + b"]}")
