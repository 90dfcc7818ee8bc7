"""Prepared rows of several tasks, answers to them, and what they earn: the same for every framework."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from assay_client import Client
from assay_client.tasks import OWN_COMPONENTS
from tests.cases.mixed import OPTIONS
from tests.cases.mixed import ROWS as MIXED

__all__ = ["BAD_REFERENCE", "CONFIG", "SAMPLES", "Sample", "rewards_of", "write_rows"]

CONFIG = json.dumps(OPTIONS)
"""For ASSAY_CLIENT_CONFIG: without it, lexical rewards need a model that is not installed."""

KINDS = {"score": ("planning", "1"), "bioprobench.err": ("operation", "easy")}


class Sample(NamedTuple):
    """One row as `assay prepare` writes it for TRL, and an answer to it."""

    row: dict[str, Any]
    answer: str

    @property
    def question(self) -> str:
        """Return the last message of the prompt, which no other row has."""
        return self.row["prompt"][-1]["content"]


def row_of(number: int, task: str, reference: str) -> dict[str, Any]:
    kind, level = KINDS.get(task, (None, None))
    return {
        "prompt": [
            {"role": "system", "content": "Answer as a biologist."},
            {"role": "user", "content": f"Question {number:02}: what is to be done?"},
        ],
        "reference": reference,
        "id": f"row-{number:02}",
        "task": task,
        "group": f"g{number}",
        "level": level,
        "type": kind,
        "split": "test",
    }


SAMPLES = [
    Sample(row_of(k, mixed_row.task, mixed_row.reference_text), mixed_row.response) for k, mixed_row in enumerate(MIXED)
]
BAD_REFERENCE = Sample(row_of(99, "bioprobench.ord", '{"wrong_steps": 5}'), "any answer")


def write_rows(path: Path, samples: list[Sample] = SAMPLES) -> Path:
    """Write the rows of samples as JSON lines and return the path."""
    path.write_text("".join(json.dumps(sample.row) + "\n" for sample in samples), encoding="utf-8")
    return path


def rewards_of(url: str, samples: list[Sample] = SAMPLES) -> list[tuple[float, str, float, dict[str, float]]]:
    """Return reward, reason, whether it passed and the task's components of each answer, from one request."""
    with Client(url, config=OPTIONS) as client:
        scores = client.score(
            [sample.answer for sample in samples],
            [sample.row["reference"] for sample in samples],
            list(range(len(samples))),
            task=[sample.row["task"] for sample in samples],
        )
    return [
        (row.reward, row.reason, row.passed, {name: row.components[name] for name in OWN_COMPONENTS[row.task]})
        for row in scores.rows()
    ]
