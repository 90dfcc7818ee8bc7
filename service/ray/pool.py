"""A pool of actors that split each batch among them, for scoring inside a training job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Self

import numpy as np

from ...kernels.column import TextColumn
from ..errors import InvalidReference, Issue
from ..rewards.batch import Batch, read_objects
from ..rewards.scorer import Scorer
from ..rewards.scores import Scores
from ..rewards.scoring import attempt, in_batch, read_or_score, score
from ..scoring.column_scorer import Columns, ColumnScorer, join_columns
from ..scoring.reference_reader import as_column, place_of
from ..scoring.references import ReferenceTexts
from ..scoring.texts import strings_of, text_column
from ..settings import ScoreSettings
from ..tasks.task import import_optional

MIN_ROWS = 64
"""Minimum responses per actor."""

RETRIES = 3
"""How often a piece is retried if its actor dies. Scoring has no side effects, so this is safe."""


class PoolActor:
    """A scorer in a separate process. Columns are passed as arrays in Ray's object store."""

    def __init__(self, overrides: Mapping[str, Any], threads: int) -> None:
        self._scorer = Scorer(threads=threads, **overrides)

    def ready(self) -> str:
        """Return the digest of the configuration, once the kernels are compiled."""
        return self._scorer.config_id

    def score(
        self,
        responses: TextColumn,
        references: ReferenceTexts,
        index: np.ndarray,
        steps: bool = False,
    ) -> tuple[Sequence[Issue], Columns | None]:
        """Return issues, and the columns unless there are issues."""
        batch = Batch(
            responses=TextColumn.of(*responses),
            references=references._replace(texts=TextColumn.of(*references.texts)),
            reference_index=index,
            steps=steps,
            configurations={"config": self._scorer.columns},
        )
        columns = attempt(batch, read_or_score)
        return ((), columns) if isinstance(columns, Columns) else (columns.issues, None)


class ScorerPool:
    """A pool of actors with one configuration; results are bit-identical to `Scorer`'s.

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
        steps: bool = False,
    ) -> Scores:
        """Score with SCORE like `Scorer.score`, with the same errors; thread-safe."""
        batch = read_objects(ColumnScorer([self.settings], 1), responses, references, reference_index, groups)
        batch.steps = steps
        return score(batch, score_kernels=self._score_pieces)

    async def score_async(
        self,
        responses: Sequence[str],
        references: Sequence[str | Mapping[str, Any]],
        reference_index: Sequence[int] | np.ndarray | None = None,
        groups: Sequence[str | int] | np.ndarray | None = None,
        steps: bool = False,
    ) -> Scores:
        """Score without blocking the event loop."""
        return await asyncio.to_thread(self.score, responses, references, reference_index, groups, steps)

    def _score_pieces(self, part: Batch) -> Any:
        """Do what `read_or_score` does for rows of SCORE, in all actors; raise InvalidReference."""
        assert part.references is not None
        references, malformed = as_column(part.references)
        if malformed or part.read_only:
            return read_or_score(part)
        whole = replace(part, responses=text_column(strings_of(part.responses or [])), references=references)
        pieces = pieces_of(whole, len(self._actors))
        waiting = []
        for piece in pieces:
            actor = self._actors[next(self._turn) % len(self._actors)]
            arguments = piece.responses, piece.references, piece.reference_index, piece.steps
            waiting.append(actor.score.remote(*arguments))
        results = self._ray.get(waiting)
        issues = {
            in_batch(part, piece, issue)
            for piece, (piece_issues, _columns) in zip(pieces, results, strict=True)
            for issue in piece_issues
        }
        if issues:
            raise InvalidReference(sorted(issues, key=place_of))
        return join_columns([columns for _issues, columns in results])


def pieces_of(batch: Batch, max_pieces: int) -> list[Batch]:
    """Split a batch of columns into at most `max_pieces` slices of similar size in bytes, each with its references.

    Unused references go with the first slice, because they must be valid too.
    """
    responses, references, index = batch.responses, batch.references, batch.reference_index
    assert isinstance(responses, TextColumn)
    assert references is not None
    assert index is not None
    number = max(1, min(max_pieces, responses.rows // MIN_ROWS))
    ends = np.searchsorted(responses.offsets, np.linspace(0, responses.offsets[-1], number + 1)[1:-1])
    cuts = np.unique([0, *ends.tolist(), responses.rows]).tolist()
    needed = np.setdiff1d(np.arange(references.rows), index)
    pieces = []
    for first, last in zip(cuts[:-1] or [0], cuts[1:] or [0], strict=True):
        needed = np.union1d(needed, index[first:last])
        pieces.append(batch.at(np.arange(first, last), needed, np.searchsorted(needed, index[first:last])))
        needed = needed[:0]
    return pieces
