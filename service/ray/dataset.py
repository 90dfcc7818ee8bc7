"""Rewards for a Ray data set, batch by batch, however many rollouts it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import InvalidRequest, Issue
from ..evaluate.import_optional import import_optional
from ..files.columns.batch_scorer import BatchScorer, ScoredBatch
from ..files.columns.results import result_fields
from ..files.rows.rows import Fields
from ..http.wire.arrow_codec import REASON_NAMES
from ..scoring.scorer import Scorer
from ..settings import ScoreSettings

__all__ = ["DatasetScorer", "score_dataset"]

ERROR = pa.struct([("reason", pa.string()), ("detail", pa.string())])
"""Why a row has no reward."""


def score_dataset(
    dataset: Any,
    *,
    response: str = "response",
    reference: str = "reference",
    components: bool = False,
    batch_size: int = 4096,
    actors: int | tuple[int, int] | None = None,
    cores: int = 1,
    **overrides: Any,
) -> Any:
    """The data set with the columns `reward`, `reason` and `error`, and with `components` one for each of them.

    response, reference: names of its columns: text, or for references steps as well.
    batch_size: rows that are scored at once. actors: how many, or the least and the most; by default as many as there
    are cores. cores: of each actor, and its threads. overrides: settings of the reward.

    A row that cannot be scored has no reward but an `error` (struct of reason and detail), and costs no other row its
    own. Batches are Arrow tables from end to end: no response becomes a Python object. Advantages need whole groups,
    which batches may cut: group the result by prompt for them.

    Raises InvalidSetting; NotInstalled without Ray. Columns that are missing, or that are there already, end the run
    with InvalidRequest.
    """
    ray, data = (import_optional(n, "ray", "scoring a data set", "assay.service.ray") for n in ("ray", "ray.data"))
    ScoreSettings.checked(overrides)
    if actors is None:
        actors = (1, max(1, int(ray.cluster_resources().get("CPU", 1)) // max(1, cores)))
    least, most = (actors, actors) if isinstance(actors, int) else actors
    return dataset.map_batches(
        DatasetScorer,
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=data.ActorPoolStrategy(min_size=least, max_size=most),
        num_cpus=cores,
        fn_constructor_kwargs={
            "response": response,
            "reference": reference,
            "components": components,
            "threads": cores,
            "overrides": overrides,
        },
    )


class DatasetScorer:
    """Scores Arrow tables; one object a worker."""

    def __init__(
        self, response: str, reference: str, components: bool, threads: int, overrides: Mapping[str, Any]
    ) -> None:
        self._names = (response, reference)
        self._components = components
        self._batches = BatchScorer(Scorer(threads=threads, **overrides), Fields(response, reference), False)

    def __call__(self, table: Any) -> Any:
        """The table with its result columns, the same for every table of one data set."""
        added = [*result_fields(self._components, False), pa.field("error", ERROR)]
        self._check(table, [field.name for field in added])
        (batch,) = table.select(list(self._names)).combine_chunks().to_batches() or [empty_batch(table, self._names)]
        batch.validate(full=True)  # kernels trust offsets and UTF-8
        scored = self._batches.score(batch)
        for field, column in zip(added, self._columns(scored), strict=True):
            table = table.append_column(field, column)
        return table

    def _check(self, table: Any, added: list[str]) -> None:
        names = table.schema.names
        issues = [
            Issue(name, "missing_field", "one column of this name is required")
            for name in self._names
            if names.count(name) != 1
        ]
        issues += [
            Issue(name, "duplicate_field", "the data set has a column of this name already")
            for name in added
            if name in names
        ]
        if issues:
            raise InvalidRequest(issues)

    def _columns(self, scored: ScoredBatch) -> list[Any]:
        """Reward, reason, components as asked for, and error; null where a row has the other."""
        scores, good = scored.scores, scored.good
        codes = spread(scores.reason_codes, good, np.uint8)
        columns = [pa.array(spread(scores.rewards, good, np.float64), mask=~good)]
        columns.append(REASON_NAMES.take(pa.array(codes, mask=~good)))
        if self._components:
            columns += [pa.array(spread(c, good, np.float64), mask=~good) for c in scores.components.values()]
        errors: list[dict[str, str] | None] = [None] * len(good) if scored.faults else []
        for row, fault in scored.faults.items():
            errors[row] = fault._asdict()
        columns.append(pa.array(errors, ERROR) if errors else pa.nulls(len(good), ERROR))
        return columns


def empty_batch(table: Any, names: tuple[str, ...]) -> Any:
    fields = [table.schema.field(name) for name in names]
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in fields], schema=pa.schema(fields))


def spread(values: np.ndarray, good: np.ndarray, kind: type) -> np.ndarray:
    """The values at the rows that are good, 0 at the others."""
    column: np.ndarray = np.zeros(len(good), kind)
    column[good] = values
    return column
