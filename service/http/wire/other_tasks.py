"""The rewards of tasks other than SCORE for the rows of a request, from columns to columns."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import orjson

from ....kernels.column import TextColumn
from ....kernels.json_text.columns import FIT, FROM_STEPS
from ...errors import InvalidReference, Issue, ScoringError
from ...evaluate.mixed import Part
from ...evaluate.task import Advance, ignore_progress
from ...evaluate.task_rewards import TaskScores, read_references, reward_responses, reward_task
from .json_codec import Limits, check_containers
from .problems import Problem, invalid_request
from .stage_times import StageTimes

__all__ = ["OtherRows", "Others", "Outcome", "score_others", "score_pickled"]

QUICK_BYTES = 4096
"""Maximum bytes of rows that need no separate process, which takes 3 ms more. Usually their rewards take 0.1 ms; the
worst answer, nested lists for ORD, takes up to 15 ms."""

NO_STEPS: dict[str, Any] = {"steps": []}
"""In place of steps: a reference of SCORE only, which no other task reads."""


class OtherRows(NamedTuple):
    """The rows of one task."""

    part: Part
    options: Any
    """None if they are invalid."""
    responses: TextColumn
    references: TextColumn
    kinds: np.ndarray
    """uint8 (references,), as `Envelope.reference_kinds`."""

    @property
    def nbytes(self) -> int:
        """Bytes of the texts."""
        return sum(int(column.offsets[-1] - column.offsets[0]) for column in (self.responses, self.references))


class Others(NamedTuple):
    """The rows of a request of all tasks but SCORE."""

    tasks: list[OtherRows]
    valid: bool
    """False if the request has an error already: then references are only read, so that errors name invalid ones."""

    @property
    def is_quick(self) -> bool:
        """Whether their rewards may be computed on the event loop."""
        compare = any(reward_task(rows.part.task).compares for rows in self.tasks)
        return not compare and sum(rows.nbytes for rows in self.tasks) <= QUICK_BYTES


Outcome = TaskScores | Problem | None
"""Of the rows of one task: their scores, the problem with their references, or None if another part is invalid."""


def score_pickled(body: bytes, limits: Limits, check: Callable[[], None], times: StageTimes) -> bytes:
    """Return the pickled outcomes for pickled `Others`, in another process; raise Problem.

    check: raises Problem once the deadline has passed.
    """
    return pickle.dumps(score_others(pickle.loads(body), limits, times, lambda _done: check()))


def score_others(
    others: Others, limits: Limits, times: StageTimes, advance: Advance = ignore_progress
) -> Sequence[Outcome]:
    """Return the outcome of each task; raise Problem `too-large` above `max_compared_bytes`."""
    times.start()
    outcomes: list[Outcome] = []
    read = []
    for rows in others.tasks:
        try:
            read.append(read_references(reward_task(rows.part.task), references_of(rows), limits.max_reference_bytes))
            outcomes.append(None)
        except ScoringError as error:
            outcomes.append(invalid_request(rows.part.issues_of(error)))
    times.decoded()
    if not others.valid or any(outcome is not None for outcome in outcomes):
        return outcomes
    for rows, references in zip(others.tasks, read, strict=True):
        if reward_task(rows.part.task).compares:
            check_compared(references, rows.part.reference_index, limits.max_compared_bytes)
    for k, (rows, references) in enumerate(zip(others.tasks, read, strict=True)):
        task, index = reward_task(rows.part.task), rows.part.reference_index
        try:
            responses = texts_of(rows.responses)
            outcomes[k] = reward_responses(task, responses, references, index, rows.options, advance=advance)
        except ScoringError as error:
            outcomes[k] = invalid_request(rows.part.issues_of(error))
    times.scored()
    return outcomes


def texts_of(column: TextColumn) -> list[str]:
    """Return the texts of a column as strings."""
    data = column.data.tobytes()
    return [data[start:stop].decode() for start, stop in pairwise(column.offsets.tolist())]


def references_of(rows: OtherRows) -> list[Any]:
    """Return the references as values: text, or what its JSON says; raise InvalidReference, and Problem `too-large`."""
    texts = texts_of(rows.references)
    check_containers(rows.references.data.tobytes())
    references: list[Any] = []
    issues = []
    for k, (text, kind) in enumerate(zip(texts, rows.kinds.tolist(), strict=True)):
        try:
            references.append(NO_STEPS if kind == FROM_STEPS else text if kind == FIT else orjson.loads(text))
        except orjson.JSONDecodeError as error:  # a number that no double can represent, or deep nesting
            issues.append(Issue(f"references[{k}]", "bad_reference", f"its JSON cannot be read: {error.msg}"))
    if issues:
        raise InvalidReference(issues)
    return references


def check_compared(references: Sequence[Mapping[str, Any]], reference_index: np.ndarray, max_bytes: int) -> None:
    """Raise Problem `too-large` if the references of all responses have more than `max_bytes` bytes in total."""
    lengths = np.array([len(orjson.dumps(reference)) for reference in references], np.int64)
    compared = int(lengths[reference_index].sum())
    if compared > max_bytes:
        detail = f"the references of all responses have {compared} bytes; this task allows {max_bytes}"
        issue = Issue("reference_index", "too_much_to_compare", detail)
        raise Problem("too-large", "There are too many responses for references of this length.", [issue])
