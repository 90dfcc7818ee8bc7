"""Labels that people or judges give to the records of models: numbers in fields of the records, or rows of a file."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...service.errors import InvalidRequest, Issue, did_you_mean, one_of
from ...service.records.files.opening import SourceFile, open_records
from ...service.records.rows.answers import record_id
from ...service.records.rows.fields import value_at
from ...service.tasks.evaluation import Result, by_number, task_named
from ...service.tasks.llam_eval import slug
from ...service.wording import plural

LABEL = "label"
"""The field of the labels in a file, if none is named."""

Unit = tuple[int, str]
"""What a label is about: the row of a record, counted over all models, and its criterion in lower case, or ""."""


class Labelled(NamedTuple):
    name: str
    records: Sequence[Mapping[str, Any]]
    result: Result

    @property
    def judge_metrics(self) -> tuple[str, ...]:
        return task_named(self.result.task).judge_metrics


class Subset(NamedTuple):
    """Records of all models, of one, or of a group: their name, what distinguishes them, and a mask."""

    name: str
    labels: dict[str, str | None]
    rows: np.ndarray


def subsets_of(models: Sequence[Labelled]) -> Iterator[Subset]:
    """Yield all records, each model's records if there are several, and the groups of fields with several values."""
    owner = np.repeat(np.arange(len(models)), [len(model.records) for model in models])
    nothing = {"model": None, "field": None, "value": None}
    yield Subset("all", {**nothing}, np.ones(len(owner), bool))
    for k, model in enumerate(models if len(models) > 1 else ()):
        yield Subset(model.name, {**nothing, "model": model.name}, owner == k)
    for name in models[0].result.groups:
        values = np.array([value for model in models for value in model.result.groups[name]], object)
        different = sorted(set(values.tolist()), key=by_number)
        for value in different if len(different) > 1 else ():
            yield Subset(f"{name} {value}", {**nothing, "field": name, "value": value}, np.asarray(values == value))


def numbers_by_id(models: Sequence[Labelled]) -> np.ndarray:
    """Return int64 (n,): a number for each record of all models, equal for equal ids: these are not independent."""
    numbers: dict[object, int] = {}
    keys = [record_id(record) for model in models for record in model.records]
    return np.array([numbers.setdefault(key or row, len(numbers)) for row, key in enumerate(keys)], np.int64)


def are_different(numbers: np.ndarray) -> bool:
    return len(np.unique(numbers)) == len(numbers)


@dataclass
class Labels:
    """The labels of one rater, by what they are about.

    question: the field of the labels, if raters are named in the rows of a file: raters who answer different questions
    are not compared. own: the rows whose label is of the record as a whole, or of its own criterion.
    """

    name: str
    question: str = ""
    values: dict[Unit, float] = field(default_factory=dict)
    own: set[int] = field(default_factory=set)

    def column(self, n: int) -> np.ndarray:
        """Return float64 (n,): the label of each record as a whole, NaN without one."""
        column = np.full(n, np.nan)
        for (row, _), value in self.values.items():
            if row in self.own:
                column[row] = value
        return column

    def is_comparable(self, other: Labels) -> bool:
        return not (self.question and other.question) or self.question == other.question


def criterion_of(record: Mapping[str, Any]) -> str:
    criterion = record.get("criterion")
    return slug(criterion) if isinstance(criterion, str) else ""


def labels_in(models: Sequence[Labelled], name: str) -> tuple[Labels, list[tuple[int, int]]]:
    """Return the labels in a field of the records, and the model's number and the row of each that is not a number."""
    labels, invalid, first = Labels(name), [], 0
    for k, model in enumerate(models):
        for row, record in enumerate(model.records):
            try:
                value = number_of(value_at(record, name))
            except KeyError:
                continue
            except ValueError:
                invalid.append((k, row))
                continue
            if value is not None:
                labels.values[first + row, criterion_of(record)] = value
                labels.own.add(first + row)
        first += len(model.records)
    return labels, invalid


