"""Actors that share each batch between them: scoring inside a training job, on as many nodes as it has."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, Self

import numpy as np

from ...kernels.column import TextColumn
from ...kernels.score import COMPONENTS
from ..errors import InvalidReference, Issue, row_of
from ..evaluate.import_optional import import_optional
from ..scoring.references import issues_of_all
from ..scoring.scorer import Scorer, check_index, resolve_reference_index
from ..scoring.scores import Scores
from ..scoring.text_columns import checked_texts, references_as_column, text_column
from ..settings import ScoreSettings

__all__ = ["PoolActor", "ScorerPool", "pieces_of"]

MIN_ROWS = 64
"""Fewer responses than this are not worth a message to another actor."""

RETRIES = 3
"""How often a piece is scored again whose actor has died. Scoring has no side effects, so this is safe."""


class Piece(NamedTuple):
    """A slice [first, last) of the responses with the references that it needs: `rows` of the whole batch's, and
    `places`, the reference of each response among them."""

    first: int
    last: int
    rows: np.ndarray
    places: np.ndarray


class PoolActor:
    """One actor: a scorer in a process of its own. Columns come and go as arrays of Ray's object store."""

    def __init__(self, overrides: Mapping[str, Any], threads: int) -> None:
        self._scorer = Scorer(threads=threads, **overrides)

    def ready(self) -> str:
        """Answers once the kernels are compiled: the digest of the configuration."""
        return self._scorer.config_id

    def score(self, responses: TextColumn, references: TextColumn, index: np.ndarray) -> tuple[Any, ...]:
        """(issues, rewards, reason codes, measures): issues, by row of `references`, leave the others empty."""
        responses, references = TextColumn.of(*responses), TextColumn.of(*references)
        try:
            scores = self._scorer.score_columns(responses, references, index)
        except InvalidReference as error:
            return error.issues, None, None, None
        return (), scores.rewards, scores.reason_codes, scores.measures


class ScorerPool:
    """A number of actors under one configuration, and the same numbers as `Scorer`, to the last bit.

    >>> with ScorerPool(actors=8, order="lcs") as pool:   # doctest: +SKIP
    ...     scores = pool.score(responses, references, reference_index)

    actors: how many. cores: of each, and its threads. options: further options of Ray for the actors, such as
    `scheduling_strategy` or `runtime_env`. An actor that dies is started again, and what it had is scored again.
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
        self.config_id = self.settings.config_id
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
        """Return once every actor has compiled its kernels; a batch before that merely waits for them."""
        self._ray.get([actor.ready.remote() for actor in self._actors])

    def score(
        self,
        responses: Sequence[str],
        references: Sequence[str | Mapping[str, Any]],
        reference_index: Sequence[int] | np.ndarray | None = None,
    ) -> Scores:
        """Score as `Scorer.score` does; raises as it does. Threads may call this at the same time."""
        batch = self._submitted(responses, references, reference_index)
        return self._gathered(*batch, self._ray.get(batch[-1]))

    async def score_async(
        self,
        responses: Sequence[str],
        references: Sequence[str | Mapping[str, Any]],
        reference_index: Sequence[int] | np.ndarray | None = None,
    ) -> Scores:
        """The same, without keeping the event loop from its other work."""
        batch = await asyncio.to_thread(self._submitted, responses, references, reference_index)
        return self._gathered(*batch, await asyncio.gather(*batch[-1]))

    def _submitted(self, responses: Any, references: Any, given: Any) -> tuple[np.ndarray, list[Piece], list[Any]]:
        column = text_column(checked_texts(responses))
        expected, misshapen = references_as_column(references)
        if misshapen:
            raise InvalidReference(issues_of_all(expected, misshapen, self.settings.max_steps))
        index = resolve_reference_index(column.rows, expected.rows, given)
        check_index(index, expected.rows)
        pieces = pieces_of(column, expected.rows, index, len(self._actors))
        waiting = []
        for piece in pieces:
            actor = self._actors[next(self._turn) % len(self._actors)]
            texts = rows_between(column, piece.first, piece.last)
            waiting.append(actor.score.remote(texts, rows_at(expected, piece.rows), piece.places))
        return index, pieces, waiting

    def _gathered(self, index: np.ndarray, pieces: list[Piece], _: object, results: list[Any]) -> Scores:
        issues: dict[int, Issue] = {}
        for piece, (found, *_columns) in zip(pieces, results, strict=True):
            for issue in found:
                row = int(piece.rows[row_of(issue)])
                issues[row] = issue._replace(path=f"references[{row}]")
        if issues:
            raise InvalidReference([issues[row] for row in sorted(issues)])
        rewards, codes = np.empty(len(index)), np.empty(len(index), np.uint8)
        measures = np.empty((len(COMPONENTS), len(index)))
        for piece, (_none, *columns) in zip(pieces, results, strict=True):
            rewards[piece.first : piece.last], codes[piece.first : piece.last] = columns[0], columns[1]
            measures[:, piece.first : piece.last] = columns[2]
        return Scores(rewards, codes, measures, index, self.settings.advantage_ddof)


def pieces_of(responses: TextColumn, references: int, index: np.ndarray, most: int) -> list[Piece]:
    """At most `most` slices of about as many bytes each; every reference is in at least one of them.

    References that no response points at go with the first slice: they must be readable, too.
    """
    number = max(1, min(most, responses.rows // MIN_ROWS))
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
    """The rows [first, last), without a copy of their bytes."""
    offsets = column.offsets[first : last + 1]
    return TextColumn.of(column.data[offsets[0] : offsets[-1]], offsets - offsets[0])


def rows_at(column: TextColumn, rows: np.ndarray) -> TextColumn:
    """The rows of these numbers, in this order: their bytes are gathered at once."""
    lengths = column.lengths[rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(column.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return TextColumn.of(column.data[places], offsets)
