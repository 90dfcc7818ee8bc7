"""The twin as a program for `assay conformance --engine`: a JSON row in, a JSON row out, in order.

assay conformance --engine "python -m tests.reference.engine"
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .advantages import advantages
from .protocol_metrics import paper_metrics, predicted_steps
from .scorer import UnreadableReferenceError, parse_reference, score_one
from .thoth_metrics import thoth_metrics
from .words import words

Row = Mapping[str, Any]


def score_row(row: Row) -> dict[str, Any]:
    result = score_one(row["response"], parse_reference(row["reference"], row["config"]), row["config"])
    return {"reward": result.pop("reward"), "reason": result.pop("reason"), "components": result}


def steps_row(row: Row) -> dict[str, Any]:
    result = score_one(row["response"], parse_reference(row["reference"], row["config"]), row["config"], steps=True)
    return {"alternative": result["alternative"], "steps": result["steps"]}


def words_row(row: Row) -> dict[str, Any]:
    return {"words": words(row["text"])}


def advantages_row(row: Row) -> dict[str, Any]:
    return {"advantages": advantages(row["rewards"], row["groups"], row["advantage_ddof"])}


def evaluate_row(row: Row) -> dict[str, Any]:
    if row["profile"] == "thoth":
        return {"metrics": thoth_metrics(row["response"], row["reference"])}
    return {"metrics": paper_metrics(predicted_steps(row["response"]), parse_reference(row["reference"]))}


ROWS: dict[str, Callable[[Row], dict[str, Any]]] = {
    "score": score_row,
    "steps": steps_row,
    "words": words_row,
    "advantages": advantages_row,
    "evaluate": evaluate_row,
}


def answer(row: Row) -> dict[str, Any]:
    """Return the answer to a row; an unreadable reference is an error with its reason."""
    try:
        return ROWS[row["kind"]](row)
    except UnreadableReferenceError as error:
        return {"error": error.reason}


def main() -> None:
    for line in sys.stdin:
        row = json.loads(line)
        print(json.dumps({"id": row["id"], **answer(row)}), flush=True)


if __name__ == "__main__":
    main()
