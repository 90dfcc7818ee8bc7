"""The rewards of tasks other than SCORE for the rows of a request, from columns to columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import orjson

from ....kernels.column import TextColumn
from ....kernels.json_text.columns import FIT, FROM_STEPS
from ...errors import InvalidReference, Issue, ScoringError
from ...evaluate.mixed import Part
from ...evaluate.task import OUT_OF_TIME
from ...evaluate.task_rewards import TaskScores, read_references, reasons_of, reward_responses, reward_task
from .frames import Buffer, pack, unpack
from .json_codec import Limits, check_containers
from .problems import Problem, Refusal, invalid_request
from .stage_times import StageTimes

__all__ = ["OtherRows", "Others", "Outcome", "assemble", "read_pieces", "score_frames", "score_others"]

QUICK_BYTES = 4096
"""Maximum bytes of rows that need no separate process, which takes 3 ms more. Usually their rewards take 0.1 ms; the
worst answer, nested lists for ORD, takes up to 15 ms."""

PIECE_ROWS = 256
PIECE_BYTES = 1 << 19
"""Maximum rows whose rewards a job computes together, and bytes of their responses if they are several; what is done is
not lost if the job is killed."""

COLUMNS_OF_TASK = 7
"""Columns of one task in the rows for another process."""

NO_ROWS = np.empty(0, np.int64)

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

    def pack(self) -> list[Buffer]:
        """Return the rows as the parts of a body for `score_frames`."""
        tasks, columns = [], []
        for rows in self.tasks:
            options = None if rows.options is None else rows.options.model_dump(mode="json")
            tasks.append({"code": rows.part.code, "mixed": rows.part.mixed, "options": options})
            columns += [rows.part.references, rows.part.reference_index, rows.kinds]
            for texts in (rows.responses, rows.references):
                columns += [texts.data[texts.offsets[0] : texts.offsets[-1]], texts.offsets - texts.offsets[0]]
        return pack({"tasks": tasks, "valid": self.valid}, columns)

    @classmethod
    def unpack(cls, body: bytes) -> Others:
        """Return the rows that `pack` has packed."""
        head, columns = unpack(body)
        tasks = []
        for number, task in enumerate(head["tasks"]):
            references, index, kinds, *texts = columns[COLUMNS_OF_TASK * number : COLUMNS_OF_TASK * (number + 1)]
            part = Part(task["code"], np.arange(len(index)), references, index, task["mixed"])
            options = reward_task(part.task).options
            read = None if task["options"] is None else options.model_validate_json(orjson.dumps(task["options"]))
            tasks.append(OtherRows(part, read, TextColumn.of(*texts[:2]), TextColumn.of(*texts[2:]), kinds))
        return cls(tasks, head["valid"])


Outcome = TaskScores | Problem | None
"""Of the rows of one task: their scores, the problem with their references, or None if another part is invalid."""


class Piece(NamedTuple):
    """What was computed for some rows of one task: their scores, or the problem with their references."""

    task: int
    """Its number among the tasks of `Others`."""
    rows: np.ndarray
    """int64, numbers of rows of the task."""
    result: TaskScores | Problem


def score_frames(body: bytes, limits: Limits, times: StageTimes) -> Iterator[list[Buffer]]:
    """Score packed `Others` in another process, and yield each piece as the parts of a frame; raise Problem."""
    others = Others.unpack(body)
    for piece in score_pieces(others, limits, times):
        if isinstance(piece.result, Problem):
            refusal = Refusal.of(piece.result).model_dump(mode="json")
            yield pack({"task": piece.task, "refusal": refusal}, [])
        else:
            measures = [piece.result.components[name] for name in components_of(others, piece.task)]
            columns = [piece.rows, piece.result.rewards, *measures, piece.result.reason_codes]
            yield pack({"task": piece.task, "refusal": None}, columns)


def read_pieces(others: Others, frames: Iterable[bytes]) -> Iterator[Piece]:
    """Yield the pieces in the frames of `score_frames`; raise ValueError for any that it cannot have written."""
    for frame in frames:
        head, columns = unpack(frame)
        if head["refusal"] is not None:
            refusal = Refusal.model_validate_json(orjson.dumps(head["refusal"]))
            yield Piece(head["task"], NO_ROWS, refusal.problem())
            continue
        part = others.tasks[head["task"]].part
        rows, rewards, *measures, reason_codes = columns
        scores = TaskScores(np.full(len(rows), part.code, np.uint8), part.reference_index[rows])
        scores.rewards[:] = rewards
        scores.reason_codes[:] = reason_codes
        for name, column in zip(components_of(others, head["task"]), measures, strict=True):
            scores.components[name][:] = column
        numbers = np.isfinite(scores.rewards).all() and np.isfinite(scores.measures).all()
        if not numbers or (reason_codes >= len(reasons_of(part.task))).any():
            raise ValueError("a job has returned numbers that cannot be rewards")
        yield Piece(head["task"], rows, scores)


def components_of(others: Others, task: int) -> tuple[str, ...]:
    """Return the components of a task by its number among the tasks of `others`."""
    return reward_task(others.tasks[task].part.task).components


def score_others(others: Others, limits: Limits, times: StageTimes) -> Sequence[Outcome]:
    """Return the outcome of each task; raise Problem `too-large` above `max_compared_bytes`."""
    return assemble(others, score_pieces(others, limits, times))


def assemble(others: Others, pieces: Iterable[Piece]) -> Sequence[Outcome]:
    """Return the outcome of each task from its pieces; rows in none of them are `out_of_time`."""
    outcomes: list[Outcome] = [None] * len(others.tasks)
    for piece in pieces:
        if isinstance(piece.result, Problem):
            outcomes[piece.task] = piece.result
            continue
        scores = outcomes[piece.task]
        if not isinstance(scores, TaskScores):
            scores = outcomes[piece.task] = unscored(others.tasks[piece.task].part)
        scores.put_rows(piece.rows, piece.result)
    if others.valid and not any(isinstance(outcome, Problem) for outcome in outcomes):
        pairs = zip(others.tasks, outcomes, strict=True)
        return [unscored(rows.part) if outcome is None else outcome for rows, outcome in pairs]
    return outcomes


def unscored(part: Part) -> TaskScores:
    """Return the scores of rows for which there was no time."""
    scores = TaskScores(np.full(len(part.rows), part.code, np.uint8), part.reference_index)
    scores.reason_codes[:] = list(reasons_of(part.task)).index(OUT_OF_TIME)
    return scores


def score_pieces(others: Others, limits: Limits, times: StageTimes) -> Iterator[Piece]:
    """Yield the scores of all rows piece by piece, or the problems of references; raise Problem as `score_others`."""
    times.start()
    read = []
    refused = False
    for number, rows in enumerate(others.tasks):
        try:
            read.append(read_references(reward_task(rows.part.task), references_of(rows), limits.max_reference_bytes))
        except ScoringError as error:
            refused = True
            yield Piece(number, NO_ROWS, invalid_request(rows.part.issues_of(error.issues)))
    times.decoded()
    if not others.valid or refused:
        return
    for rows, references in zip(others.tasks, read, strict=True):
        if reward_task(rows.part.task).compares:
            check_compared(references, rows.part.reference_index, limits.max_compared_bytes)
    for number, (rows, references) in enumerate(zip(others.tasks, read, strict=True)):
        task, index = reward_task(rows.part.task), rows.part.reference_index
        responses = texts_of(rows.responses)
        for chosen in pieces_of(index, rows.responses.lengths):
            texts = [responses[row] for row in chosen.tolist()]
            try:
                yield Piece(number, chosen, reward_responses(task, texts, references, index[chosen], rows.options))
            except ScoringError as error:
                yield Piece(number, NO_ROWS, invalid_request(rows.part.issues_of(error.issues)))
                break
    times.scored()


def pieces_of(reference_index: np.ndarray, lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the numbers of all rows in pieces; rows of one reference, which each piece reads once, are neighbors.

    lengths: int64 (n,), bytes of the responses.
    """
    order = np.argsort(reference_index, kind="stable")
    ends = np.cumsum(lengths[order])
    start, begun = 0, 0
    while start < len(order):
        within = int(np.searchsorted(ends, begun + PIECE_BYTES, side="right"))
        stop = min(max(within, start + 1), start + PIECE_ROWS)
        yield order[start:stop]
        start, begun = stop, int(ends[stop - 1])


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
