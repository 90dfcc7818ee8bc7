"""The papers' printed tables: their layouts, filled with one's own results, and their rows beside these.

`research/published/` has a file for each paper: its columns by name, and its tables with the rows as printed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...service.errors import UsageError, one_of
from ...service.tables.table import Cell, Legend, Row, Table
from ...service.tasks.evaluation import in_order, metric_of, summary_of, task_named, values_of
from ...service.tasks.scirecipe_records import type_named
from ...service.tasks.task import USUAL, Metric
from ...service.wording import NOTHING, in_this_shell
from .evaluated_file import EvaluatedFile, ReportPart

FOLDER = Path(__file__).resolve().parents[1] / "published"
PAPERS = {"paper": "thoth", "bioprobench": "bioprobench", "protomed": "protomed"}
SCALES = {"percent": 100.0, "fraction": 1.0, "value": 1.0, "number": 1.0}
"""Units of columns: printed value / value of the metric; a `number` is a share times its records."""

ALL = "all"
SPREADS = {"records": "of the records' values"}
NO_INTERVAL = "A difference to a printed row has no interval: the papers print no values of single records."

Key = tuple[str, str]
"""An evaluation: its task, and its decisive options as JSON."""


def key_of(task: str, options: Mapping[str, Any]) -> Key:
    return task, json.dumps(options, sort_keys=True)


class Need(NamedTuple):
    """An evaluation that tables need: the options to pass, with `metrics` unless the usual ones are enough."""

    task: str
    options: dict[str, Any]
    by: tuple[str, ...]

    @property
    def key(self) -> Key:
        """Return the key of its result in `Model.results`; options that only add columns are not in it."""
        added = ("metrics", "delta_sweep")
        return key_of(self.task, {name: value for name, value in self.options.items() if name not in added})


class Model(NamedTuple):
    """A model's name, and its evaluated file for each `Need.key`."""

    name: str
    results: Mapping[Key, EvaluatedFile]


@dataclass(frozen=True, kw_only=True)
class PublishedColumn:
    """A printed column, and the metric that is comparable with it; `task` and `metric` are None if there is none.

    unit, digits: how values are printed; see `SCALES`.
    options: what the metric must be computed with; filter: the records, by the value of a field.
    models: options that name the weights of the paper, which only the user can name.
    of: the metric to divide by. spread: what is printed after ±, a metric or `records`; the standard error if empty.
    remark: why no definition gives some of the printed values.
    """

    heading: str
    task: str | None
    metric: str | None
    unit: str
    digits: int
    options: Mapping[str, Any] = field(default_factory=dict)
    filter: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    of: str = ""
    spread: str = ""
    remark: str = ""

    @property
    def defined(self) -> dict[str, Metric]:
        """Return the metrics of its task by name."""
        return {metric.name: metric for metric in task_named(self.task).metrics} if self.task else {}

    @property
    def metrics(self) -> list[Metric]:
        defined = self.defined
        return [defined[name] for name in (metric_of(self.metric or ""), self.of, self.spread) if name in defined]

    def shown(self, value: float, spread: float | None = None, n: str = "") -> Cell:
        return Cell(f"{value:z.{self.digits}f}", "" if spread is None else f"{spread:z.{self.digits}f}", n)

    def of_task(self, tasks: Collection[str]) -> PublishedColumn | None:
        """Return the column, computed by one of these tasks: `score` has the metrics of plans that `scirecipe` has."""
        if self.task in tasks:
            return self
        if self.task == "scirecipe" and "score" in tasks and (other := replace(self, task="score")).metrics:
            return other
        return None


class PrintedRow(NamedTuple):
    """A printed row; `group` is the value of the table's field `by`, and values are (value, spread) or None."""

    model: str
    group: str
    values: tuple[tuple[float, float | None] | None, ...]


@dataclass(frozen=True, kw_only=True)
class PrintedTable:
    """A table of a paper: its columns in their printed order, and its rows.

    profiles: the profile that its values are comparable with, then others to show beside it.
    filter: the records of the whole table. by: a field whose values have rows of their own.
    """

    paper: str
    source: str
    number: str
    caption: str
    columns: Sequence[PublishedColumn]
    rows: Sequence[PrintedRow]
    part: str = ""
    note: str = ""
    profiles: Sequence[str] = ()
    filter: Mapping[str, str] = field(default_factory=dict)
    by: str = ""

    @property
    def name(self) -> str:
        return f"{self.paper}, Table {self.number}{f' ({self.part})' if self.part else ''}"

    def variants(self) -> list[tuple[str, list[PublishedColumn]]]:
        """Return the columns for each profile, with it among their options; without a name if there are none."""
        return [
            (name, [replace(column, options={**column.options, "profile": name}) for column in self.columns])
            for name in self.profiles
        ] or [("", list(self.columns))]


