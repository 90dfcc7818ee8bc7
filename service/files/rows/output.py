"""Makes the rows of scored rollouts: the input's rows with their results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from .rows import Rollout

__all__ = ["RESULT_NAMES", "error_row", "with_results"]

RESULT_NAMES = frozenset({"reward", "reason", "components", "advantage", "error"})
"""Fields added to rows; those of the input with these names are replaced."""


def with_results(rollout: Rollout, results: Mapping[str, Any]) -> bytes:
    """Return the row as one line of JSON without line end, with `results` after the fields of the input.

    The fields of the input are copied as text, so that no number or spelling changes.
    """
    added = orjson.dumps(results)
    kept = rollout.text if rollout.names.isdisjoint(RESULT_NAMES) else _without_results(rollout.text)
    body = kept[1:-1].strip()
    return b"{" + body + (b"," if body else b"") + added[1:]


def error_row(rollout: Rollout) -> bytes:
    """Return the row with `error` instead of results; only `error` if it is not an object."""
    assert rollout.fault is not None
    error = {**rollout.fault._asdict(), rollout.location.kind: rollout.location.number}
    return with_results(rollout, {"error": error}) if rollout.text else orjson.dumps({"error": error})


def _without_results(text: bytes) -> bytes:
    record = {name: value for name, value in json.loads(text).items() if name not in RESULT_NAMES}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
