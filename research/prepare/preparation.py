"""Reads published records and writes the rows of a training run, with a manifest of their sources.

All records are in memory: their groups depend on each other. 12,000 like SciRecipe's take some 400 MB.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from errno import EINVAL
from pathlib import PurePath
from typing import Any, NamedTuple

import orjson

from ...kernels.json_columns import MAX_ALTERNATIVES
from ...service.errors import UsageError
from ...service.explain.reading import ReadStep
from ...service.records.files.opening import MANIFEST, expand, sha256_of
from ...service.records.files.wrong_files import DocumentError
from ...service.records.jobs.manifest import ManifestEntry, manifest_bytes
from ...service.records.output.complete_output import complete_output, output_pieces
from ...service.records.output.output_file import is_special, replaced, write_document
from ...service.records.rows.fields import Message, has_text
from ...service.records.rows.forms import (
    HARBOR,
    PROMPTS,
    SUPERVISED,
    TEXT_TRAINERS,
    PromptRow,
    Row,
    json_text,
    reference_text,
    reference_texts,
)
from ...service.records.rows.rows import Fault, value_digest
from ...service.records.rows.shapes import SHAPES
from ...service.rewards.registry import SCORE
from ...service.rewards.scorer import Scorer
from ...service.scoring.references import ANY_OF, alternatives_of
from ...service.tasks.evaluation import TASKS, task_named
from ...service.tasks.scirecipe_records import orc_of, without_tags
from ...service.tasks.task import OK
from ...service.terminal import Progress
from ...service.wording import plural
from .examples import Example, PrepareOptions, Stage, id_of, open_examples
from .harbor import write_tasks
from .prompt_files import read_prompts
from .prompt_sets import OwnPrompts, PromptSets, RecordPrompts
from .prompts import FULL, ROUNDING, PromptCheck, ideal_answer
from .split import TEST, TRAIN, Libraries, groups_of, held_out_splits, seeded_splits, split_digest, with_ids
from .summary import IN_HELD_OUT_GROUP, LeftOut, PreparedSource, PrepareSummary, RowStatistics, WrittenFile

STAGE_TRAINERS: dict[Stage, Collection[str]] = {
    "knowledge": TEXT_TRAINERS,
    "supervised": tuple(SUPERVISED),
    "grpo": tuple(PROMPTS),
}
"""The trainers that have each stage."""


class RowMaker:
    """Makes rows for the stage and the trainer of the options.

    Raises UsageError if that trainer lacks the stage, and for alternatives in a stage without references.
    """

    def __init__(self, options: PrepareOptions) -> None:
        if options.alternatives and options.stage != "grpo":
            raise UsageError(f"--alternatives: rows of the stage {options.stage} have no references")
        if options.trainer not in STAGE_TRAINERS[options.stage]:
            trainers = ", ".join(STAGE_TRAINERS[options.stage])
            raise UsageError(f"{options.trainer} has no rows for the stage {options.stage}; these have: {trainers}")
        self._options = options
        self._scorer = Scorer() if options.stage == "supervised" else None

    def row(self, example: Example, messages: list[Message], ideal: str, group: str, split: str) -> Row | Fault:
        """Return the row of a record, or why it has none; every row has the same columns, and no nulls.

        ideal: an answer with the full reward. In the stage `supervised` it is the answer to learn, unless the record
        has an answer with sections; such an answer needs the full reward too, because one that fails a gate teaches to
        fail it. The column `answer_from` says which it is: `reference` or `record`.
        """
        # Not null: if the first rows of `train` have only nulls in a column, `datasets` refuses texts after them, also
        # those in `test`.
        about = {"group": group, "level": example.level or "", "type": example.type or "", "split": split}
        named = {"id": example.id, "task": example.task}
        if self._options.stage == "knowledge":
            if example.text is None:
                return Fault("no_text", "it has no text of a protocol")
            return {"text": example.text, "id": example.id, **about}
        if self._options.stage == "grpo":
            as_list = self._options.alternatives
            reference = reference_texts(example.reference) if as_list else reference_text(example.reference)
            row = PromptRow(messages, reference, about, named)
            return PROMPTS[self._options.trainer](row)
        answer = self._answer(example, ideal)
        if isinstance(answer, Fault):
            return answer
        source = "record" if answer is example.answer else "reference"
        return {**SUPERVISED[self._options.trainer](messages, answer), **named, **about, "answer_from": source}

    def _answer(self, example: Example, ideal: str) -> str | Fault:
        """Return the answer to learn; answers of other tasks than SCORE are published without the form asked for."""
        if example.task != SCORE or example.answer is None or self._scorer is None:
            return ideal
        scores = self._scorer.score([example.answer], [reference_text(example.reference)])
        reason, reward = str(scores.reasons[0]), float(scores.rewards[0])
        if reason != OK:
            return Fault("answer_fails", f"its answer fails a gate ({reason})")
        if reward < FULL - ROUNDING:
            return Fault("answer_fails", f"its answer does not get the full reward with its reference: {reward:.4f}")
        return example.answer


CHECKED_ROWS = 2_048


class PrepareJob(NamedTuple):
    sources: Sequence[str]
    folder: str
    held_out: Sequence[str] = ()
    keep_splits: bool = True  # hold out other files as well if their folder says that they are not for training
    output_format: str = "jsonl"
    prompts: Sequence[str] = ()  # files of prompts in place of those made here

    @property
    def outputs(self) -> dict[str, str]:
        return {split: os.path.join(self.folder, f"{split}.{self.output_format}") for split in (TRAIN, TEST)}

    @property
    def tasks(self) -> str:
        """The folder of Harbor's tasks."""
        return os.path.join(self.folder, HARBOR)

    @property
    def manifest(self) -> str:
        return os.path.join(self.folder, MANIFEST)


