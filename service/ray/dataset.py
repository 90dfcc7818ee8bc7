"""Rewards for a Ray data set of any size, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ...kernels.score import COMPONENTS
from ..errors import InvalidRequest, Issue
from ..records.jobs.row_tasks import RowTasks
from ..records.output.batch_columns import BatchScorer, error_field, result_columns, result_fields
from ..records.rows.rows import Fields
from ..rewards.registry import TASK_COMPONENTS
from ..settings import ScoreSettings
from ..tasks.task import import_optional


def score_dataset(
    dataset: Any,
    *,
    response: str = "response",
    reference: str = "reference",
    task_field: str | None = None,
    task_options: Mapping[str, Any] | None = None,
    components: bool = False,
    steps: bool = False,
    batch_size: int = 4096,
    actors: int | tuple[int, int] | None = None,
    cores: int = 1,
    **overrides: Any,
) -> Any:
    """Add the columns `reward`, `reason`, `error` and, with `components`, one for each component.

    With `steps`, add `steps` (lists of structs) and `alternative` too: see `Scores`.

    response, reference: names of the columns: text, or for references also steps, or lists of these as alternatives.
    task_field: name or dotted path of the column with the task of each row; rows without one are of SCORE, and rows get
    the components of all tasks. task_options: options of other tasks by the task's name.
    batch_size: rows per batch. actors: their number, or minimum and maximum; by default up to one per core.
    cores: cores and threads of each actor. overrides: reward settings.

    A row that cannot be scored has an `error` (struct of reason and detail) instead of a reward and does not affect
    other rows. Batches stay Arrow tables: no response becomes a Python object. Advantages need whole groups, which
    batches may split: compute them on the result, grouped by prompt.

    Raises InvalidSetting, and NotInstalled without Ray. Columns that are missing or exist already end the run with
    InvalidRequest.
    """
    ray, data = (import_optional(n, "ray", "scoring a data set", "assay.service.ray") for n in ("ray", "ray.data"))
    RowTasks(ScoreSettings.checked(overrides), field=task_field, options=task_options)
    if actors is None:
        actors = (1, max(1, int(ray.cluster_resources().get("CPU", 1)) // max(1, cores)))
    min_size, max_size = (actors, actors) if isinstance(actors, int) else actors
    return dataset.map_batches(
        DatasetScorer,
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=data.ActorPoolStrategy(min_size=min_size, max_size=max_size),
        num_cpus=cores,
        fn_constructor_kwargs={
            "response": response,
            "reference": reference,
            "tasks": (task_field, task_options),
            "components": components,
            "steps": steps,
            "threads": cores,
            "overrides": overrides,
        },
    )


class DatasetScorer:
    """Scores Arrow tables; one instance per worker."""

    def __init__(
        self,
        response: str,
        reference: str,
        tasks: tuple[str | None, Mapping[str, Any] | None],
        components: bool,
        threads: int,
        overrides: Mapping[str, Any],
        steps: bool = False,
    ) -> None:
        field, options = tasks
        self._names = (response, reference)
        settings = ScoreSettings.checked(overrides)
        self._tasks = RowTasks(settings, field=field, options=options, threads=threads, steps=steps)
        self._tasks.prepare()
        names = COMPONENTS if field is None else TASK_COMPONENTS
        self._components, self._steps = names if components else (), steps
        self._batches = BatchScorer(self._tasks, Fields(response, reference), False)

    def __call__(self, table: Any) -> Any:
        """Return the table with result columns, which are the same for every table of a data set."""
        added = [*result_fields(self._components, False, self._steps), error_field(numbered=False)]
        self._check(table, [field.name for field in added])
        task_columns = (name for name in self._tasks.columns_of_others() if name in table.schema.names)
        chosen = table.select(list(dict.fromkeys((*self._names, *task_columns)))).combine_chunks()
        (batch,) = chosen.to_batches() or [pa.RecordBatch.from_pylist([], schema=chosen.schema)]
        batch.validate(full=True)  # kernels trust offsets and UTF-8
        columns = result_columns(self._batches.score(batch), self._components)
        for field, column in zip(added, columns, strict=True):
            table = table.append_column(field, column)
        return table

    def _check(self, table: Any, added: list[str]) -> None:
        names = table.schema.names
        missing = "exactly one column with this name is required"
        taken = "the data set already has a column with this name"
        holders = self._tasks.columns
        needed = [*self._names, *([name for name in holders if name in names] or holders)[:1]]
        issues = [Issue(name, "missing_field", missing) for name in needed if names.count(name) != 1]
        issues += [Issue(name, "duplicate_field", taken) for name in added if name in names]
        if issues:
            raise InvalidRequest(issues)
