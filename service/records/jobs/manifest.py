"""The manifest of a prepared folder, `assay.json`: what each row asks, and what its answers are compared with.

`assay prepare` writes it beside the rows; a folder that has one may stand for its references in every command.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from ...errors import UsageError
from ...rewards.registry import SCORE
from ...tasks.evaluation import task_named
from ...tasks.thoth import sections_in
from ...whole_files import read_whole
from ...wording import first_n, named, plural
from ..files.opening import MANIFEST, SourceFile, open_records, sha256_of, source_file
from ..files.wrong_files import DocumentError
from ..rows.fields import CONVERSATION_NAMES, PROMPT_NAMES, REFERENCE_NAMES, RESPONSE_NAMES, Message, asking_of
from ..rows.forms import ANSWER_NAMES, SPECIFICATIONS, unfolded
from ..rows.matching import Rows
from ..rows.responses import Sample, samples_of
from ..rows.rows import Fault, Location, Record

FORMAT = 1
"""The version of the manifest's form."""

MAX_MANIFEST = 1 << 30  # bytes
MAX_NAMED = 10  # ids that an error names
SHOWN_DIGITS = 12  # of a digest

ALSO_BY = {
    "scirecipe": ("score", "lexical", "llam_eval"),
    "bioprobench.err": ("bioprobench.rea_err",),
    "bioprobench.rea_err": ("bioprobench.err",),
    "bioprobench.gen": ("lexical", "llam_eval"),
    "bioplanner": ("llam_eval",),
    "lexical": ("llam_eval",),
}
"""Further tasks that can evaluate answers to the rows of a task."""

OF_TEXTS = ("lexical", "llam_eval")
"""Tasks that compare an answer with the whole gold answer."""


class WrongAnswers(DocumentError):
    """A file whose answers are not those to a manifest's rows."""


class ManifestEntry(NamedTuple):
    """One row of a prepared folder."""

    id: str
    split: str
    form: str
    """The form of the published record, a name in `shapes.SHAPES`."""
    task: str
    """The task that rewards answers."""
    evaluation: str
    """The task that evaluates answers as the benchmark of the record does."""
    group: str
    type: str | None
    level: str | None
    reference: Any
    """What rewards compare with, which may be alternatives; None in the stage `knowledge`."""
    answer: str | None
    """The published answer, whole; None if the record has none, and beside alternatives."""
    record: Mapping[str, Any]
    """Further fields of the record that its evaluation reads."""

    def fields(self, task: str | None = None) -> dict[str, Any]:
        """Return the fields of the row that its rewards and its evaluation read, or an evaluation by this task."""
        about = {name: getattr(self, name) for name in ("id", "task", "group", "split", "type", "level")}
        fields = {**self.record, **{name: value for name, value in about.items() if value is not None}}
        if self.reference is not None:
            fields["reference"] = self.reference
        if self.task == SCORE and self.answer is not None and (sections := sections_in(self.answer)) is not None:
            fields["orc"] = sections.orc
        return fields | ({"reference": self.answer} if task in OF_TEXTS and self.answer is not None else {})

    def is_evaluated_by(self, task: str) -> bool:
        """Return whether a task can evaluate answers to the row."""
        return task == self.evaluation or task in ALSO_BY.get(self.evaluation, ())


OWN_NAMES = {
    *ManifestEntry._fields,
    *(*RESPONSE_NAMES, *REFERENCE_NAMES, *PROMPT_NAMES, *CONVERSATION_NAMES, *ANSWER_NAMES, *SPECIFICATIONS),
}
"""Fields of a record with an answer that are those of its row instead."""


def manifest_bytes(about: Mapping[str, Any], entries: Sequence[ManifestEntry]) -> bytes:
    """Return the manifest as JSON: what it says of all rows, indented, and a line for each row."""
    lines = [orjson.dumps(entry._asdict()) for entry in entries]
    head = {"manifest": FORMAT, **about, "rows_sha256": digest_of_rows(lines)}
    return b'%s,\n  "rows": [\n%s\n  ]\n}\n' % (
        orjson.dumps(head, option=orjson.OPT_INDENT_2)[:-2],
        b",\n".join(b"    " + line for line in lines),
    )


def digest_of_rows(lines: Sequence[bytes]) -> str:
    """Return the SHA-256 of the rows, each as JSON without spaces in a line, sorted."""
    return sha256(b"".join(line + b"\n" for line in sorted(lines))).hexdigest()