class MalformedSource(Exception):
    """A source that is malformed as a whole: its name in messages, its format, and what is wrong."""

    def __init__(self, name: str, fmt: str, cause: DocumentError) -> None:
        super().__init__(f"{name}: {cause}")
        self.name, self.format, self.cause = name, fmt, cause


class NothingLeft(Exception):
    """No record is left to write."""


class Member(NamedTuple):
    example: Example
    group: str
    split: str


def prepare(job: PrepareJob, options: PrepareOptions, quiet: bool = True) -> PrepareSummary:
    """Read all records, write `train`, `test` and the manifest; list records that are left out on standard error.

    The files appear together, when all are complete; the same records and options give the same bytes. Raises
    MalformedSource, NothingLeft, FieldError, NotInstalled, UsageError and OSError.
    """
    with staged(job, *([job.tasks] if options.trainer == HARBOR else [])) as stage:
        return _prepare(job, options, stage, quiet)


@contextmanager
def staged(job: PrepareJob, *folders: str) -> Iterator[Mapping[str, str]]:
    """Make the folder, and yield for each of its files the path of the new content, which is `replaced` at the end.

    folders: further paths, of folders in it.

    The manifest is replaced last.
    """
    is_new = not os.path.isdir(job.folder)
    os.makedirs(job.folder, exist_ok=True)
    paths = (job.manifest, *job.outputs.values())
    try:
        for path in filter(is_special, paths):
            raise OSError(EINVAL, "it is not a regular file", path)
        with ExitStack() as stack:  # which ends the contexts in reverse order
            yield {path: stack.enter_context(replaced(path)) for path in (*paths, *folders)}
    finally:
        if is_new:
            with suppress(OSError):  # it has files
                os.rmdir(job.folder)


def _prepare(job: PrepareJob, options: PrepareOptions, stage: Mapping[str, str], quiet: bool) -> PrepareSummary:
    libraries, maker = Libraries(options.seed, options.distractors), RowMaker(options)
    prompts = prompts_for(job, options)
    with Progress(None, quiet) as progress:
        left_out = LeftOut(progress.message)
        sources, examples = read(job, options, left_out, progress, quiet)
        examples = with_ids(examples)
        groups = groups_of(examples, options)
        splits: Sequence[str | None]
        held_out = [example.held_out for example in examples]
        if any(held_out) or any(source.held_out for source in sources):  # even one without a usable record
            splits = held_out_splits(groups.names, held_out)
        else:
            splits = seeded_splits(groups.names, options.test_share, options.seed)
        members = []
        for example, group, split in zip(examples, groups.names, splits, strict=True):
            if split is None:
                left_out.leave_out(example.place, IN_HELD_OUT_GROUP)
            else:
                members.append(Member(example, group, split))
        others = sorted({member.example.task for member in members} - {SCORE})
        if options.alternatives and others:
            raise UsageError(f"--alternatives: only rows of the task {SCORE} have them, not of {', '.join(others)}")
        if prompts is not None and members:
            prompts.check(member.example for member in members)
            for note in () if quiet else prompts.notes():
                progress.message(f"note: {note}")
        chosen, rows, answers = [], [], Counter[str]()
        for member, row in rows_of(members, options, libraries, maker, prompts):
            if isinstance(row, Fault):
                left_out.leave_out(member.example.place, row)
            else:
                chosen.append(member)
                rows.append(json_text(row).encode())
                answers.update([row["answer_from"]] if "answer_from" in row else [])
    left_out.close()
    if not chosen:
        number = sum(source.records for source in sources)
        raise NothingLeft(f"nothing is written: no row can be made of {plural(number, 'record')}")
    if options.trainer == HARBOR:
        ideals = (ideal_answer(member.example) for member in chosen)
        write_tasks(stage[job.tasks], zip(map(orjson.loads, rows), ideals, strict=True))
    summary = PrepareSummary(
        options=options,
        sources=sources,
        files=write(job, chosen, rows, stage),
        left_out=left_out,
        groups=groups,
        digest=split_digest((member.group, member.example.id, member.split) for member in chosen),
        statistics=RowStatistics((member.example, member.split) for member in chosen),
        completed=libraries.completed,
        answers=answers,
        prompts=None if prompts is None else prompts.document(),
        merged={member.example.id: member.example.others for member in chosen if member.example.others},
        renamed=sum(member.example.id != own for member in chosen if (own := id_of(member.example.record))),
    )
    write_document(stage[job.manifest], manifest_bytes(summary.document(), [entry_of(*member) for member in chosen]))
    return summary