@cache
def printed(paper: str) -> tuple[PrintedTable, ...]:
    """Return the tables of a paper by the name of its file."""
    document = json.loads((FOLDER / f"{paper}.json").read_text(encoding="utf-8"))
    columns = {name: PublishedColumn(**column) for name, column in document["columns"].items()}
    source = {"paper": document["paper"], "source": document["source"]}
    return tuple(table_of(columns, {**source, **table}) for table in document["tables"])


def table_of(columns: Mapping[str, PublishedColumn], entry: dict[str, Any]) -> PrintedTable:
    """Return a table of a file; its `remarks`, `headings`, `digits` (by unit) and `options` are for its columns."""
    remarks, headings, digits = (entry.pop(name, {}) for name in ("remarks", "headings", "digits"))
    options, names, rows = entry.pop("options", {}), entry.pop("columns"), entry.pop("rows")
    named = [
        replace(
            column,
            heading=headings.get(name, column.heading),
            digits=digits.get(column.unit, column.digits),
            options={**column.options, **options},
            remark=remarks.get(name, column.remark),
        )
        for name, column in ((name, columns[name]) for name in names)
    ]
    labels = 2 if "by" in entry else 1
    return PrintedTable(
        **entry,
        columns=named,
        rows=[PrintedRow(row[0], row[1] if labels == 2 else ALL, tuple(map(as_pair, row[labels:]))) for row in rows],
    )


def as_pair(value: float | list[float] | None) -> tuple[float, float | None] | None:
    return None if value is None else (value[0], value[1]) if isinstance(value, list) else (value, None)


def layouts(name: str) -> list[PrintedTable]:
    """Return the tables of a paper, `paper`, `bioprobench` or `protomed`, or its tables of a number, `paper.19`.

    Raises UsageError with all names if there is none of this name.
    """
    named: dict[str, list[PrintedTable]] = {}
    for paper, file in PAPERS.items():
        named[paper] = list(printed(file))
        for table in named[paper]:
            named.setdefault(f"{paper}.{table.number}", []).append(table)
    if name not in named:
        raise UsageError(f"the name of a table {one_of(name, named)}")
    return named[name]


def needs(tables: Iterable[PrintedTable], tasks: Collection[str]) -> list[Need]:
    """Return the evaluations that tables need, each once, of the tasks at hand.

    Metrics that need a model which only the user can name are left to the usual ones.
    """
    needed: dict[Key, Need] = {}
    metrics: dict[Key, dict[str, None]] = {}
    for table in tables:
        for _, columns in table.variants():
            for column in filter(None, (column.of_task(tasks) for column in columns)):
                assert column.task is not None
                need = Need(column.task, dict(column.options), ())
                _, options, by = needed.setdefault(need.key, need)
                fields = dict.fromkeys([*by, *filter(None, [table.by]), *table.filter, *column.filter])
                needed[need.key] = Need(column.task, options, tuple(fields))
                if delta := (column.metric or "").partition("@")[2]:
                    options["delta_sweep"] = sorted({*options.get("delta_sweep", ()), float(delta)})
                named = [metric.name for metric in column.metrics if not (metric.default or column.models)]
                metrics.setdefault(need.key, {}).update(dict.fromkeys(named))
    for key, names in metrics.items():
        if names:
            needed[key].options["metrics"] = [USUAL, *names]
    return list(needed.values())


class OwnRow(NamedTuple):
    """A row of an evaluated model: its profile, if the table has several, and its group."""

    model: str
    profile: str
    group: str
    n: str
    cells: list[Cell | None]


def tables_of(tables: Iterable[PrintedTable], models: Sequence[Model], beside: bool) -> tuple[list[Table], list[str]]:
    """Fill tables with the models' results, with the printed rows below them if `beside`.

    Returns
    -------
    tables : list of Table
        The tables in which a model has a value.
    left_out : list of str
        A sentence for each other table, with the reason.
    """
    filled, left_out = [], []
    for table in tables:
        rows = [row for model in models for row in own_rows(table, model) if any(row.cells)]
        if rows:
            filled.append(drawn(table, models, rows, beside))
        else:
            left_out.append(f"{table.name}: left out, because {reason(table, models)}.")
    return filled, left_out


