"""Scores a Parquet or Arrow file of rollouts batch by batch, keeping its columns.

The file is read twice: the texts for scoring, then all columns for writing, because the columns of the output depend
on every row (`error`, advantages).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ...terminal import Progress
from ...wire.string_views import without_views
from ..files.columns import ColumnSource, json_text_of, json_values, require_bytes
from ..files.opening import is_columnar
from ..files.wrong_files import DocumentError
from ..output.batch_columns import BatchScorer, SpooledResults, column_output, is_reference, is_text
from ..output.output_file import temp_dir_for
from ..rows.rows import STEP_RESULTS, Location, Rollout, earlier_results, reference_of
from .row_tasks import RowTasks
from .score_rows import Observe, ScoreJob, ScoreTally, row_output
from .summary import ScoreSummary

CONFIG_ID = b"config_id"
"""Metadata key of a file with results, which may be replaced."""


def score_columns(
    job: ScoreJob, tasks: RowTasks, source: ColumnSource, progress: Progress, observe: Observe | None = None
) -> ScoreSummary:
    """Score the rows of `source` and write them in their order.

    Rows with a fault are listed on standard error and written with their error and a null reward. Raises OSError if the
    output cannot be written, DocumentError for wrong columns or a damaged file, and InvalidRequest if advantages are
    wanted that `Scores` would refuse.
    """
    names = columns_read(job, tasks, source)
    check_columns(job, tasks, source, names)
    tally = ScoreTally(job.source, tasks, progress, observe)
    reference = job.fields.reference
    as_dictionary = reference if reference in names and is_text(source.schema.field(reference).type) else None
    batches = BatchScorer(tasks, job.fields, job.advantages)
    with tempfile.TemporaryFile(dir=temp_dir_for(job.target)) as spool:
        named_groups = job.fields.group is not None
        results = SpooledResults(spool, job.components, job.advantages, named_groups, job.steps)
        first = 1
        for batch in source.batches(names, as_dictionary):
            scored = batches.score(batch)
            results.add(scored)
            faults = sorted(scored.faults.items())
            faulty = [Rollout(Location("row", first + row), b"", fault=fault) for row, fault in faults]
            tally.add(scored.scores, faulty, partial(_rollouts, job, batch, np.flatnonzero(scored.valid), first))
            first += batch.num_rows
            progress.advance(batch.num_rows, batch.num_rows)
        summary = tally.close()
        write = _write_columns if is_columnar(job.target_format) else _write_rows
        write(job, tasks, source, results)
    return summary


def columns_read(job: ScoreJob, tasks: RowTasks, source: ColumnSource) -> list[str]:
    """Return the names of the columns that are needed for scoring; rows of other tasks may need any of several."""
    names = dict.fromkeys(name for name in job.fields if name is not None)
    if tasks.other_tasks:
        names |= dict.fromkeys(tasks.columns_of_others())
        return [name for name in names if name in source.schema.names]
    return list(names)


def check_columns(job: ScoreJob, tasks: RowTasks, source: ColumnSource, read: Sequence[str]) -> None:
    """Raise DocumentError if a column that is read is missing or has the wrong type, or one would be overwritten."""
    fields, schema = job.fields, source.schema
    source.require(read)
    if fields.response in read and not is_text(schema.field(fields.response).type):
        raise DocumentError(f"the column {fields.response!r} does not contain text")
    kind = schema.field(fields.reference).type if not tasks.other_tasks else None
    if kind is not None and not is_reference(kind):
        raise DocumentError(f"the column {fields.reference!r} contains neither text nor objects with steps, nor lists")
    added = {
        "components": job.components if is_columnar(job.target_format) else (),
        "results": STEP_RESULTS if job.steps else (),
    }
    for names, taken in added.items():
        overwritten = [name for name in taken if name in schema.names and name not in earlier_results(schema.names)]
        if overwritten and CONFIG_ID not in (schema.metadata or {}):
            raise DocumentError(f"there are columns with the names of {names}: {', '.join(overwritten)}")


def _rollouts(job: ScoreJob, batch: Any, valid: np.ndarray, first: int, numbers: list[int]) -> list[Rollout]:
    """Return the rows of these numbers, which count valid rows, of a batch whose first row has the number `first`."""
    if not numbers:
        return []
    fields = job.fields
    names = (fields.response, fields.reference, fields.group or fields.reference)
    columns = {name: batch.column(name).to_pylist() for name in dict.fromkeys(names)}
    rollouts = []
    for k in valid[numbers].tolist():
        response, reference, group = (columns[name][k] for name in names)
        reference = reference_of(reference, in_column=True)
        rollouts.append(Rollout(Location("row", first + k), b"", response=response, reference=reference, group=group))
    return rollouts


def _write_columns(job: ScoreJob, tasks: RowTasks, source: ColumnSource, results: SpooledResults) -> None:
    tables = results.tables(tasks.settings.advantage_ddof)
    added = results.schema()
    replaced = earlier_results(source.schema.names).union(added.names)
    fields = [_kept_field(field, job, source) for field in source.schema if field.name not in replaced]
    metadata = {**(source.schema.metadata or {}), **{name.encode(): value for name, value in tasks.identity.items()}}
    schema = pa.schema([*fields, *added], metadata=metadata)
    with column_output(job.target, job.target_format, schema) as write:
        for batch, result in _align(source.batches(), tables):
            columns = [_as_type(batch.column(field.name), field.type) for field in fields]
            table = pa.Table.from_arrays([*columns, *result.combine_chunks().columns], schema=schema)
            write(table)


def _as_type(column: Any, kind: Any) -> Any:
    if column.type == kind:
        return column
    column = without_views(column, require_bytes)
    return (column.dictionary_decode() if pa.types.is_dictionary(column.type) else column).cast(kind)


def _kept_field(field: Any, job: ScoreJob, source: ColumnSource) -> Any:
    """Return the output field; only another Arrow file is sure to have one dictionary per column, as `arrow` needs."""
    if job.target_format == "arrow" and pa.types.is_dictionary(field.type) and not source.is_ipc_file:
        return field.with_type(field.type.value_type)
    return field


def _write_rows(job: ScoreJob, tasks: RowTasks, source: ColumnSource, results: SpooledResults) -> None:
    tables = results.tables(tasks.settings.advantage_ddof)
    with row_output(job, tasks.identity) as write:
        for batch, result in _align(source.batches(), tables):
            write(json_rows(batch, result, job.components))


def _align(batches: Iterator[Any], results: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each batch with the results of its rows; the two are split at different rows."""
    pending = None
    for batch in batches:
        while pending is None or len(pending) < batch.num_rows:
            more = next(results, None)
            if more is None:
                raise DocumentError("the file changed while it was read")
            pending = more if pending is None else pa.concat_tables([pending, more])
        yield batch, pending.slice(0, batch.num_rows)
        pending = pending.slice(batch.num_rows)


def json_rows(batch: Any, results: Any, components: Sequence[str]) -> Iterator[bytes]:
    """Yield each row of a batch with its results, like a scored JSONL row."""
    replaced = earlier_results(batch.schema.names)
    names = [name for name in batch.schema.names if name not in replaced]
    columns = [json_values(batch.column(name)) for name in names]
    for k, result in enumerate(results.to_pylist()):
        row = dict(zip(names, (column[k] for column in columns), strict=True))
        yield json_text_of(row | _nested(result, components))


def _nested(result: dict[str, Any], components: Sequence[str]) -> dict[str, Any]:
    if result.get("error") is not None:
        return {"error": result["error"]}
    nested: dict[str, Any] = {"reward": result["reward"], "reason": result["reason"]}
    if components:
        nested["components"] = {name: result[name] for name in components}
    return nested | {name: result[name] for name in (*STEP_RESULTS, "advantage") if name in result}
