"""The results of several evaluated files side by side: a table, differences to a baseline, JSON and CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...evaluate.evaluation import in_order
from ...evaluate.task import Metric, Task
from ...explain.numbers import first_n, plural
from ...records.files import source_name
from ..evaluated_file import FIRST_GROUPS, EvaluatedFile, as_json, formatted, terminal_table
from ..tables import NOTHING, TextTable, csv_text
from .agreement import Agreement
from .blocks import Block, block_of
from .bootstrap import CONFIDENCE
from .differences import Difference, Draws, Sample, differences
from .pairing import Pairing, pair_records

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["ComparedFiles", "distinct_names"]

MAX_NAMED = 5
"""Locations that a note names."""


@dataclass(frozen=True)
class ComparedFiles:
    """The results of `assay evaluate` for several files with answers to the same task."""

    names: list[str]
    files: list[EvaluatedFile]
    baseline: int
    resamples: int
    seed: int
    drawn: str = "record"
    """What resamples are drawn of: `record`, or `question` with all answers to it."""
    agreement: Agreement | None = None

    @property
    def task(self) -> Task:
        """The task of all files."""
        return self.files[0].task

    @property
    def command(self) -> str:
        """The command that was run, if known."""
        return self.files[0].command

    @cached_property
    def metrics(self) -> list[tuple[str, Metric | None, str]]:
        """(name, metric, heading) of every value that a file has."""
        there = {name: (name, metric, heading) for file in self.files for name, metric, heading in file.metrics}
        known = [metric.name for metric in self.task.metrics]
        return [there[name] for name in dict.fromkeys([*known, *there]) if name in there]

    @property
    def titles(self) -> dict[str, str]:
        """The headings of the metrics by name."""
        return {name: heading for name, _, heading in self.metrics}

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
        """All records, and each group of the fields that have several values in the files together."""
        found = [block_of("all", None, None, [file.everything() for file in self.files], self.metrics)]
        for field in dict.fromkeys([*FIRST_GROUPS, *self.files[0].result.by]):
            values = {value for file in self.files for value in file.result.by.get(field, ())}
            for value in in_order(self.files[0].task, field, values) if len(values) > 1 else ():
                parts = [file.group(field, value) for file in self.files]
                found.append(block_of(parts[0].name, field, value, parts, self.metrics))
        return found

    def differences(self, block: Block) -> Iterator[tuple[int, Difference]]:
        """Yield the differences of each model to the baseline, over the pairs whose baseline's record is in a block."""
        inside = np.zeros(len(self.files[self.baseline].answers.records), bool)
        inside[block.parts[self.baseline].rows] = True
        for k, pairing in self.pairings.items():
            kept = inside[pairing.baseline_rows]
            if kept.any():
                pairs = np.flatnonzero(kept).tolist()
                samples = [[rows[pair] for pair in pairs] for rows in pairing.samples or ()]
                model_samples, baseline_samples = samples or (None, None)
                model = Sample(self.files[k].found, pairing.rows[kept], model_samples)
                baseline = Sample(self.files[self.baseline].found, pairing.baseline_rows[kept], baseline_samples)
                questions = pairing.questions[kept] if self.drawn == "question" else np.flatnonzero(kept)
                for one in differences(self.titles, model, baseline, Draws(questions, self.resamples, self.seed)):
                    yield k, one

    @cached_property
    def overall(self) -> list[tuple[int, Difference]]:
        """The differences over all pairs."""
        return list(self.differences(self.blocks[0]))

    def parts(self) -> list[str | Table]:
        """Return the tables for the terminal, each with its title and notes."""
        found: list[str | Table] = []
        for one in self.tables():
            title = ["", f"{one.title}:"] if one.title else []
            notes = ["", *one.notes] if one.notes else []
            found += [*title, terminal_table(one, len(self.files)), *notes]
        return found

    def tables(self) -> list[TextTable]:
        """Return the table of means, that of differences, and that of the agreement with labels if there are any."""
        agreement = [self.agreement.table(self.titles)] if self.agreement else []
        return [self.text_table(), self.difference_table([(self.blocks[0], self.overall)]), *agreement]

    def text_table(self) -> TextTable:
        """Return a row for each model and block, with standard errors of what is a mean over records."""
        rows: list[list[str]] = []
        best: set[tuple[int, int]] = set()
        for block in self.blocks:
            for k, (file, part, rank) in enumerate(zip(self.files, block.parts, block.ranks, strict=True)):
                best |= {(len(rows), 4 + c) for c, key in enumerate(self.titles) if k in block.best.get(key, ())}
                if rank is not None and rank == min(one for one in block.ranks if one is not None):
                    best.add((len(rows), 3))
                cells = [file.cell(part, key, metric) for key, metric, _ in self.metrics]
                shown = NOTHING if rank is None else f"{rank:.2f}"
                rows.append([block.name, self.names[k], f"{len(part.rows):,}", shown, *cells])
        heads = ["", "model", "n", "rank", *self.titles.values()]
        return TextTable(heads, rows, list(self._notes(rows)), left=2, best=best)

    def difference_table(self, found: Sequence[tuple[Block, Sequence[tuple[int, Difference]]]]) -> TextTable:
        """Return a row for each difference, in the units of the table of means, and notes on the pairs."""
        known = {name: metric for name, metric, _ in self.metrics}
        several = len(found) > 1
        rows: list[list[str]] = []
        for block, of_block in found:
            for k, one in of_block:
                metric, interval = known[one.metric], one.interval
                ends = "" if interval is None else " to ".join(formatted(metric, end) for end in interval[:2])
                p = "" if interval is None else f"{interval.p:.4f}"
                names = [*([block.name] if several else []), self.names[k], self.titles[one.metric]]
                rows.append([*names, f"{one.n:,}", formatted(metric, one.difference), ends or NOTHING, p or NOTHING])
        title = f"Differences to {self.names[self.baseline]}"
        heads = [
            *([""] if several else []),
            "model",
            "metric",
            "pairs",
            "difference",
            f"{CONFIDENCE:.0%} interval",
            "p-value",
        ]
        return TextTable(heads, rows, list(self._pair_notes()), left=3 if several else 2, title=title)

    def _notes(self, rows: Sequence[Sequence[str]]) -> Iterator[str]:
        """Yield what a reader of the table of means has to know; what holds for some files only with their names."""
        found: dict[str, list[str]] = {}
        for name, file in zip(self.names, self.files, strict=True):
            for note in file.notes(rows):
                found.setdefault(note, []).append(name)
        for note, names in found.items():
            yield note if len(names) == len(self.files) else f"{', '.join(names)}: {note}"
        yield "* or bold: the best value as shown; rank: mean rank over the metrics that all models have, 1 is best."

    def _pair_notes(self) -> Iterator[str]:
        """Yield how records were paired, which could not be, and how intervals were computed."""
        yield (
            f"{CONFIDENCE:.0%} interval: percentiles of the paired bootstrap ({self.resamples:,} resamples, seed "
            f"{self.seed}). p-value: two-sided, for each metric separately."
        )
        baseline = self.names[self.baseline]
        for k, pairing in self.pairings.items():
            pairs = plural(len(pairing.rows), "pair")
            yield f"{self.names[k]}: {pairs}{f' {pairing.how}' if pairing.by else ''}."
            if pairing.samples is not None:
                of_model, of_baseline = pairing.records
                yield (
                    f"{self.names[k]}: {plural(of_model, 'record')} and {of_baseline:,} of {baseline} have these ids: "
                    "each id counts once, with the mean over its records. n and ± count every record."
                )
            number = len(set(pairing.questions.tolist()))
            if 0 < number < len(pairing.rows):
                how = "which are resampled" if self.drawn == "question" else "not independently (--resample question)"
                yield f"{self.names[k]}: the {pairs} answer {plural(number, 'question')}, {how}."
            for name, rows, file, other in (
                (self.names[k], pairing.unpaired, self.files[k], baseline),
                (baseline, pairing.baseline_unpaired, self.files[self.baseline], self.names[k]),
            ):
                if rows:
                    where = named(file, rows)
                    yield f"{name}: {plural(len(rows), 'record')} without a pair in {other} ({where}), not compared."
            if pairing.contradictory:
                where = named(self.files[k], pairing.rows[pairing.contradictory].tolist())
                pairs = plural(len(pairing.contradictory), "pair")
                yield f"{self.names[k]}: {pairs} with equal ids but different references or prompts ({where})."

    def left_out(self) -> Iterator[tuple[str, str, str]]:
        """Yield the location of each record that could not be compared, or not safely, a sentence and the reason."""
        baseline = self.names[self.baseline]
        for k, pairing in self.pairings.items():
            for file, rows, other in (
                (self.files[k], pairing.unpaired, baseline),
                (self.files[self.baseline], pairing.baseline_unpaired, self.names[k]),
            ):
                yield from ((file.where(row), f"no pair in {other}: not compared", "unpaired") for row in rows)
            for row in pairing.rows[pairing.contradictory].tolist():
                sentence = f"its reference or prompt differs from that of the record with the same id in {baseline}"
                yield self.files[k].where(row), sentence, "different_question"

    def document(self) -> bytes:
        """Return everything as JSON: the document of each file, the comparison, and the agreement with labels."""
        everything, *groups = [self._block_document(block) for block in self.blocks]
        by: dict[str, dict[str, Any]] = {}
        for block, found in zip(self.blocks[1:], groups, strict=True):
            by.setdefault(str(block.field), {})[str(block.value)] = found
        means, compared, *_ = self.tables()
        document = {
            "models": [{"name": name, **file.contents()} for name, file in zip(self.names, self.files, strict=True)],
            "comparison": {
                "baseline": self.names[self.baseline],
                "confidence": CONFIDENCE,
                "resampled": self.drawn,
                "resamples": self.resamples,
                "seed": self.seed,
                "pairing": [self._pairing_document(k, pairing) for k, pairing in self.pairings.items()],
                "all": everything,
                "by": by,
            },
            **({"agreement": self.agreement.document()} if self.agreement else {}),
            "notes": [*means.notes, *compared.notes],
        }
        return as_json(document)

    def _block_document(self, block: Block) -> dict[str, Any]:
        found = self.overall if block is self.blocks[0] else self.differences(block)
        return {
            "best": {key: [self.names[k] for k in best] for key, best in block.best.items()},
            "mean_rank": dict(zip(self.names, block.ranks, strict=True)),
            "differences": [{"model": self.names[k], **one.document()} for k, one in found],
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
        """Return one line per model and record: model, location, id, groups, every metric and why it failed."""
        tables = [file.csv_rows() for file in self.files]
        heads = [next(rows) for rows in tables]
        names = list(dict.fromkeys(name for head in heads for name in head[:-1]))
        lines: list[list[Any]] = [["model", *names, heads[0][-1]]]
        for model, head, rows in zip(self.names, heads, tables, strict=True):
            for row in rows:
                of_name = dict(zip(head, row, strict=True))
                lines.append([model, *(of_name.get(name, "") for name in names), row[-1]])
        return csv_text(lines)


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
    """Name the locations of the first rows, and how many more there are."""
    locations = [file.answers.locations[row] for row in rows]
    return f"{locations[0].kind} {first_n([location.number for location in locations], MAX_NAMED)}"
