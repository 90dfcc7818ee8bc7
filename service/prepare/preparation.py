"""Reads published records and writes the rows of a training run, with a manifest of what they were made from.

All records are in memory: their groups depend on each other. SciRecipe's 12,000 take some 100 MB.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import file_digest
from typing import NamedTuple

import orjson

from ..explain.numbers import plural
from ..files.complete_output import complete_output, output_pieces
from ..files.rows.output import write_document
from ..files.rows.rows import DocumentError, Fault
from ..files.trainer_rows import json_text
from ..scoring.scorer import Scorer
from ..terminal import Progress
from .example import Example, Message
from .groups import Groups, groups_of
from .ideal import PromptCheck, ideal_answer
from .libraries import Libraries
from .options import Options
from .prompts import messages_of
from .rows import RowMaker
from .sources import expand, open_examples
from .split import TEST, TRAIN, held_out_splits, seeded_splits, split_digest
from .statistics import Statistics
from .summary import IN_HELD_OUT_GROUP, LeftOut, Source, Summary, Written

__all__ = ["MANIFEST", "Job", "MalformedSource", "NothingLeft", "prepare"]

MANIFEST = "prepared.json"
CHECKED_ROWS = 2_048
"""Rows whose ideal answers are scored at once."""

NO_PROMPT = Fault("no_prompt", "it has no prompt of its own")


class Job(NamedTuple):
    """What to read, and where to write it."""

    sources: Sequence[str]
    folder: str
    held_out: Sequence[str] = ()
    """Sources whose records are the split `test`."""
    output_format: str = "jsonl"
    max_line_bytes: int = 64 * 2**20


class MalformedSource(Exception):
    """A source that is malformed as a whole: its name in messages, its format, and what is wrong."""

    def __init__(self, name: str, fmt: str, cause: DocumentError) -> None:
        super().__init__(f"{name}: {cause}")
        self.name, self.format, self.cause = name, fmt, cause


class NothingLeft(Exception):
    """No record is left to write."""


class Prompted(NamedTuple):
    """A record with its prompt."""

    example: Example
    messages: list[Message]


class Kept(NamedTuple):
    """A record that becomes a row."""

    example: Example
    messages: list[Message]
    group: str
    split: str


def prepare(job: Job, options: Options, quiet: bool = True) -> Summary:
    """Read all records, write `train`, `test` and the manifest; list records that are left out on standard error.

    The same records and options give the same bytes. Raises MalformedSource, NothingLeft, FieldError for a group field
    that no record has, NotInstalled without datasketch, and OSError; files are written completely or not at all.
    """
    with Progress(None, quiet) as progress:
        left_out = LeftOut(progress.message)
        sources, examples = read(job, options, left_out, progress)
        libraries = Libraries(options.seed, options.distractors)
        prompted = with_rows(with_prompts(examples, options, libraries, left_out), options, left_out)
    number = sum(source.records for source in sources)
    if not prompted:
        raise NothingLeft(f"nothing is written: none of {plural(number, 'record')} can be used")
    groups = groups_of([one.example for one in prompted], options)
    splits = splits_of(prompted, groups, options, left_out)
    kept = [
        Kept(one.example, one.messages, group, split)
        for one, group, split in zip(prompted, groups.names, splits, strict=True)
        if split is not None
    ]
    left_out.list_omitted()
    summary = Summary(
        options=options,
        sources=sources,
        files=write(job, options, kept),
        left_out=left_out,
        groups=groups,
        digest=split_digest((one.group, one.example.id, one.split) for one in kept),
        statistics=Statistics((one.example, one.split) for one in kept),
        completed=libraries.completed,
        repeated_ids=len(kept) - len({one.example.id for one in kept}),
    )
    manifest = orjson.dumps(summary.document(), option=orjson.OPT_INDENT_2)
    write_document(os.path.join(job.folder, MANIFEST), manifest)
    return summary


def read(job: Job, options: Options, left_out: LeftOut, progress: Progress) -> tuple[list[Source], list[Example]]:
    """Return the files of the sources, and their records of a known form; a file that is held out is read once."""
    held_out = expand(job.held_out)
    paths = {os.path.realpath(file.path) for file in held_out}
    files = [file for file in expand(job.sources) if os.path.realpath(file.path) not in paths]
    sources, examples = [], []
    for file in (*files, *held_out):
        is_held_out = file in held_out
        number = 0
        try:
            with open_examples(file, options, job.max_line_bytes) as found:
                for one in found:
                    number += 1
                    progress.advance(1, 1)
                    if isinstance(one, Example):
                        examples.append(one._replace(split=TEST if is_held_out else None))
                    else:
                        left_out.add(*one)
        except DocumentError as error:
            raise MalformedSource(file.name, file.format, error) from None
        sources.append(Source(file.name, digest_of(file.path), number, is_held_out))
    return sources, examples


def digest_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def with_prompts(
    examples: Sequence[Example], options: Options, libraries: Libraries, left_out: LeftOut
) -> list[Prompted]:
    """Return the records with prompts to which an ideal answer gets the full reward; texts alone need no prompt."""
    if options.stage == "knowledge":
        return [Prompted(example, []) for example in examples]
    for example in examples:
        libraries.add(example)
    check = PromptCheck(Scorer())
    found = []
    for start in range(0, len(examples), CHECKED_ROWS):
        rows = []
        for example in examples[start : start + CHECKED_ROWS]:
            if options.own_prompts and example.prompt is None:
                left_out.add(example.place, NO_PROMPT)
                continue
            actions = None if options.own_prompts else libraries.actions_for(example)
            messages = list(example.prompt or ()) if options.own_prompts else messages_of(example, actions)
            rows.append((example, messages, actions))
        for (example, messages, _), fault in zip(rows, check.faults(rows), strict=True):
            if fault is None:
                found.append(Prompted(example, messages))
            else:
                left_out.add(example.place, fault)
    return found


def with_rows(prompted: Sequence[Prompted], options: Options, left_out: LeftOut) -> list[Prompted]:
    """Return the records that become a row in this stage; the split of the others must not count."""
    maker = RowMaker(options)
    found = []
    for one in prompted:
        row = maker.row(*one, ideal_for(one.example, options), "", "")
        if isinstance(row, Fault):
            left_out.add(one.example.place, row)
        else:
            found.append(one)
    return found


def ideal_for(example: Example, options: Options) -> str:
    """Return the answer that a row of this stage may have."""
    return ideal_answer(example) if options.stage == "supervised" else ""


def splits_of(
    prompted: Sequence[Prompted], groups: Groups, options: Options, left_out: LeftOut
) -> Sequence[str | None]:
    """Return the split of each record; None for those that share a group with one that is held out."""
    held_out = [one.example.split == TEST for one in prompted]
    if not any(held_out):
        return seeded_splits(groups.names, options.test_share, options.seed)
    splits = held_out_splits(groups.names, held_out)
    for one, split in zip(prompted, splits, strict=True):
        if split is None:
            left_out.add(one.example.place, IN_HELD_OUT_GROUP)
    return splits


def write(job: Job, options: Options, kept: Sequence[Kept]) -> list[Written]:
    """Write a file for each split that has rows, and remove that of an earlier run for one that has none."""
    os.makedirs(job.folder, exist_ok=True)
    maker = RowMaker(options)
    written = []
    for split in (TRAIN, TEST):
        path = os.path.join(job.folder, f"{split}.{job.output_format}")
        own = [one for one in kept if one.split == split]
        if not own:
            with suppress(FileNotFoundError):
                os.unlink(path)
            continue
        with complete_output(path, job.output_format) as write_rows:
            for piece in output_pieces(line_of(maker, one, options) for one in own):
                write_rows(piece)
        written.append(Written(split, path, len(own), len({one.group for one in own}), digest_of(path)))
    return written


def line_of(maker: RowMaker, one: Kept, options: Options) -> bytes:
    """Return the row of a record as JSON."""
    row = maker.row(one.example, one.messages, ideal_for(one.example, options), one.group, one.split)
    assert not isinstance(row, Fault)  # `with_rows` has left those out
    return json_text(row).encode()
