"""Parts of a batch with rows of other tasks than SCORE, and the frames in which they travel to jobs.

The parsers of other tasks hold the GIL, so another process may score them. It needs the rows alone: columns and options
go to it as bytes, and columns of rewards come back. Nothing that is read can be executed: a head is JSON, a column is
numbers of one of three types, and every length is checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import orjson

from ...kernels.column import TextColumn
from ..errors import Issue, ScoringError
from ..rewards.batch import Batch
from ..rewards.registry import reward_of, task_reward
from ..rewards.scoring import Outcome
from ..scoring.column_scorer import Columns
from ..scoring.references import ReferenceTexts
from ..scoring.texts import strings_of
from ..tasks.evaluation import task_named
from .json_codec import RequestLimits, check_containers
from .problems import MAX_ERRORS
from .stage_times import StageTimes
from .work import check_compared

HEAD = struct.Struct("<cQ")
LENGTH = struct.Struct("<Q")
TYPES = {"u1": np.uint8, "i8": np.int64, "f8": np.float64}
NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}
Buffer = bytes | bytearray | memoryview


def write_frame(file: BinaryIO, kind: bytes, *parts: Buffer) -> None:
    """Write the parts as one frame: its kind, which is one byte, its length, and its bytes."""
    file.write(HEAD.pack(kind, sum(len(part) for part in parts)))
    for part in parts:
        file.write(part)
    file.flush()


def read_frames(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and bytes of the complete frames of a file, whose writer may have been killed."""
    while len(head := file.read(HEAD.size)) == HEAD.size:
        kind, length = HEAD.unpack(head)
        frame = file.read(length)
        if len(frame) < length:
            return
        yield kind, frame


def pack(head: Mapping[str, Any], columns: Sequence[np.ndarray]) -> list[Buffer]:
    """Return the parts of a frame with a head and columns of uint8, int64 or float64, each of one dimension."""
    shapes = [[NAMES[column.dtype], len(column)] for column in columns]
    text = orjson.dumps({"head": head, "columns": shapes})
    return [LENGTH.pack(len(text)), text, *(np.ascontiguousarray(column).data.cast("B") for column in columns)]


