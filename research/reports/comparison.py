"""The results of several evaluated files side by side: tables, differences to a baseline, JSON, CSV and a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from ...service.records.files.opening import source_name
from ...service.tables.page import Chart, IntervalText, intervals, render
from ...service.tables.table import Cell, Legend, Row, Table, as_json, csv_text
from ...service.tasks.evaluation import in_order
from ...service.tasks.task import Metric, Task
from ...service.wording import first_n, plural
from .agreement import Agreement
from .coefficients import average_ranks, shown_p
from .differences import Difference, Draws, PairedSide, Pairing, differences, pair_records
from .evaluated_file import FIRST_GROUPS, MAX_LISTED, EvaluatedFile, ReportPart, formatted, glossary
from .inference import CONFIDENCE, MAX_EXACT, notes_on_intervals
from .samples import samples_table

MAX_NAMED = 5  # locations that a note names
MAX_HEAD = 22  # characters of a heading that a plot shows
INTERVAL = f"{CONFIDENCE:.0%} interval"


class Block(NamedTuple):
    """All records or a group: each model's part, the models with the best value of each metric, and mean ranks."""

    field: str | None
    value: str | None
    parts: list[ReportPart]
    best: dict[str, list[int]]
    ranks: list[float | None]


@dataclass(frozen=True, kw_only=True)
class ComparedFiles:
    names: list[str]
    files: list[EvaluatedFile]
    baseline: int
    resamples: int
    seed: int
    drawn: str = "record"  # what resamples are drawn of: `record`, or `question` with all answers to it
    agreement: Agreement | None = None

    @property
    def task(self) -> Task:
        return self.files[0].task

    @property
    def models(self) -> list[str]:
        return self.names

    @property
    def evaluated(self) -> list[EvaluatedFile]:
        return self.files

    @cached_property
    def metrics(self) -> dict[str, tuple[str, Metric | None, str]]:
        """(name, metric, heading) by the name of every value that a file has."""
        entries = {entry[0]: entry for file in self.files for entry in file.metrics}
        names = dict.fromkeys([*(metric.name for metric in self.task.metrics), *entries])
        return {name: entries[name] for name in names if name in entries}

    @cached_property
    def titles(self) -> dict[str, str]:
        return {name: heading for name, _, heading in self.metrics.values()}

    @cached_property
    def pairings(self) -> dict[int, Pairing]:
        """The pairs of each model but the baseline, by the number of the model."""
        baseline = self.files[self.baseline].answers.records
        return {
            k: pair_records(self.task, file.answers.records, baseline)
            for k, file in enumerate(self.files)
            if k != self.baseline
        }

    @cached_property
    def blocks(self) -> list[Block]:
        blocks = [self._block(None, None, [file.everything() for file in self.files])]
        for field in dict.fromkeys([*FIRST_GROUPS, *self.files[0].result.by]):
            values = {value for file in self.files for value in file.result.by.get(field, ())}
            if len(values) > 1:
                groups = {value: [file.group(field, value) for file in self.files] for value in values}
                blocks += [self._block(field, value, groups[value]) for value in in_order(self.task, field, values)]
        return blocks

    def _block(self, field: str | None, value: str | None, parts: list[ReportPart]) -> Block:
        """Return the block with the parts of all models. Values are compared as the table shows them."""
        best: dict[str, list[int]] = {}
        ranks = []
        for key, metric, _ in self.metrics.values():
            values = {k: part.aggregate[key] for k, part in enumerate(parts) if part.aggregate.get(key) is not None}
            if metric is None or len(values) < 2:
                continue
            sign = -1.0 if metric.less_is_better else 1.0
            rounded = np.array([sign * float(formatted(metric, number)) for number in values.values()])
            best[key] = [k for k, number in zip(values, rounded.tolist(), strict=True) if number == rounded.max()]
            if len(values) == len(parts):
                ranks.append(average_ranks(-rounded))
        return Block(field, value, parts, best, np.mean(ranks, axis=0).tolist() if ranks else [None] * len(parts))

    def differences(self, block: Block) -> Iterator[tuple[int, Difference]]:
        """Yield the differences of each model to the baseline, over the pairs whose baseline's record is in a block."""
        inside = np.zeros(len(self.files[self.baseline].answers.records), bool)
        inside[block.parts[self.baseline].rows] = True
        for k, pairing in self.pairings.items():
            pairs = np.flatnonzero(inside[pairing.baseline_rows])
            if len(pairs):
                samples = [[rows[pair] for pair in pairs.tolist()] for rows in pairing.samples or ()]
                model_samples, baseline_samples = samples or (None, None)
                model = PairedSide(self.files[k].evaluation, pairing.rows[pairs], model_samples)
                rows = pairing.baseline_rows[pairs]
                baseline = PairedSide(self.files[self.baseline].evaluation, rows, baseline_samples)
                questions = pairing.questions[pairs] if self.drawn == "question" else pairs
                for difference in differences(
                    self.titles, model, baseline, Draws(questions, self.resamples, self.seed)
                ):
                    yield k, difference

    @cached_property
    def overall(self) -> list[tuple[int, Difference]]:
        return list(self.differences(self.blocks[0]))

    def tables(self) -> list[Table]:
        agreement = self.agreement.tables(self.titles) if self.agreement else []
        models = [(name, file.samples) for name, file in zip(self.names, self.files, strict=True) if file.samples]
        samples = [samples_table(models, self.titles, self.formatted)] if models else []
        return [self.means(), self.difference_table(self.blocks[:1]), *samples, *agreement]

    def formatted(self, name: str, value: float) -> str:
        """Return a value of the metric or aggregate of this name as the tables show it."""
        return formatted(self.metrics[name][1], value)

    def means(self) -> Table:
        rows: list[Row] = []
        metrics = list(self.metrics.values())
        for block in self.blocks:
            lowest = min((rank for rank in block.ranks if rank is not None), default=None)
            for k, (file, part, rank) in enumerate(zip(self.files, block.parts, block.ranks, strict=True)):
                cells = [
                    cell and cell._replace(best=k in block.best.get(key, ()))
                    for key, cell in zip(self.metrics, file.cells(part, metrics), strict=True)
                ]
                shown = None if rank is None else Cell(f"{rank:.2f}", best=rank == lowest)
                rows.append([part.name, self.names[k], len(part.rows), shown, *cells])
        heads = ["", "model", "n", "rank", *self.titles.values()]
        return Table(heads, rows, left=2, notes=list(self._notes(rows)), groups=len(self.files))

    def difference_table(self, blocks: Sequence[Block]) -> Table:
        rows: list[Row] = []
        shown: list[Difference] = []
        grouped = blocks[0] is not self.blocks[0]
        for block in blocks:
            for k, difference in self.differences(block) if grouped else self.overall:
                shown.append(difference)
                _, metric, heading = self.metrics[difference.metric]
                ends = difference.interval and " to ".join(formatted(metric, end) for end in difference.interval)
                p = None if difference.p is None else shown_p(difference.p)
                value = formatted(metric, difference.difference)
                rows.append([block.parts[0].name, self.names[k], heading, difference.n, value, ends, p])
        heads = ["", "model", "metric", "pairs", "difference", INTERVAL, "p-value"]
        if not grouped:
            heads, rows = heads[1:], [row[1:] for row in rows]
        title, notes = f"Differences to {self.names[self.baseline]}", list(self._pair_notes(shown))
        return Table(heads, rows, left=2 + grouped, title=title, notes=notes, groups=1)

    def _notes(self, rows: Sequence[Sequence[Any]]) -> Iterator[str]:
        """Yield what a reader of the table of means has to know; what holds for some files only with their names."""
        notes: dict[str, list[str]] = {}
        for name, file in zip(self.names, self.files, strict=True):
            for note in file.notes(rows):
                notes.setdefault(note, []).append(name)
        for note, names in notes.items():
            yield note if len(names) == len(self.files) else f"{', '.join(names)}: {note}"
        yield Legend(
            "* or bold: the best value as shown; rank: mean rank over the metrics that all models have, 1 is best."
        )

    def _pair_notes(self, shown: Sequence[Difference]) -> Iterator[str]:
        yield Legend(
            f"{INTERVAL}: percentiles of the paired bootstrap ({self.resamples:,} resamples, seed "
            f"{self.seed}). p-value: two-sided, of the sign-flip test, exact up to {MAX_EXACT} pairs; for each metric "
            "separately."
        )
        unit = "question" if self.drawn == "question" else "pair"
        yield from notes_on_intervals(((difference.units, difference.interval) for difference in shown), unit)
        baseline = self.names[self.baseline]
        for k, pairing in self.pairings.items():
            name, pairs = self.names[k], plural(len(pairing.rows), "pair")
            yield f"{name}: {pairs}{f' {pairing.how}' if pairing.by else ''}."
            if pairing.samples is not None:
                of_model, of_baseline = pairing.records
                yield (
                    f"{name}: {plural(of_model, 'record')} and {of_baseline:,} of {baseline} have these ids: "
                    "each id counts once, with the mean over its records. n counts every record."
                )
            number = len(set(pairing.questions.tolist()))
            if 0 < number < len(pairing.rows):
                how = "which are resampled" if self.drawn == "question" else "not independently (--resample question)"
                yield f"{name}: the {pairs} answer {plural(number, 'question')}, {how}."
            for model, file, rows, other in self._unpaired(k, pairing):
                if rows:
                    where = named(file, rows)
                    yield f"{model}: {plural(len(rows), 'record')} without a pair in {other} ({where}), not compared."
            if pairing.contradictory:
                where = named(self.files[k], pairing.rows[pairing.contradictory].tolist())
                pairs = plural(len(pairing.contradictory), "pair")
                yield f"{name}: {pairs} with equal ids but different references or prompts ({where})."

    def _unpaired(self, k: int, pairing: Pairing) -> Iterator[tuple[str, EvaluatedFile, list[int], str]]:
        """Yield a model and the baseline: name, file, rows without a pair, and the name of the other one."""
        names = self.names[k], self.names[self.baseline]
        yield names[0], self.files[k], pairing.unpaired, names[1]
        yield names[1], self.files[self.baseline], pairing.baseline_unpaired, names[0]

    def left_out(self) -> Iterator[tuple[str, str, str]]:
        """Yield the location of each record that could not be compared, or not safely, a sentence and the reason."""
        for k, pairing in self.pairings.items():
            for _, file, rows, other in self._unpaired(k, pairing):
                yield from ((file.where(row), f"no pair in {other}: not compared", "unpaired") for row in rows)
            for row in pairing.rows[pairing.contradictory].tolist():
                other = self.names[self.baseline]
                sentence = f"its reference or prompt differs from that of the record with the same id in {other}"
                yield self.files[k].where(row), sentence, "different_question"

    def document(self) -> bytes:
        return as_json(self.contents())

    def contents(self) -> dict[str, Any]:
        by: dict[str, dict[str, Any]] = {}
        for block in self.blocks[1:]:
            by.setdefault(str(block.field), {})[str(block.value)] = self._block_document(block)
        means, compared, *_ = self.tables()
        return {
            "models": [{"name": name, **file.contents()} for name, file in zip(self.names, self.files, strict=True)],
            "comparison": {
                "baseline": self.names[self.baseline],
                "confidence": CONFIDENCE,
                "resampled": self.drawn,
                "resamples": self.resamples,
                "seed": self.seed,
                "pairing": [self._pairing_document(k, pairing) for k, pairing in self.pairings.items()],
                "all": self._block_document(self.blocks[0]),
                "by": by,
            },
            **({"agreement": self.agreement.document()} if self.agreement else {}),
            "notes": [*means.notes, *compared.notes],
        }

    def _block_document(self, block: Block) -> dict[str, Any]:
        pairs = self.overall if block is self.blocks[0] else self.differences(block)
        return {
            "best": {key: [self.names[k] for k in best] for key, best in block.best.items()},
            "mean_rank": dict(zip(self.names, block.ranks, strict=True)),
            "differences": [{"model": self.names[k], **difference.document()} for k, difference in pairs],
        }

    def _pairing_document(self, k: int, pairing: Pairing) -> dict[str, Any]:
        return {
            "model": self.names[k],
            "by": pairing.by or None,
            "pairs": len(pairing.rows),
            "records": pairing.records[0],
            "baseline_records": pairing.records[1],
            "questions": len(set(pairing.questions.tolist())),
            "unpaired": pairing.unpaired,
            "baseline_unpaired": pairing.baseline_unpaired,
            "contradictory": [int(pairing.rows[pair]) for pair in pairing.contradictory],
        }

    def csv(self) -> str:
        return csv_text(self.csv_rows())

    def csv_rows(self) -> Iterator[list[Any]]:
        tables = [file.csv_rows() for file in self.files]
        heads = [next(rows) for rows in tables]
        names = list(dict.fromkeys(name for head in heads for name in head[:-1]))
        yield ["model", *names, heads[0][-1]]
        for model, head, rows in zip(self.names, heads, tables, strict=True):
            for row in rows:
                of_name = dict(zip(head, row, strict=True))
                yield [model, *(of_name.get(name, "") for name in names), row[-1]]

    def page(self) -> str:
        options = {name: value for name, value in self.files[0].options.items() if value is not None}
        means, differences, *further = self.tables()
        failures = [
            (name, *failure)
            for name, file in zip(self.names, self.files, strict=True)
            for failure in file.explained_failures()
        ]
        left_out = [
            (location.within(source_name(file.source)), fault.reason, fault.detail)
            for file in self.files
            for location, fault in file.answers.faults
        ]
        left_out += [(where, reason, sentence) for where, sentence, reason in self.left_out()]
        return render(
            "comparison.html",
            compared=self,
            command=self.files[0].command,
            verdict=list(self._verdict(len(left_out))),
            means=means,
            differences=differences,
            plots=list(self._plots()),
            by_group=self.difference_table(self.blocks[1:]) if len(self.blocks) > 1 else None,
            further=further,
            failures=Table(["model", "reason", "n", ""], failures, left=2, title="Failed records", wide=True),
            left_out=Table(["location", "reason", ""], left_out[:MAX_LISTED], left=2, title="Rows left out", wide=True),
            more=max(0, len(left_out) - MAX_LISTED),
            options=orjson.dumps(options, default=str).decode(),
            signatures=dict.fromkeys(file.result.signature for file in self.files),
            glossary=glossary(self.metrics.values()),
        )

    def _verdict(self, left_out: int) -> Iterator[tuple[str, bool]]:
        ranks = {k: rank for k, rank in enumerate(self.blocks[0].ranks) if rank is not None}
        if ranks:
            lowest = min(ranks.values())
            best = " and ".join(self.names[k] for k, rank in ranks.items() if rank == lowest)
            yield f"{best}: the best mean rank over the metrics, {lowest:.2f} of {len(self.names)} models.", True
        for k, pairing in self.pairings.items():
            intervals = [difference.interval for number, difference in self.overall if number == k]
            apart = sum(ends is not None and not ends.low <= 0.0 <= ends.high for ends in intervals)
            text = f"{apart} of {plural(len(intervals), 'difference')} with an interval that excludes 0"
            yield f"{self.names[k]}: {text}, over {plural(len(pairing.rows), 'pair')}.", len(pairing.rows) > 0
        if left_out:
            yield f"{plural(left_out, 'row')} not evaluated or not compared: see below.", False
        missing = {self.titles.get(name, name) for file in self.files for name in file.result.unavailable}
        if missing:
            yield f"{plural(len(missing), 'metric')} could not be computed: see below the table.", False

    def _plots(self) -> Iterator[tuple[str, list[Chart]]]:
        """Yield each model but the baseline, with plots of its differences: one for each unit and range of metrics."""
        baseline = self.names[self.baseline]
        for k in self.pairings:
            plots: dict[object, list[IntervalText]] = {}
            for number, difference in self.overall:
                metric = self.metrics[difference.metric][1]
                if number == k and metric is not None:
                    bounded = metric.low is not None and metric.high is not None
                    unit = "percent" if metric.percent else (metric.low, metric.high) if bounded else metric.name
                    plots.setdefault(unit, []).append(estimate_of(metric, difference))
            label, x_title = f"Differences of {self.names[k]} to {baseline}", f"difference to {short(baseline)}"
            yield self.names[k], [intervals(estimates, label, x_title) for estimates in plots.values()]


