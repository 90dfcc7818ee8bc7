"""Rows of several tasks with the rewards that each gets alone, for every face that takes mixed batches.

Rewards are exact: a mixed batch gives the same bits as the rows of one task at a time.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ..http.samples import PERFECT, REFERENCE, STEPS, SWAPPED

__all__ = ["OPTIONS", "ROWS", "Row", "columns"]

ORD = {"wrong_steps": ["b", "c", "a"], "correct_steps": ["a", "b", "c"]}
WET = "a = <Spin>(\n    tube=x\n)\nb = <Mix>(\n    tube=a\n)"
PROGRAM = 'def wash(cells):\n    pass\n\nwash(cells="HeLa")\nspin(cells="HeLa")'

OPTIONS: dict[str, Any] = {"order": "lcs", "bioprobench.ord": {"repeats": "failed"}, "lexical": {"reward": "rouge_l"}}
"""The configuration of these rows: SCORE's settings by name, options of other tasks by the name of the task."""


class Row(NamedTuple):
    """One response with its task, and its exact results."""

    task: str
    response: str
    reference: Any
    """As JSON; some references belong to rows of two tasks."""
    group: str | int
    reward: float
    reason: str
    passed: float

    @property
    def reference_text(self) -> str:
        """The reference where only text can be sent; steps are key lines there."""
        if self.reference == STEPS:
            return REFERENCE
        return self.reference if isinstance(self.reference, str) else json.dumps(self.reference)


def block(text: str) -> str:
    return f"<think>hm</think>[ANSWER_START]{text}[ANSWER_END]"


ROWS = [
    Row("score", PERFECT, REFERENCE, "prompt 1", 1.0, "ok", 1.0),
    Row("bioprobench.pqa", block("5 µM & 90"), "5 µM", "prompt 2", 1.0, "ok", 1.0),
    Row("score", SWAPPED, REFERENCE, "prompt 1", 0.5878679656440358, "ok", 0.0),
    Row("bioprobench.ord", block("[2, 0, 1]"), ORD, 3, 1.0, "ok", 1.0),
    Row("bioprobench.ord", block("[2, 1, 0]"), ORD, 3, 1 / 3, "ok", 0.0),
    Row("bioprobench.ord", block("[2, 0, 1, 1]"), ORD, 3, -1.0, "repeats", 0.0),
    Row("lexical", "Step 1: add lysis buffer", REFERENCE, "prompt 4", 0.45454545454545453, "ok", 0.0),
    Row("bioprobench.err", block("False"), {"is_correct": False}, "3", 1.0, "ok", 1.0),
    Row("bioprobench.err", "perhaps", {"is_correct": False}, "3", 0.0, "no_truth_value", 0.0),
    Row("score", "nothing", STEPS, "prompt 1", 0.0, "missing_sections", 0.0),
    Row("bioplanner", "spin(cells='HeLa')", PROGRAM, "prompt 5", 0.5, "ok", 0.0),
    Row("sgi.wet_experiment", "<answer>a = <Spin>(\n    tube=x\n)</answer>", WET, "prompt 6", 0.25, "ok", 0.0),
    Row("bioprobench.pqa", block("6 µM & 90"), {"answer": "5 µM"}, "prompt 2", 0.0, "ok", 0.0),
    Row("bioprobench.pqa", "5 µM & 90", {"answer": "5 µM"}, "prompt 2", 0.0, "no_markers", 0.0),
    Row("score", "x" * 262_145, STEPS, "prompt 1", 0.0, "too_long", 0.0),
    Row("bioprobench.err", "x" * 262_145, {"is_correct": True}, "3", 0.0, "too_long", 0.0),
]


def columns(rows: list[Row] = ROWS) -> dict[str, Any]:
    """Return the fields of a JSON request for rows, with each reference once."""
    known: dict[str, int] = {}
    index = [known.setdefault(json.dumps(row.reference, sort_keys=True), len(known)) for row in rows]
    return {
        "responses": [row.response for row in rows],
        "references": [json.loads(text) for text in known],
        "reference_index": index,
        "groups": [row.group for row in rows],
        "task": [row.task for row in rows],
    }
