"""A Parquet or Arrow file of rollouts in, the same rows with their rewards out, batch by batch.

The file is read twice: its texts for scoring, then all of it for writing, as the columns of the output depend on
every row (`error`, advantages).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ...kernels.score import COMPONENTS
from ..scoring.scorer import Scorer
from .columns.as_rows import json_rows
from .columns.batch_scorer import BatchScorer, is_text
from .columns.output import ColumnOutput
from .columns.results import WaitingResults
from .columns.source import ColumnSource
from .formats import is_columnar
from .progress import Progress
from .rows.atomic_file import beside
from .rows.output import OUR_NAMES
from .rows.rows import DocumentError, Place, Rollout
from .score_rows import Job, Watcher, row_output
from .summary import Summary

__all__ = ["score_columns"]

OURS = b"config_id"
"""Metadata of a file that has results already, which may be replaced."""


def score_columns(
    job: Job, scorer: Scorer, source: ColumnSource, progress: Progress, watcher: Watcher | None = None
) -> Summary:
    """Score the rows of `source` and write them in their order.

    Rows with a fault are listed on standard error and written with their error, and null for a reward. Raises OSError
    where the output cannot be written, DocumentError for columns that do not fit or a file that is damaged, and
    InvalidRequest where advantages were asked for and no group has two rewards.
    """
    check_columns(job, source.schema)
    summary = Summary()
    with WaitingResults(beside(job.target), job.components, job.advantages) as results:
        _score(job, scorer, source, results, summary, progress, watcher)
        write = _write_columns if is_columnar(job.target_format) else _write_rows
        write(job, scorer, source, results)
    return summary


def check_columns(job: Job, schema: Any) -> None:
    """Raise DocumentError where a column is missing, of a wrong type, or would be lost."""
    fields = job.fields
    for name in filter(None, fields):
        if len(schema.get_all_field_indices(name)) != 1:
            raise DocumentError(f"one column {name!r} is needed")
    if not is_text(schema.field(fields.response).type):
        raise DocumentError(f"the column {fields.response!r} does not hold text")
    kind = schema.field(fields.reference).type
    if not (is_text(kind) or pa.types.is_struct(kind)):
        raise DocumentError(f"the column {fields.reference!r} holds neither text nor objects with steps")
    lost = [name for name in COMPONENTS if name in schema.names]
    if lost and is_columnar(job.target_format) and job.components and OURS not in (schema.metadata or {}):
        raise DocumentError(f"there are columns with the names of components: {', '.join(lost)}")


def _score(
    job: Job,
    scorer: Scorer,
    source: ColumnSource,
    results: WaitingResults,
    summary: Summary,
    progress: Progress,
    watcher: Watcher | None,
) -> None:
    batches = BatchScorer(scorer, job.fields, job.advantages)
    wanted = list(dict.fromkeys(name for name in job.fields if name is not None))
    reference = job.fields.reference
    as_dictionary = reference if is_text(source.schema.field(reference).type) else None
    first = 0
    for batch in source.batches(wanted, as_dictionary):
        scored = batches.score(batch)
        results.add(scored)
        summary.add(scored.scores)
        if watcher is not None:
            watcher.add(_rollouts(job, batch, scored.good.tolist(), first), scored.scores)
        for row, fault in sorted(scored.faults.items()):
            summary.faults[fault.reason] += 1
            progress.message(f"{job.source_name}[{first + row}]: {fault.detail} ({fault.reason})")
        first += batch.num_rows
        progress.advance(batch.num_rows, batch.num_rows)


def _rollouts(job: Job, batch: Any, good: list[bool], first: int) -> list[Rollout]:
    """The rows of a batch that were scored; its first one has the number `first`."""
    fields = job.fields
    names = (fields.response, fields.reference, fields.group or fields.reference)
    columns = {name: batch.column(name).to_pylist() for name in dict.fromkeys(names)}
    rows = zip(*(columns[name] for name in names), strict=True)
    return [
        Rollout(Place("row", first + k), b"", response=response, reference=reference, group=group)
        for k, ((response, reference, group), sound) in enumerate(zip(rows, good, strict=True))
        if sound
    ]


def _write_columns(job: Job, scorer: Scorer, source: ColumnSource, results: WaitingResults) -> None:
    found = results.tables(scorer.settings.advantage_ddof)
    added = results.schema()
    replaced = OUR_NAMES.union(added.names)
    kept = [_kept_field(field, job, source) for field in source.schema if field.name not in replaced]
    metadata = {**(source.schema.metadata or {}), OURS: scorer.config_id.encode()}
    schema = pa.schema([*kept, *added], metadata=metadata)
    with ColumnOutput(job.target, job.target_format) as output:
        output.open(schema)
        for batch, result in _beside_each_other(source.batches(), found):
            columns = [_as_type(batch.column(field.name), field.type) for field in kept]
            table = pa.Table.from_arrays([*columns, *result.combine_chunks().columns], schema=schema)
            output.write(table)


def _as_type(column: Any, kind: Any) -> Any:
    return column if column.type == kind else column.cast(kind)


def _kept_field(field: Any, job: Job, source: ColumnSource) -> Any:
    """The field as it is; an Arrow file has one dictionary a column, which only another one surely has as well."""
    if job.target_format == "arrow" and pa.types.is_dictionary(field.type) and not source.is_ipc_file:
        return field.with_type(field.type.value_type)
    return field


def _write_rows(job: Job, scorer: Scorer, source: ColumnSource, results: WaitingResults) -> None:
    found = results.tables(scorer.settings.advantage_ddof)
    with row_output(job) as output:
        for batch, result in _beside_each_other(source.batches(), found):
            output.write(json_rows(batch, result, job.components))


def _beside_each_other(batches: Iterator[Any], results: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
    """Each batch with the results of its rows; the two were not cut at the same rows."""
    waiting = None
    for batch in batches:
        while waiting is None or len(waiting) < batch.num_rows:
            more = next(results, None)
            if more is None:
                raise DocumentError("the file has changed while it was read")
            waiting = more if waiting is None else pa.concat_tables([waiting, more])
        yield batch, waiting.slice(0, batch.num_rows)
        waiting = waiting.slice(batch.num_rows)