def is_prepared(path: str) -> bool:
    """Return whether a path is a folder with a manifest."""
    return os.path.isfile(os.path.join(path, MANIFEST))


def read_manifest(folder: str) -> Manifest:
    """Read the manifest of a folder; raises UsageError if it is malformed, changed, or without references."""
    path = os.path.join(folder, MANIFEST)
    content = read_whole(path, MAX_MANIFEST)
    try:
        about = orjson.loads(content)
        entries = [ManifestEntry(**row) for row in about.pop("rows")]
        lines = [orjson.dumps(entry._asdict()) for entry in entries]
        version, digest = about["manifest"], about["rows_sha256"]
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
        raise UsageError(f"{path}: it is not a manifest; write it with assay prepare") from None
    if version != FORMAT:
        raise UsageError(f"{path}: it has the form {named(version)}, not {FORMAT}; write it again with assay prepare")
    if digest != digest_of_rows(lines):
        raise UsageError(f"{path}: its rows were changed after assay prepare wrote them")
    if repeated := [name for name, count in Counter(entry.id for entry in entries).items() if count > 1]:
        raise UsageError(f"{path}: several rows have the id {first_n(repeated, MAX_NAMED)}")
    if not any(entry.reference is not None for entry in entries):
        raise UsageError(f"{path}: its rows are texts without references (stage knowledge)")
    return Manifest(folder, about, {entry.id: entry for entry in entries})