def estimate_of(metric: Metric, difference: Difference) -> IntervalText:
    unit = 100.0 if metric.percent else 1.0
    text = f"{metric.title}: {formatted(metric, difference.difference)}"
    ends = [] if difference.interval is None else [unit * end for end in difference.interval]
    if difference.interval is not None:
        text += f", {formatted(metric, difference.interval.low)} to {formatted(metric, difference.interval.high)}"
    head = short(f"{metric.title}{' ↓' if metric.less_is_better else ''}")
    return IntervalText(head, text, f", pairs: {difference.n:,}", unit * difference.difference, ends)


def short(text: str) -> str:
    return text if len(text) <= MAX_HEAD else f"{text[: MAX_HEAD - 1]}…"


def distinct_names(sources: Sequence[str]) -> list[str]:
    """Return the names of files without their extension, after as many folders as tell them apart, if any do."""
    paths = [Path(source_name(source)).absolute() for source in sources]
    parts = [(*path.parts[:-1], path.stem) for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(some[-depth:]) for some in parts]
        if len(set(names)) == len(names):
            return names
    return [some[-1] for some in parts]


def named(file: EvaluatedFile, rows: Sequence[int]) -> str:
    locations = [file.answers.locations[row] for row in rows]
    return f"{locations[0].kind} {first_n([location.number for location in locations], MAX_NAMED)}"