def reason(table: PrintedTable, models: Sequence[Model]) -> str:
    tasks = list(dict.fromkeys(column.task for column in table.columns if column.task))
    evaluated = {task for model in models for task, _ in model.results}
    if not tasks:
        return "Assay has no metric for its columns"
    if not any(column.of_task(evaluated) for column in table.columns):
        return f"there are no answers of {', '.join(tasks)}"
    filters = [table.filter, *(column.filter for column in table.columns)]
    if any(filters):
        return f"no record has {' or '.join(dict.fromkeys(options_text(kept) for kept in filters if kept))}"
    return "no model has a value"


def own_rows(table: PrintedTable, model: Model) -> Iterator[OwnRow]:
    for profile, columns in table.variants():
        pairs = [(column, result_for(column, model)) for column in columns]
        files = {id(file): file for _, file in pairs if file is not None}
        groups = [ALL]
        for file in list(files.values())[:1] if table.by else ():
            values = set(values_of(file.evaluation, file.answers.records, table.by))
            groups = [*in_order(file.task, table.by, values), ALL]
        for group in groups:
            kept = {**table.filter, **({table.by: group} if group != ALL else {})}
            parts = {key: part_of(file, kept) for key, file in files.items()}
            counts = dict.fromkeys(len(part.rows) for part in parts.values() if part is not None)
            cells = [cell_of(column, file, kept, parts) for column, file in pairs]
            yield OwnRow(model.name, profile, group, "/".join(f"{n:,}" for n in counts), cells)


def result_for(column: PublishedColumn, model: Model) -> EvaluatedFile | None:
    own = column.of_task({task for task, options in model.results if (task, options) == key_of(task, column.options)})
    return None if own is None or own.task is None else model.results[key_of(own.task, own.options)]


def part_of(file: EvaluatedFile, kept: Mapping[str, str]) -> ReportPart | None:
    """Return the records with these values of fields and their aggregates; None if there are none."""
    rows = np.arange(len(file.answers.records))
    for name, value in kept.items():
        values = values_of(file.evaluation, file.answers.records, name)
        same = type_named if name == "type" else str
        rows = rows[[same(values[row]) == value for row in rows]]
    return ReportPart(ALL, rows, *summary_of(file.evaluation, rows)) if len(rows) else None


def cell_of(
    column: PublishedColumn, file: EvaluatedFile | None, kept: Mapping[str, str], parts: Mapping[int, ReportPart | None]
) -> Cell | None:
    if file is None or column.metric is None:
        return None
    part = part_of(file, {**kept, **column.filter}) if column.filter else parts[id(file)]
    value = part.aggregate.get(column.metric) if part is not None else None
    if part is None or value is None:
        return None
    count = part.counts.get(column.metric)
    shown = f"{len(part.rows):,}" if column.filter else "" if count is None else f"{count:,}"
    scale = SCALES[column.unit]
    if column.of:
        whole = part.aggregate.get(column.of)
        return column.shown(scale * value / whole, n=shown) if whole else None
    if column.unit == "number":
        return column.shown(value * len(part.rows), n=shown)
    spread = spread_of(column, file, part, value)
    return column.shown(scale * value, None if spread is None else scale * spread, shown)


def spread_of(column: PublishedColumn, file: EvaluatedFile, part: ReportPart, value: float) -> float | None:
    assert column.metric is not None
    if not column.spread:
        return file.standard_error(part, column.metric, value)
    if column.spread not in SPREADS:
        return part.aggregate.get(column.spread)
    values = file.evaluation.columns[column.metric][part.rows]
    values = values[~np.isnan(values)]
    return float(values.std(ddof=1)) if len(values) > 1 else None


