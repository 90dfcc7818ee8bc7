"""Assay's own answers to the rows of test vectors, in process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import ScoringError
from ..evaluate.evaluation import evaluate
from ..explain.text import canons
from ..rewards.batch import group_numbers
from ..rewards.scorer import Scorer
from ..rewards.scores import group_advantages

__all__ = ["own_answer"]

Row = Mapping[str, Any]


def own_answer(row: Row) -> dict[str, Any]:
    try:
        return {"id": row["id"], **ANSWERS[row["kind"]](row)}
    except ScoringError as error:
        return {"id": row["id"], "error": error.issues[0].reason}


def _score(row: Row) -> dict[str, Any]:
    scores = Scorer(**row["config"], threads=1).score([row["response"]], [row["reference"]])
    components = {name: float(column[0]) for name, column in scores.components.items()}
    return {"reward": float(scores.rewards[0]), "reason": str(scores.reasons[0]), "components": components}


def _words(row: Row) -> dict[str, Any]:
    (canon,) = canons([row["text"]])
    return {"words": canon.split()}


def _advantages(row: Row) -> dict[str, Any]:
    groups, _ = group_numbers(row["groups"], len(row["rewards"]))
    assert groups is not None
    return {
        "advantages": group_advantages(np.array(row["rewards"], np.float64), groups, row["advantage_ddof"]).tolist()
    }


def _evaluate(row: Row) -> dict[str, Any]:
    record = {"response": row["response"], "reference": row["reference"]}
    result = evaluate("score", [record], profile=row["profile"])
    if result.failed:
        return {"error": result.failed[0].reason}
    return {"metrics": {name: float(column[0]) for name, column in result.per_record.items()}}


ANSWERS: dict[str, Callable[[Row], dict[str, Any]]] = {
    "score": _score,
    "words": _words,
    "advantages": _advantages,
    "evaluate": _evaluate,
}