def unpack(frame: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the head and the read-only columns of a frame made by `pack`; raise ValueError for any other."""
    try:
        (length,) = LENGTH.unpack_from(frame)
        position = LENGTH.size + length
        document = orjson.loads(frame[LENGTH.size : position])
        columns = []
        for name, rows in document["columns"]:
            if type(rows) is not int or rows < 0:
                raise ValueError("the length of a column is not a number")
            column = np.frombuffer(frame, TYPES[name], rows, position) if rows else np.empty(0, TYPES[name])
            columns.append(column)
            position += column.nbytes
        head = document["head"]
    except (KeyError, TypeError, struct.error) as error:
        raise ValueError("a frame has no head") from error
    if position != len(frame):
        raise ValueError("a frame has other columns than its head says")
    return head, columns


class UnlistedError(ScoringError):
    """The first issues of a part, and the number of issues that are not listed."""

    def __init__(self, issues: Sequence[Issue], unlisted: int) -> None:
        super().__init__(issues)
        self.unlisted = unlisted


def references_of(part: Batch) -> ReferenceTexts:
    assert part.references is not None
    return part.references


COLUMNS_OF_PART = 6
"""Columns of the rows of one task in the body for another process."""

NO_ROWS = np.empty(0, np.int64)
NO_TEXTS = TextColumn.of(np.empty(0, np.uint8), np.zeros(1, np.int64))


def pack_parts(parts: Iterable[Batch]) -> list[Buffer]:
    """Return parts as the parts of a body for `score_frames`."""
    heads, columns = [], []
    for part in parts:
        options = None if part.read_only else task_reward(part).options_in(part).model_dump(mode="json")
        heads.append({"task": part.task, "options": options})
        references, kinds, _ = references_of(part)
        columns.append(np.empty(0, np.uint8) if kinds is None else kinds)
        columns.append(NO_ROWS if part.read_only or part.reference_index is None else part.reference_index)
        for texts in (NO_TEXTS if part.read_only else part.responses, references):
            assert isinstance(texts, TextColumn)
            columns += [texts.data[texts.offsets[0] : texts.offsets[-1]], texts.offsets - texts.offsets[0]]
    return pack({"parts": heads}, columns)


def unpack_parts(body: bytes, max_reference_bytes: int) -> list[Batch]:
    head, columns = unpack(body)
    parts = []
    for number, task in enumerate(head["parts"]):
        kinds, index, *texts = columns[COLUMNS_OF_PART * number : COLUMNS_OF_PART * (number + 1)]
        options = task["options"]
        read = None if options is None else task_named(task["task"]).options.model_validate_json(orjson.dumps(options))
        parts.append(
            Batch(
                responses=TextColumn.of(*texts[:2]),
                references=ReferenceTexts(TextColumn.of(*texts[2:]), kinds if len(kinds) else None),
                reference_index=index,
                task=task["task"],
                options={task["task"]: read},
                max_reference_bytes=max_reference_bytes,
                read_only=options is None,
            )
        )
    return parts


class PartPiece(NamedTuple):
    """The result for some rows of a part: their rewards, or an error with its issues."""

    part: int
    rows: np.ndarray
    """int64, numbers of rows of the part."""
    result: Columns | UnlistedError


def score_frames(body: bytes, limits: RequestLimits, times: StageTimes) -> Iterator[list[Buffer]]:
    """Score packed parts in another process, and yield each piece as the parts of a frame; raise Problem."""
    for piece in score_pieces(unpack_parts(body, limits.max_reference_bytes), limits, times):
        if isinstance(piece.result, UnlistedError):
            yield pack(
                {"part": piece.part, "issues": [*map(list, piece.result.issues)], "unlisted": piece.result.unlisted}, []
            )
        else:
            (rewards,), (codes,), (measures,) = piece.result[:3]
            yield pack({"part": piece.part, "issues": None}, [piece.rows, codes, rewards, *measures])


def read_pieces(parts: Sequence[Batch], frames: Iterable[bytes]) -> Iterator[PartPiece]:
    """Yield the pieces in the frames of `score_frames`; raise ValueError for any that it cannot have written."""
    for frame in frames:
        head, columns = unpack(frame)
        if head["issues"] is not None:
            issues = [Issue(*map(str, issue)) for issue in head["issues"]]
            yield PartPiece(head["part"], NO_ROWS, UnlistedError(issues, int(head["unlisted"])))
            continue
        reward = reward_of(parts[head["part"]].task)
        rows, codes, rewards, *measures = columns
        if len(measures) != len(reward.components) or {len(column) for column in columns} != {len(rows)}:
            raise ValueError("a job has returned other columns than its task has")
        result = Columns(rewards[None], codes[None], np.array(measures)[None])
        finite = np.isfinite(rewards).all() and np.isfinite(result.measures).all()
        if not finite or (codes >= len(reward.reasons)).any():
            raise ValueError("a job has returned numbers that cannot be rewards")
        yield PartPiece(head["part"], rows, result)


def assemble(parts: Sequence[Batch], pieces: Iterable[PartPiece]) -> list[Outcome]:
    """Return the outcome of each part from its pieces; rows in none of them are `out_of_time`."""
    outcomes: list[Outcome] = [None if part.read_only else task_reward(part).unscored(part.size) for part in parts]
    for part, rows, result in pieces:
        outcome = outcomes[part]
        if isinstance(result, UnlistedError):
            outcomes[part] = result
        elif isinstance(outcome, Columns):
            outcome.put(rows, result)
    return outcomes


def is_unscored(part: Batch, outcome: Outcome) -> bool:
    number = reward_of(part.task).out_of_time
    return isinstance(outcome, Columns) and bool((outcome.reason_codes == number).any())


def score_pieces(parts: Sequence[Batch], limits: RequestLimits, times: StageTimes) -> Iterator[PartPiece]:
    """Yield the rewards of all rows piece by piece, or the errors of parts; raise Problem `too-large`."""
    times.start()
    read: list[Any] = []
    for number, part in enumerate(parts):
        references = references_of(part).texts
        if isinstance(references, TextColumn):
            check_containers(references.data.tobytes())
        try:
            read.append(reward_of(part.task).read_references(part))
        except ScoringError as error:
            yield PartPiece(number, NO_ROWS, first_issues(error))
    times.decoded()
    if len(read) < len(parts) or any(part.read_only for part in parts):
        return
    for part, references in zip(parts, read, strict=True):
        if reward_of(part.task).compares and part.reference_index is not None:
            check_compared(references, part)
    for number, (part, references) in enumerate(zip(parts, read, strict=True)):
        assert part.responses is not None
        assert part.reference_index is not None
        lengths = part.responses.lengths if isinstance(part.responses, TextColumn) else np.array([])
        part.responses = strings_of(part.responses)
        for rows in pieces_of(part.reference_index, lengths):
            piece = part.at(rows, None, part.reference_index[rows])
            try:
                yield PartPiece(number, rows, reward_of(part.task).score(piece, references))
            except ScoringError as error:
                yield PartPiece(number, NO_ROWS, first_issues(error))
                break
    times.scored()


def first_issues(error: ScoringError) -> UnlistedError:
    """Return the issues of an error that a reply may list, without advice for whoever runs the program."""
    return UnlistedError(error.issues[:MAX_ERRORS], max(0, len(error.issues) - MAX_ERRORS))


PIECE_ROWS = 256
PIECE_BYTES = 1 << 19
"""Maximum rows whose rewards a job computes together, and bytes of their responses if they are several; what is done is
not lost if the job is killed."""


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