def read(
    job: PrepareJob, options: PrepareOptions, left_out: LeftOut, progress: Progress, quiet: bool
) -> tuple[list[PreparedSource], list[Example]]:
    held_out = expand(job.held_out)
    paths = {os.path.realpath(file.path) for file in held_out}
    files = [file for file in expand(job.sources) if os.path.realpath(file.path) not in paths]
    outputs = {os.path.realpath(path) for path in (*job.outputs.values(), job.manifest)}
    if replaced := [file.name for file in (*files, *held_out) if os.path.realpath(file.path) in outputs]:
        raise UsageError(f"{replaced[0]}: the output would replace this source")
    sources, examples = [], []
    for file in (*files, *held_out):
        is_held_out = file in held_out
        if job.keep_splits and file.split not in (None, TRAIN) and not is_held_out:
            is_held_out = True
            if not quiet:
                progress.message(f"note: {file.name} is held out, as split {file.split}; --test SHARE would split it")
        number = out = 0
        try:
            with open_examples(file, options) as entries:
                for entry in entries:
                    number += 1
                    progress.advance(1, 1)
                    if isinstance(entry, Example):
                        by_field = job.keep_splits and entry.split not in (None, TRAIN)
                        examples.append(entry.replaced(held_out=is_held_out or by_field))
                        out += by_field and not is_held_out
                    else:
                        left_out.leave_out(*entry)
        except DocumentError as error:
            raise MalformedSource(file.name, file.format, error) from None
        if out and not quiet:
            held = f"{plural(out, 'record')} held out by the field 'split'; --test SHARE would split them"
            progress.message(f"note: {file.name}: {held}")
        sources.append(
            PreparedSource(
                file.name,
                relative_name(file.path, (*job.sources, *job.held_out)),
                sha256_of(file.path),
                number,
                is_held_out,
            )
        )
    return sources, examples


def relative_name(path: str, sources: Iterable[str]) -> str:
    """Return the path of a file from the folder of the source that it is, or is in."""
    full = PurePath(os.path.abspath(path))
    source = next(folder for name in sources if full.is_relative_to(folder := os.path.abspath(name)))
    return full.relative_to(os.path.dirname(source)).as_posix()


def prompts_for(job: PrepareJob, options: PrepareOptions) -> PromptSets | None:
    """Return the prompts of a job, None in the stage `knowledge`; raises UsageError and OSError."""
    if job.prompts and options.stage == "knowledge":
        raise UsageError("--prompts: the stage knowledge writes no prompts")
    if options.stage == "knowledge":
        return None
    if job.prompts:
        return read_prompts(job.prompts)
    return RecordPrompts() if options.own_prompts else OwnPrompts()


def rows_of(
    members: Sequence[Member],
    options: PrepareOptions,
    libraries: Libraries,
    maker: RowMaker,
    prompts: PromptSets | None,
) -> Iterator[tuple[Member, Row | Fault]]:
    """Yield each record with its row, or why it has none: an ideal answer to a prompt must get the full reward."""
    for member in members:
        libraries.add(member.example)
    if prompts is None:
        for member in members:
            yield member, maker.row(member.example, [], "", member.group, member.split)
        return
    asked = asked_of(members, options, libraries, prompts)
    for member, messages in with_alternatives(asked) if options.alternatives else asked:
        if isinstance(messages, Fault):
            yield member, messages
        else:
            ideal = ideal_answer(member.example) if options.stage == "supervised" else ""
            yield member, maker.row(member.example, messages, ideal, member.group, member.split)