def drawn(table: PrintedTable, models: Sequence[Model], rows: Sequence[OwnRow], beside: bool) -> Table:
    """Return a table of own rows and, with `beside`, of printed ones: each row begins with which of them it is."""
    with_profile = len(table.profiles) > 1
    with_n = all(column.metric != "count" for column in table.columns)

    def labels(kind: str, model: str, profile: str, group: str) -> list[str]:
        return [kind] * beside + [model] + [profile] * with_profile + [group] * bool(table.by)

    body: list[Row] = [
        [*labels("evaluated", row.model, row.profile, row.group), *[row.n] * with_n, *row.cells] for row in rows
    ]
    for line in table.rows if beside else ():
        values = zip(table.columns, line.values, strict=True)
        cells = [None if value is None else column.shown(*value) for column, value in values]
        body.append([*labels("printed", line.model, "".join(table.profiles[:1]), line.group), *[None] * with_n, *cells])
    heads = labels("", "model", "profile", table.by)
    return Table(
        [*heads, *["n"] * with_n, *(column.heading for column in table.columns)],
        body,
        left=len(heads),
        title=f"{table.name}: {table.caption}",
        notes=list(notes(table, models, rows, beside)),
        groups=len(body) if any(column.spread for column in table.columns) else len(rows),
    )


def notes(table: PrintedTable, models: Sequence[Model], rows: Sequence[OwnRow], beside: bool) -> Iterator[str]:
    cells = [cell for row in rows for cell in row.cells if cell is not None]
    if any(cell.error for cell in cells):
        spreads = {column.spread for column in table.columns if column.spread}
        of = SPREADS["records"] if "records" in spreads else "of single scores"
        errors = dict.fromkeys(file.error_note() for model in models for file in model.results.values())
        yield from map(Legend, [f"±: standard deviation {of}, as printed."] if spreads else errors)
    for column in table.columns:
        high = column.metrics[0].high if column.metrics else None
        if column.unit == "percent" and high not in (None, 1.0):
            yield Legend(f"{column.heading} is out of {100 * (high or 0):.0f}.")
    if any(cell.n for cell in cells):
        yield Legend("(n) after a value: based on only n records.")
    yield from map(Legend, gaps(table, models, rows))
    if table.note:
        yield table.note
    if not beside:
        return
    profile = f", comparable with profile {table.profiles[0]}" if table.profiles else ""
    yield f"printed: the values of {table.source}{profile}. {NO_INTERVAL}"
    yield from by_text((column.heading, column.remark) for column in table.columns)
    yield from weights(table, models)


def gaps(table: PrintedTable, models: Sequence[Model], rows: Sequence[OwnRow]) -> Iterator[str]:
    """Yield why columns have no own value, and why some rows have none if something is not installed."""
    empty = []
    for k, column in enumerate(table.columns):
        files = {
            ", ".join([model.name] * (len(models) > 1) + [profile] * (len(table.profiles) > 1)): file
            for model in models
            for profile, columns in table.variants()
            if (file := result_for(columns[k], model)) is not None
        }
        reasons = {name: file.result.unavailable.get(column.metric or "", "") for name, file in files.items()}
        if any(row.cells[k] for row in rows):
            empty += [(f"{NOTHING} {column.heading} ({name})", why) for name, why in reasons.items()]
            continue
        if column.metric is None:
            why = column.remark or "Assay has no such metric."
        elif not files:
            why = "There are no answers of its task."
        elif column.filter:
            why = f"No record has {options_text(column.filter)}."
        elif column.models:
            why = next(filter(None, reasons.values()), "It needs a model.")
            why += f" The paper's: {options_text(column.models)}."
        elif column.of:
            why = "No answer failed."
        else:
            why = next(filter(None, reasons.values()), "No record has a value.")
        empty.append((f"{NOTHING} {column.heading}", why))
    yield from map(in_this_shell, by_text(empty))


def weights(table: PrintedTable, models: Sequence[Model]) -> Iterator[str]:
    """Yield the columns whose own values were computed with other weights than the printed ones."""
    others = []
    for model in models:
        for column in (column for _, columns in table.variants() for column in columns if column.models):
            file = result_for(column, model)
            options = {} if file is None else file.options
            used = {name: options.get(name) or options.get("embedder") for name in column.models}
            for name, value in used.items():
                if value is not None and value != column.models[name]:
                    why = f"printed with {name}={column.models[name]}, but {model.name} has {value}: not comparable."
                    others.append((column.heading, why))
    yield from by_text(dict.fromkeys(others))


def options_text(options: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def by_text(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield each text once, after all headings that it is about."""
    headings: dict[str, list[str]] = {}
    for heading, text in pairs:
        if text:
            headings.setdefault(text, []).append(heading)
    yield from (f"{', '.join(names)}: {text}" for text, names in headings.items())
