"""A pool of actors that split each batch among them, for scoring inside a training job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, Self

import numpy as np

from ...kernels.column import TextColumn
from ..errors import InvalidReference, Issue, row_of
from ..evaluate.optional_dependencies import import_optional
from ..rewards.batch import Batch, read_objects
from ..rewards.scorer import Scorer, merge, score_here, split
from ..rewards.scores import Scores
from ..scoring.column_scorer import Columns, ColumnScorer
from ..scoring.text_columns import references_as_column, strings_of, text_column
from ..settings import ScoreSettings

__all__ = ["PoolActor", "ScorerPool", "pieces_of"]

MIN_ROWS = 64
"""Minimum responses per actor."""

RETRIES = 3
"""How often a piece is retried if its actor dies. Scoring has no side effects, so this is safe."""


class Piece(NamedTuple):
    """A slice [first, last) of the responses: `rows`, the references it needs, and `positions`, for each response the
    position of its reference in `rows`.
    """

    first: int
    last: int
    rows: np.ndarray
    positions: np.ndarray


class PoolActor:
    """A scorer in a separate process. Columns are passed as arrays in Ray's object store."""

    def __init__(self, overrides: Mapping[str, Any], threads: int) -> None:
        self._scorer = Scorer(threads=threads, **overrides)

    def ready(self) -> str:
        """Return the digest of the configuration, once the kernels are compiled."""
        return self._scorer.config_id

    def score(self, responses: TextColumn, references: TextColumn, index: np.ndarray) -> tuple[Any, ...]:
        """Return (issues, rewards, reason codes, measures); with issues, by row of `references`, the rest is None."""
        responses, references = TextColumn.of(*responses), TextColumn.of(*references)
        try:
            scores = self._scorer.score_columns(responses, references, index)
        except InvalidReference as error:
            return error.issues, None, None, None
        return (), scores.rewards, scores.reason_codes, scores.measures


class ScorerPool:
    """A pool of actors with one configuration; results are bit-identical to those of `Scorer`.

    >>> with ScorerPool(actors=8, order="lcs") as pool:   # doctest: +SKIP
    ...     scores = pool.score(responses, references, reference_index)

    actors: their number. cores: cores and threads of each actor. options: further Ray options of the actors, such as
    `scheduling_strategy` or `runtime_env`. An actor that dies is restarted and its pieces are retried.
    Raises InvalidSetting as `Scorer` does, and NotInstalled without Ray.
    """

    def __init__(
        self,
        actors: int = 1,
        *,
        cores: int = 1,
        options: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> None:
        self._ray = import_optional("ray", "ray", "the pool", "assay.service.ray")
        self.settings = ScoreSettings.checked(overrides)
        self.config_id, self.signature = self.settings.config_id, self.settings.signature
        chosen = {"num_cpus": cores, "max_restarts": -1, "max_task_retries": RETRIES} | dict(options or {})
        actor = self._ray.remote(PoolActor).options(**chosen)
        self._actors = [actor.remote(overrides, cores) for _ in range(max(1, actors))]
        self._turn = count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the actors."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []

    def wait_until_ready(self) -> None:
        """Wait until every actor has compiled its kernels; a batch sent earlier waits for them anyway."""
        self._ray.get([actor.ready.remote() for actor in self._actors])

    def score(
        self,
        responses: Sequence[str],
        references: Sequence[str | Mapping[str, Any]],
        reference_index: Sequence[int] | np.ndarray | None = None,
        groups: Sequence[str | int] | np.ndarray | None = None,
    ) -> Scores:
        """Score with SCORE like `Scorer.score`, with the same errors; thread-safe."""
        batch = self._submitted(responses, references, reference_index, groups)
        return self._gathered(*batch, self._ray.get(batch[-1]))

    async def score_async(
        self,
        responses: Sequence[str],
        references: Sequence[str | Mapping[str, Any]],
        reference_index: Sequence[int] | np.ndarray | None = None,
        groups: Sequence[str | int] | np.ndarray | None = None,
    ) -> Scores:
        """Score without blocking the event loop."""
        batch = await asyncio.to_thread(self._submitted, responses, references, reference_index, groups)
        return self._gathered(*batch, await asyncio.gather(*batch[-1]))

    def _submitted(
        self, responses: Any, references: Any, given: Any, groups: Any
    ) -> tuple[Batch, list[Piece], list[Any]]:
        batch = read_objects(ColumnScorer([self.settings], 1), responses, references, given, groups)
        parts = split(batch)
        if batch.issues:
            merge(batch, parts, list(map(score_here, parts)))  # raises
        column = text_column(strings_of(batch.responses or []))
        index = batch.reference_index
        assert index is not None
        expected, malformed = references_as_column(strings_of(batch.references or []))
        if malformed:
            merge(batch, parts, list(map(score_here, parts)))
        pieces = pieces_of(column, expected.rows, index, len(self._actors))
        waiting = []
        for piece in pieces:
            actor = self._actors[next(self._turn) % len(self._actors)]
            texts = rows_between(column, piece.first, piece.last)
            waiting.append(actor.score.remote(texts, rows_at(expected, piece.rows), piece.positions))
        return batch, pieces, waiting

    def _gathered(self, batch: Batch, pieces: list[Piece], _: object, results: list[Any]) -> Scores:
        issues: dict[int, Issue] = {}
        for piece, (found, *_columns) in zip(pieces, results, strict=True):
            for issue in found:
                row = int(piece.rows[row_of(issue)])
                issues[row] = issue._replace(path=f"references[{row}]")
        if issues:
            raise InvalidReference([issues[row] for row in sorted(issues)])
        _, rewards, codes, measures = zip(*results, strict=True)
        columns = np.concatenate(rewards)[None], np.concatenate(codes)[None], np.concatenate(measures, axis=1)[None]
        return merge(batch, [batch], [Columns(*columns)])


def pieces_of(responses: TextColumn, references: int, index: np.ndarray, max_pieces: int) -> list[Piece]:
    """Split a batch into at most `max_pieces` slices of similar size in bytes; every reference is in at least one.

    Unused references go with the first slice, because they must be valid too.
    """
    number = max(1, min(max_pieces, responses.rows // MIN_ROWS))
    ends = np.searchsorted(responses.offsets, np.linspace(0, responses.offsets[-1], number + 1)[1:-1])
    cuts = np.unique([0, *ends.tolist(), responses.rows])
    pieces = []
    for first, last in zip(cuts[:-1].tolist() or [0], cuts[1:].tolist() or [0], strict=True):
        rows, local = np.unique(index[first:last], return_inverse=True)
        pieces.append(Piece(first, last, rows, local.astype(np.int64)))
    unused = np.setdiff1d(np.arange(references), index)
    pieces[0] = pieces[0]._replace(rows=np.concatenate([pieces[0].rows, unused]).astype(np.int64))
    return pieces


def rows_between(column: TextColumn, first: int, last: int) -> TextColumn:
    """Return the rows [first, last) without copying their bytes."""
    offsets = column.offsets[first : last + 1]
    return TextColumn.of(column.data[offsets[0] : offsets[-1]], offsets - offsets[0])


def rows_at(column: TextColumn, rows: np.ndarray) -> TextColumn:
    """Return these rows, in this order; their bytes are copied at once."""
    lengths = column.lengths[rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    bytes_at = np.repeat(column.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return TextColumn.of(column.data[bytes_at], offsets)