def asked_of(
    members: Sequence[Member], options: PrepareOptions, libraries: Libraries, prompts: PromptSets
) -> Iterator[tuple[Member, list[Message] | Fault]]:
    """Yield each record with its prompt, or why it has none."""
    check = PromptCheck(Scorer())
    for start in range(0, len(members), CHECKED_ROWS):
        piece = members[start : start + CHECKED_ROWS]
        asked, checked = [], []
        for example, _, split in piece:
            actions = None if options.own_prompts else libraries.actions_for(example, split)
            messages = prompts.messages(example, actions)
            asked.append(messages)
            shown = [] if isinstance(messages, Fault) else messages
            checked.append((example, shown, actions if prompts.library_is_checked else None))
        for member, messages, fault in zip(piece, asked, check.faults(checked), strict=True):
            yield member, messages if fault is None or isinstance(messages, Fault) else fault


def with_alternatives(
    asked: Iterable[tuple[Member, list[Message] | Fault]],
) -> Iterator[tuple[Member, list[Message] | Fault]]:
    """Yield each prompt of a split once, with its first record; different references of its records are alternatives.

    Records with too many different references have a fault. References with the same steps are equal.
    """
    by_prompt: dict[tuple[str, bytes], tuple[list[Message], list[Member]]] = {}
    for member, messages in asked:
        if isinstance(messages, Fault):
            yield member, messages
        else:
            by_prompt.setdefault((member.split, value_digest(messages)), (messages, []))[1].append(member)
    for messages, members in by_prompt.values():
        first, *others = (member.example for member in members)
        by_steps: dict[tuple[ReadStep, ...], Any] = {}
        for example in (first, *others):
            by_steps.setdefault(example.steps, example.reference)
        references = list(by_steps.values())
        if len(references) > MAX_ALTERNATIVES:
            detail = f"the records with its prompt have {len(references)} references, more than {MAX_ALTERNATIVES}"
            yield from ((member, Fault("too_many", detail)) for member in members)
            continue
        if len(references) > 1:  # answers are to be compared with any of them
            first = first.replaced(reference={ANY_OF: references}, answer=None)
        merged = first.replaced(others=tuple(example.id for example in others))
        yield members[0]._replace(example=merged), messages


def write(
    job: PrepareJob, members: Sequence[Member], rows: Sequence[bytes], stage: Mapping[str, str]
) -> list[WrittenFile]:
    """Write the rows of each split that has any."""
    written = []
    for split, path in job.outputs.items():
        split_rows = [(member.group, row) for member, row in zip(members, rows, strict=True) if member.split == split]
        if not split_rows:
            continue
        with complete_output(stage[path], job.output_format) as write_rows:
            for piece in output_pieces(row for _, row in split_rows):
                write_rows(piece)
        digest = sha256_of(stage[path])
        written.append(WrittenFile(split, path, len(split_rows), len({group for group, _ in split_rows}), digest))
    return written


EVALUATIONS = {"bioprot": "bioplanner"} | {form: form for form in SHAPES if form in TASKS and form != "scirecipe"}
"""The task that evaluates answers to records of a form; other records are evaluated by the task that rewards them."""

GROUPED = ("domain",)
"""Further fields by which papers group records."""


def entry_of(example: Example, group: str, split: str) -> ManifestEntry:
    """Return the row of the manifest for a record."""
    evaluation, fields = evaluation_of(example)
    return ManifestEntry(
        id=example.id,
        split=split,
        form=example.dataset,
        task=example.task,
        evaluation=evaluation,
        group=group,
        type=example.type,
        level=example.level,
        reference=example.reference,
        answer=example.answer,
        record=fields | {name: example.record[name] for name in GROUPED if has_text(example.record.get(name))},
    )


def evaluation_of(example: Example) -> tuple[str, dict[str, Any]]:
    """Return the task that evaluates answers, and the fields of the record that it reads besides the reference."""
    record = example.record
    if alternatives_of(example.reference) is not None:
        return SCORE, {}
    if example.task == SCORE:
        prose = orc_of(without_tags(record)) if example.answer is None else None
        fields = {"orc": prose, "action_new": None if example.library is None else list(example.library)}
        evaluation = SCORE if prose is None and example.answer is None else "scirecipe"
        return evaluation, {name: value for name, value in fields.items() if value is not None}
    evaluation = EVALUATIONS.get(example.dataset, example.task)
    task = task_named(evaluation)
    left_out = {task.response, "type", "level", "reference", "conversations", *(example.reference or ())}
    return evaluation, {
        name: record[name] for name in task.record.model_fields if name not in left_out and record.get(name) is not None
    }
