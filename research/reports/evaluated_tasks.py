"""The evaluations of several tasks, or printed tables of them, as tables, JSON, CSV and a page.

They warn if models answered different prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from typing import Any, TypeGuard

from ...service.records.jobs.manifest import Manifest
from ...service.tables.page import render
from ...service.tables.table import Table, as_json, csv_text
from ...service.tasks.task import Records
from ...service.wording import first_n
from .comparison import ComparedFiles
from .evaluated_file import EvaluatedFile


@dataclass(frozen=True)
class EvaluatedTasks:
    """The outputs of each task; with `printed`, these tables instead of theirs, with remarks below each."""

    outputs: Sequence[EvaluatedFile | ComparedFiles]
    _: KW_ONLY
    manifest: Manifest | None = None
    printed: Sequence[Table] | None = None
    remarks: Sequence[str] = ()
    command: str = ""

    def tables(self) -> list[Table]:
        if self.printed is not None:
            return [replace(table, notes=[*table.notes, *self.remarks]) for table in self.printed]
        several = len(self.outputs) > 1
        return [
            replace(table, title=" – ".join(filter(None, [output.task.name if several else "", table.title])))
            for output in self.outputs
            for table in output.tables()
        ]

    def left_out(self) -> Iterator[tuple[str, str, str]]:
        for output in self.outputs:
            yield from output.left_out()

    def document(self) -> bytes:
        return as_json(self.contents())

    def contents(self) -> dict[str, Any]:
        """Return everything for JSON: what the rows are, the document of each task, and printed tables."""
        document: dict[str, Any] = {}
        if self.manifest is not None:
            names = ("rows_sha256", "split_sha256", "prompts", "options")
            document["manifest"] = {name: self.manifest.about[name] for name in names if name in self.manifest.about}
        document["tasks"] = [output.contents() for output in self.outputs]
        if self.printed is not None:
            document["tables"] = [
                {
                    "title": table.title,
                    "heads": list(table.heads),
                    "rows": [[cell._asdict() for cell in row] for row in table.cells],
                    "notes": list(table.notes),
                }
                for table in self.tables()
            ]
        return document

    def csv(self) -> str:
        """Return a line per record of each task, or the printed tables, one below the other."""
        if self.printed is not None:
            return "\n".join(table.csv() for table in self.printed)
        parts = [(output.task.name, list(output.csv_rows())) for output in self.outputs]
        names = list(dict.fromkeys(chain.from_iterable(rows[0] for _, rows in parts)))
        lines: list[list[Any]] = [["task", *names]]
        for task, (heads, *rows) in parts:
            lines += ([task, *(dict(zip(heads, row, strict=True)).get(name, "") for name in names)] for row in rows)
        return csv_text(lines)

    def page(self) -> str:
        if self.printed is None and len(self.outputs) == 1:
            return self.outputs[0].page()
        models = list(dict.fromkeys(name for output in self.outputs for name in output.models))
        return render(
            "tables.html",
            models=models,
            tables=self.tables(),
            about=self.manifest.sentence if self.manifest is not None else "",
            command=self.command,
            signatures=dict.fromkeys(file.result.signature for output in self.outputs for file in output.evaluated),
        )


SHOWN_DIGITS = 8  # of a digest
MAX_NAMED = 5  # models of one set of prompts


def with_prompt_warnings(
    models: Sequence[str], evaluated: Sequence[Sequence[EvaluatedFile]], manifest: Manifest | None
) -> list[str]:
    """Warn in the results of each task if its answers are to different prompts.

    Returns what readers of the models' values should know: which rows they are of, and these warnings.
    """
    remarks = {} if manifest is None else {manifest.sentence: None}
    for files in evaluated:
        answers = {model: file.answers.records for model, file in zip(models, files, strict=True)}
        if warning := prompt_warning(answers, manifest.about.get("prompts") if manifest is not None else None):
            remarks[warning] = None
            for file in files:
                file.result.warnings.append(warning)
    return list(remarks)


def prompt_warning(models: Mapping[str, Records], of_rows: Mapping[str, Any] | None = None) -> str | None:
    """Return a warning if the answers of models are to different prompts, or to others than those of the rows.

    models: answers by the name of the model; those of `assay generate` name their `prompts`, others are not compared.
    of_rows: `prompts` of the manifest, None without one.
    """
    named: dict[str, list[str]] = {} if of_rows is None else {name_of(of_rows): []}
    for model, records in models.items():
        prompts = (record.get("prompts") for record in records)
        for name in dict.fromkeys(name_of(value) for value in prompts if is_named(value)):
            named.setdefault(name, []).append(model)
    if len(named) < 2:
        return None
    answered = "; ".join(f"{first_n(names, MAX_NAMED)} to {prompts}" for prompts, names in named.items() if names)
    rows = f"; the rows have {name_of(of_rows)}" if of_rows is not None else ""
    return f"The answers are to different prompts, so that their values do not compare: {answered}{rows}"


def is_named(prompts: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(prompts, Mapping) and all(isinstance(prompts.get(name), str) for name in ("name", "sha256"))


def name_of(prompts: Mapping[str, Any]) -> str:
    return f"{prompts['name']} ({prompts['sha256'][:SHOWN_DIGITS]})"