def number_of(value: Any) -> float | None:
    """Return a label as a number (true is 1), None for null or NaN; raises ValueError for anything else."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (bool, int, float)) and abs(value) <= sys.float_info.max:
        return float(value)
    raise ValueError


class LabelRow(NamedTuple):
    where: str
    id: str
    criterion: str
    model: str | None
    rater: str
    values: dict[str, float]


class LabelFile(NamedTuple):
    rows: list[LabelRow]
    fields: list[str]  # of the labels that were asked for, those that the file has


def read_labels(source: SourceFile, fields: Sequence[str]) -> LabelFile:
    """Read rows with an `id`, labels in some of the fields, and perhaps a `criterion`, a `rater` and a `model`.

    Raises InvalidRequest, which names every invalid row, and DocumentError.
    """
    rows, issues = [], []
    with open_records(source) as records:
        read = [(location.within(source.name), value, fault) for location, value, fault, *_ in records.rows]
    names = sorted({name for _, value, _ in read if isinstance(value, dict) for name in value})
    present = [name for name in fields or [LABEL] if any(has(value, name) for _, value, _ in read)]
    if not present and all(fault is None and isinstance(value, dict) for _, value, fault in read):
        wanted = (fields or [LABEL])[0]
        listed = f"fields: {', '.join(names) or 'none'}{did_you_mean(wanted, names)}"
        detail = f"no row has the field {wanted!r}; {listed}; name the right one with --label-field"
        raise InvalidRequest([Issue(source.name, "missing_field", detail)])
    for where, value, fault in read:
        if fault is not None or not isinstance(value, dict):
            detail = fault.detail if fault is not None else "the row is not a JSON object"
            issues.append(Issue(where, fault.reason if fault is not None else "not_an_object", detail))
            continue
        row, invalid = label_row(where, value, present or fields or [LABEL])
        rows.append(row)
        issues += invalid
    if issues:
        raise InvalidRequest(issues)
    return LabelFile(rows, present)


def has(row: Any, name: str) -> bool:
    return isinstance(row, dict) and name in row


def label_row(where: str, row: Mapping[str, Any], fields: Sequence[str]) -> tuple[LabelRow, list[Issue]]:
    issues, values = [], {}
    if not record_id(row):
        issues.append(Issue(where, "missing_field", "no id, which is text or a whole number"))
    if not any(name in row for name in fields):
        issues.append(Issue(where, "missing_field", f"no label: none of the fields {', '.join(fields)}"))
    for name in fields:
        try:
            value = number_of(row.get(name))
        except ValueError:
            issues.append(Issue(where, "invalid_label", f"{name} is neither a number nor true, false or null"))
            continue
        if value is not None:
            values[name] = value
    texts = {name: row.get(name) for name in ("criterion", "model", "rater")}
    for name, text in texts.items():
        if not (text is None or isinstance(text, str) or (name == "rater" and isinstance(text, int))):
            issues.append(Issue(where, "wrong_type", f"{name} is not text"))
    criterion, model = (texts[name] if isinstance(texts[name], str) else None for name in ("criterion", "model"))
    rater = "" if texts["rater"] is None else str(texts["rater"])
    return LabelRow(where, record_id(row), slug(criterion or ""), model, rater, values), issues


class Target(NamedTuple):
    """A record that a label may be about."""

    part: int
    row: int
    model: str
    criterion: str
    criteria: tuple[str, ...]  # that the judge gives a verdict on each of
    has_value: bool


def join_labels(file: LabelFile | None, parts: Sequence[Sequence[Labelled]]) -> list[list[Labels]]:
    """Return the labels for the records of each part, which is a task's models.

    A label is about the record with its id; with its `model`, if several models have answered; and, if it names a
    `criterion`, about that one of the record. Raises InvalidRequest, which names every label that is not about exactly
    one record, and each one that repeats another one.
    """
    if file is None:
        return [[] for _ in parts]
    targets: dict[str, list[Target]] = {}
    for k, models in enumerate(parts):
        for name, candidate in targets_of(k, models):
            targets.setdefault(name, []).append(candidate)
    names = list(dict.fromkeys(model.name for models in parts for model in models))
    labels: list[dict[tuple[str, str], Labels]] = [{} for _ in parts]
    seen: dict[tuple[int, Unit, tuple[str, str]], str] = {}
    issues: list[Issue] = []
    for row in file.rows:
        target = target_of(row, targets.get(row.id, []), names)
        if isinstance(target, Issue):
            issues.append(target)
            continue
        unit = target.row, row.criterion or target.criterion
        for name, value in row.values.items():
            key = name, row.rater
            if earlier := seen.get((target.part, unit, key)):
                issues.append(Issue(row.where, "duplicate_label", f"id {row.id!r} has this label already: {earlier}"))
                continue
            seen[target.part, unit, key] = row.where
            several = len(file.fields) > 1
            title = f"{row.rater}, {name}" if row.rater and several else row.rater or name
            rater = labels[target.part].setdefault(key, Labels(title, name if row.rater else ""))
            rater.values[unit] = value
            if unit[1] == target.criterion:
                rater.own.add(target.row)
    if issues:
        raise InvalidRequest(issues)
    return [list(of_part.values()) for of_part in labels]


def targets_of(part: int, models: Sequence[Labelled]) -> Iterator[tuple[str, Target]]:
    first = 0
    for model in models:
        has_value = np.zeros(len(model.records), bool)
        for column in model.result.per_record.values():
            has_value |= ~np.isnan(column)
        for row, record in enumerate(model.records):
            own, criteria = criterion_of(record), model.judge_metrics[1:]
            target = Target(part, first + row, model.name, own, criteria, bool(has_value[row]))
            if name := record_id(record):
                yield name, target
        first += len(model.records)


def target_of(row: LabelRow, targets: Sequence[Target], models: Sequence[str]) -> Target | Issue:
    """Return the record that a label is about, or the issue if there is not exactly one."""
    if row.model is not None and row.model not in models:
        return Issue(row.where, "unknown_model", f"model {one_of(row.model, models)}")
    of_model = [target for target in targets if row.model in (None, target.model)]
    if not of_model:
        return Issue(row.where, "unknown_id", f"no evaluated record has the id {row.id!r}")
    chosen = [
        target
        for target in of_model
        if row.criterion in ("", target.criterion) or (not target.criterion and row.criterion in target.criteria)
    ]
    if not chosen:
        criteria = [target.criterion for target in of_model if target.criterion] or list(of_model[0].criteria)
        known = one_of(row.criterion, dict.fromkeys(criteria)) if criteria else "is for tasks with criteria"
        return Issue(row.where, "unknown_criterion", f"criterion of id {row.id!r} {known}")
    evaluated = [target for target in chosen if target.has_value]
    chosen = evaluated if len(chosen) > 1 and evaluated else chosen
    if len(chosen) == 1:
        return chosen[0]
    names = [
        name
        for name, values in (("model", {t.model for t in chosen}), ("criterion", {t.criterion for t in chosen}))
        if len(values) > 1
    ]
    remedy = f"; name its {' and its '.join(names)}" if names else "; ids must tell the records apart"
    detail = f"{plural(len(chosen), 'record')} have the id {row.id!r}{remedy}"
    return Issue(row.where, "ambiguous_id", detail)