@dataclass(frozen=True)
class Manifest:
    """A prepared folder: what its manifest says of all rows, and its rows by id."""

    folder: str
    about: Mapping[str, Any]
    entries: Mapping[str, ManifestEntry]

    @property
    def digest(self) -> str:
        """The SHA-256 of its rows, which answers may name."""
        return str(self.about["rows_sha256"])

    @property
    def sentence(self) -> str:
        """A sentence that identifies the rows and their prompts."""
        prompts = self.about.get("prompts")
        named = f", prompts {prompts['name']} {prompts['sha256'][:SHOWN_DIGITS]}" if prompts else ""
        return f"Rows {self.digest[:SHOWN_DIGITS]} of assay prepare{named}."

    @cached_property
    def prompts(self) -> dict[str, list[Message]]:
        """The chat messages of each prompt, by id, from the files of rows.

        Raises UsageError for a file that is missing or was changed.
        """
        prompts: dict[str, list[Message]] = {}
        for file in self.about["files"]:
            path = os.path.join(self.folder, file["path"])
            if not os.path.isfile(path):
                raise UsageError(f"{path}: this file of the manifest is missing")
            if sha256_of(path) != file["sha256"]:
                raise UsageError(f"{path}: it was changed after assay prepare wrote it")
            with open_records(source_file(Path(path), file["split"]), as_json=True) as records:
                for record in records.rows:
                    row = unfolded(record.value)
                    if (asking := asking_of(row)) is not None:
                        prompts[str(row.get("id"))] = list(asking.messages)
        return prompts

    def gold(self) -> SourceFile:
        """Return the rows with their gold answers, where records have some, as a file of records."""
        return SourceFile(os.path.join(self.folder, MANIFEST), "json", rows=self._gold)

    def _gold(self) -> Iterator[Record]:
        for number, entry in enumerate(self.entries.values(), 1):
            row = entry.fields()
            if entry.task == SCORE and entry.answer is not None:
                row["reference"] = entry.answer
            row |= {"prompt": self.prompts[entry.id]} if entry.id in self.prompts else {}
            yield record_of(Location("record", number), row)

    @property
    def tasks(self) -> list[str]:
        """The tasks that reward answers to its rows."""
        return sorted({entry.task for entry in self.entries.values()})

    def answered(self, source: SourceFile, is_partial: bool) -> SourceFile:
        """Return a file of answers to the rows as a file of records: of each answer, with the fields of its row.

        is_partial: whether some rows may have no answer.
        """
        return source._replace(rows=partial(self._answered, source, is_partial))

    def by_task(self, source: SourceFile, task: str | None = None) -> dict[str, SourceFile]:
        """Return the parts of a file that `answered` returned by the task that evaluates them.

        task: evaluates the answers to all rows that it can evaluate, instead of the task that each row has. Records
        that cannot be read are in the first part. Raises WrongAnswers and other DocumentErrors.
        """
        parts: dict[str, list[Record]] = {}
        faults = []
        for record in source.rows() if source.rows is not None else ():
            if record.fault is not None:
                faults.append(record)
                continue
            entry = self.entries[record.value["id"]]
            name = task or entry.evaluation
            if entry.is_evaluated_by(name):
                row = {**record.value, **entry.fields(name), task_named(name).response: record.value["response"]}
                parts.setdefault(name, []).append(record._replace(value=row, text=None))
        if not parts and task is not None and self.entries:
            raise WrongAnswers(f"the task {task} evaluates answers to none of these rows")
        if not parts:
            parts[SCORE] = []
        first = next(iter(parts))
        parts[first] = sorted([*parts[first], *faults], key=lambda record: record.location.number)
        return {name: source._replace(rows=partial(iter, records)) for name, records in parts.items()}

    def _answered(self, source: SourceFile, is_partial: bool) -> Iterator[Record]:
        """Yield the records; raises WrongAnswers if answers are of other rows, or if a split has too few."""
        samples: list[tuple[Record, Sample | None]] = []
        with open_records(source, as_json=True) as records:
            for record in records.rows:
                several = samples_of(record)
                if isinstance(several, Fault):
                    samples.append((Record(record.location, None, several, record.size, record.text), None))
                else:
                    samples += ((record, sample) for sample in several)
        ids = self._ids_of(samples)
        if not is_partial:
            self._require_all([identifier for identifier in ids if identifier])
        for (record, sample), identifier in zip(samples, ids, strict=True):
            if sample is None or identifier is None:
                yield record
                continue
            fields = self.entries[identifier].fields() | {"prompt": self.prompts.get(identifier)}
            further = {name: value for name, value in sample.further.items() if name not in OWN_NAMES}
            yield record_of(record.location, {**further, **fields, "response": sample.response})

    @cached_property
    def rows(self) -> Rows:
        """Its rows by their prompts and references, for answers without an id."""
        return Rows({row.id: row.reference for row in self.entries.values()}, self.prompts)

    def rows_of(self, sample: Sample) -> list[str]:
        """Return the ids of the rows that a sample may answer: none if it is of another manifest."""
        if sample.manifest is not None and sample.manifest != self.digest:
            return []
        if sample.id is not None:
            return [sample.id] if sample.id in self.entries else []
        return self.rows.find(sample.prompt, sample.reference)

    def _ids_of(self, samples: Sequence[tuple[Record, Sample | None]]) -> list[str | None]:
        """Return the id of the row that each sample answers; raises WrongAnswers if there is none, or no single one.

        Of several rows with equal prompts and equal references, each is answered in turn.
        """
        ids: list[str | None] = []
        strange, unclear = [], []
        turns: Counter[tuple[str, ...]] = Counter()
        for record, sample in samples:
            rows = () if sample is None else tuple(self.rows_of(sample))
            ids.append(rows[turns[rows] % len(rows)] if rows else None)
            turns[rows] += 1
            where = f"{record.location.kind} {record.location.number}"
            if sample is not None and not rows:
                strange.append(f"{sample.id or 'without an id'} ({where})")
            elif len(rows) > 1 and not self.rows.are_alike(rows):
                unclear.append(f"{where} ({first_n(rows, MAX_NAMED)})")
        sentences = []
        if strange:
            number = plural(len(strange), "answer")
            sentences.append(f"{number} to other rows than those of {self.folder}: {first_n(strange, MAX_NAMED)}")
        if unclear:
            number = plural(len(unclear), "answer")
            sentences.append(f"{number} without an id that may be to several rows: {first_n(unclear, MAX_NAMED)}")
        if sentences:
            raise WrongAnswers("; ".join(sentences))
        return ids

    def _require_all(self, ids: Sequence[str]) -> None:
        """Raise WrongAnswers if rows have no answer in a split of which others have one."""
        splits = {self.entries[identifier].split for identifier in ids}
        answered = set(ids)
        missing = [row.id for row in self.entries.values() if row.split in splits and row.id not in answered]
        if missing:
            where = " and ".join(sorted(splits))
            number = plural(len(missing), "row")
            raise WrongAnswers(
                f"{number} of {where} in {self.folder} without an answer: {first_n(missing, MAX_NAMED)}; "
                "with --partial, the others are read"
            )


def record_of(location: Location, row: dict[str, Any]) -> Record:
    """Return a record with this row, as a file of JSON lines has it."""
    return Record(location, row, text=orjson.dumps(row))
