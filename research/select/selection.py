"""Selects from a file of scored rows and writes the rows of a training set.

The input is read once: some numbers of each row stay in memory, and its text in a temporary file, so that it may be a
pipe and larger than memory.

No column of the written rows is called `margin`: losses of TRL, OpenRLHF and ms-swift would use it.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import IO, Any, NamedTuple

import numpy as np

from ...kernels.score import COMPONENTS
from ...service.records.files.opening import SourceFile, open_records
from ...service.records.output.complete_output import complete_output, output_pieces
from ...service.records.output.output_file import output_file, temp_dir_for
from ...service.records.rows.fields import FieldError, FieldNames, asking_of, has_field, objects_among, value_at
from ...service.records.rows.forms import (
    PROMPTS,
    SUPERVISED,
    Prompt,
    PromptRow,
    Row,
    answer,
    chat,
    conversation,
    json_text,
    reference_text,
    reference_texts,
    unfolded,
)
from ...service.records.rows.rows import SAMPLE_ROWS, Fault, Record, earlier_results, peek, pieces
from ...service.rewards.registry import TASK_COMPONENTS
from ...service.tables.table import Table
from ...service.tasks.task import OK
from ...service.terminal import Listing, Progress
from ...service.wording import plural, share
from .scored_rows import (
    ALL,
    GroupFigures,
    RowChoice,
    RowReader,
    ScoredRows,
    SelectOptions,
    choose,
    figures_of,
    grouped_by,
    has_components,
    scored_fields,
)

NUMBERED_TRAINERS = ("verl", "skyrl", "areal")
COMPONENT_COLUMNS = set(COMPONENTS) - {"quantity_errors"}
"""The columns that rows with a column for each component have: rows scored by rules 1 to 3 have no others."""


class ScoredRollout(NamedTuple):
    """The fields of a selected row that trainers read."""

    prompt: Prompt
    response: str
    reward: float


def preference(chosen: ScoredRollout, rejected: ScoredRollout) -> Row:
    """Return the row of a pair as TRL, verl and OpenRLHF read it."""
    prompt = chosen.prompt
    both = {"chosen": answer(prompt, chosen.response), "rejected": answer(prompt, rejected.response)}
    return {"prompt": prompt, **both}


def swift_preference(chosen: ScoredRollout, rejected: ScoredRollout) -> Row:
    """Return the row of a pair as ms-swift reads it."""
    return {"messages": conversation(chosen.prompt, chosen.response), "rejected_response": rejected.response}


class RowWriter:
    """Makes the rows of the output from scored rows, which are JSON."""

    def __init__(self, trainer: str | None, fields: FieldNames, as_chats: bool, as_lists: bool = False) -> None:
        """Without `trainer`, rows are plain.

        as_chats: write every prompt as chat messages, because one is. as_lists: write every reference as a list of
        texts, because one has alternatives.
        """
        self._trainer = trainer
        self._fields = fields
        self._as_chats, self._as_lists = as_chats, as_lists

    def best(self, text: bytes, reward: float) -> bytes:
        """Return a response that is kept; a plain row is unchanged."""
        if self._trainer is None:
            return text
        rollout = self._rollout(unfolded(json.loads(text)), reward)
        row = SUPERVISED[self._trainer](rollout.prompt, rollout.response)
        return encoded({**row, "reward": reward})

    def pair(self, chosen: bytes, rejected: bytes, rewards: tuple[float, float]) -> bytes:
        first, second = (unfolded(json.loads(text)) for text in (chosen, rejected))
        both = self._rollout(first, rewards[0]), self._rollout(second, rewards[1])
        if self._trainer is None:
            row = self._plain_pair(first, *both)
        else:
            row = (swift_preference if self._trainer == "ms-swift" else preference)(*both)
        return encoded({**row, "chosen_reward": rewards[0], "rejected_reward": rewards[1]})

    def prompt(self, text: bytes, figures: GroupFigures, number: int) -> bytes:
        """Return the prompt of a group; a plain row is the group's first row without its response and results.

        number: of the row, its `id` if it has none, for trainers whose rows have a field for it.
        """
        row, fields = json.loads(text), self._fields
        if self._trainer is None:
            return encoded({**self._without_results(row), **figures._asdict()})
        row = unfolded(row)
        identity = {name: row[name] for name in ("id", "task") if row.get(name) is not None}
        if self._trainer in NUMBERED_TRAINERS:
            identity.setdefault("id", number)
        value = row[fields.reference or ""]
        reference = reference_texts(value) if self._as_lists else reference_text(value)
        prompt_row = PromptRow(self._prompt(row), reference, figures._asdict(), identity)
        return encoded(PROMPTS[self._trainer](prompt_row))

    def identity(self, text: bytes) -> Row:
        """Return the fields of a row that its group has in common."""
        return self._shared(unfolded(json.loads(text)))

    def _rollout(self, row: Mapping[str, Any], reward: float) -> ScoredRollout:
        response: str = row[self._fields.response or ""]
        return ScoredRollout(self._prompt(row) if self._trainer else "", response, reward)

    def _prompt(self, row: Mapping[str, Any]) -> Prompt:
        prompt: Prompt = row[self._fields.prompt or ""]
        if isinstance(prompt, list) and "from" in prompt[0] and (asking := asking_of({"prompt": prompt})):
            prompt = list(asking.messages)
        return chat(prompt) if self._as_chats else prompt

    def _plain_pair(self, row: Mapping[str, Any], chosen: ScoredRollout, rejected: ScoredRollout) -> Row:
        """Return a pair with what its rows have in common."""
        return {**self._shared(row), "chosen": chosen.response, "rejected": rejected.response}

    def _shared(self, row: Mapping[str, Any]) -> Row:
        """Return the prompt, the reference, the group and the task of a row, as far as it has them."""
        names = (self._fields.prompt, self._fields.reference, self._fields.group, "task")
        return {name: value_at(row, name) for name in names if name is not None and has_field(row, name)}

    def _without_results(self, row: Row) -> Row:
        """Return what a row says of its prompt."""
        fields = self._fields
        results = {*earlier_results(row), fields.response, fields.reward}
        if row.keys() >= COMPONENT_COLUMNS:
            results.update(TASK_COMPONENTS)
        return {name: value for name, value in row.items() if name not in results}


def encoded(row: Row) -> bytes:
    """Encode a row of the output; integers of any size stay as they are."""
    return json_text(row).encode()


REASONS = {
    "single": "one response only",
    "no_spread": "all rewards are equal (within 1e-9)",
    "all_failed_gate": "no response passes the gates",
    "all_below_min_reward": "no response reaches --min-reward",
    "none_passed": "no response passes",
    "below_margin": "no pair reaches --margin",
    "below_min_pass_rate": "too hard: below --min-pass-rate",
    "above_max_pass_rate": "too easy: above --max-pass-rate",
    "failed_gate": "fails a gate",
    "below_min_reward": "below --min-reward",
    "not_passed": "does not pass",
    "duplicate": "the text of another response of its group",
    "not_among_best": "others of its group are better",
}


@dataclass
class SelectSummary:
    options: SelectOptions
    grouped_by: str
    pass_rule: str | None
    reader: RowReader
    choice: RowChoice

    @property
    def written(self) -> int:
        return len(self.choice.picked)

    @property
    def groups(self) -> int:
        return self.choice.kept_groups + len(self.choice.dropped_groups)

    def rewards(self) -> dict[str, float | None]:
        rows, choice = self.reader.rows, self.choice
        means = {"all": mean(rows.rewards)}
        if self.options.mode == "pairs":
            for name, chosen in (("chosen", choice.picked), ("rejected", choice.rejected)):
                means[name] = mean([rows.rewards[row] for row in chosen])
        elif self.options.mode == "best":
            means["kept"] = mean([rows.rewards[row] for row in choice.picked])
        else:
            grouped = zip(rows.rewards, rows.groups, strict=True)
            means["kept"] = mean([reward for reward, group in grouped if group not in choice.dropped_groups])
        return means

    def as_json(self) -> dict[str, Any]:
        reader, choice = self.reader, self.choice
        per_group = "all" if self.options.per_group == ALL else self.options.per_group
        return {
            "options": {**asdict(self.options), "per_group": per_group},
            "grouped_by": self.grouped_by,
            "passed_if": self.pass_rule,
            "rows": {
                "read": reader.read,
                "scored": len(reader.rows),
                "passed": sum(reader.rows.passed) if self.pass_rule is not None else None,
                "not_scored": counts(reader.not_scored),
                "faults": counts(reader.faults),
                "dropped": counts(choice.dropped_rows),
            },
            "groups": {
                "all": self.groups,
                "kept": choice.kept_groups,
                "dropped": counts(Counter(choice.dropped_groups.values())),
            },
            "written": self.written,
            "mean_reward": self.rewards(),
        }

    def parts(self) -> Iterator[str | Table]:
        figures, reader, groups = self.as_json(), self.reader, self.groups
        noun = "pair" if self.options.mode == "pairs" else "response"
        rows_kept = "" if self.options.mode == "curriculum" else f"{plural(self.written, noun)} from "
        groups_kept, of_groups = self.choice.kept_groups, plural(groups, "group")
        yield f"read         {plural(reader.read, 'row')} in {of_groups} of equal {self.grouped_by}"
        yield f"kept         {rows_kept}{groups_kept:,} of {of_groups}{in_parentheses(groups_kept, groups)}"
        if self.pass_rule is not None:
            passed = sum(reader.rows.passed)
            part = in_parentheses(passed, len(reader.rows))
            yield f"passed       {plural(passed, 'response')}{part}: {self.pass_rule}"
        means = [f"{name} {value:.4f}" for name, value in figures["mean_reward"].items() if value is not None]
        if means:
            yield f"mean reward  {', '.join(means)}"
        rows = figures["rows"]
        if lost := [*rows["not_scored"].items(), *rows["faults"].items()]:
            yield from ("", Table(["rows left out", "rows"], lost))
        for noun, dropped in (("groups", figures["groups"]["dropped"]), ("responses", rows["dropped"])):
            if dropped:
                explained = [(reason, REASONS[reason], number) for reason, number in dropped.items()]
                yield from ("", Table([f"{noun} dropped", "why", noun], explained, left=2))


def counts(counter: Counter[str]) -> dict[str, int]:
    return {name: number for name, number in sorted(counter.items(), key=lambda pair: (-pair[1], pair[0])) if number}


def mean(rewards: Sequence[float]) -> float | None:
    return math.fsum(rewards) / len(rewards) if rewards else None


def in_parentheses(part: int, whole: int) -> str:
    return f" ({share(part, whole)})" if whole else ""


class SelectJob(NamedTuple):
    """A selection: the source, the targets and their formats; "-" is a standard stream."""

    source: SourceFile
    target: str = "-"
    target_format: str = "jsonl"
    dropped: str | None = None
    append: bool = False


def select(job: SelectJob, options: SelectOptions, fields: FieldNames, quiet: bool = True) -> SelectSummary:
    """Read, select and write, completely or not at all; list rows with a fault on standard error.

    Raises DocumentError for a malformed file, FieldError for a missing field, and OSError.
    """
    with tempfile.TemporaryFile(dir=temp_dir_for(job.target)) as spool:
        reader, fields, pass_rule = _read(job, options, fields, spool, quiet)
        members = reader.rows.members()
        choice = choose(reader.rows, members, options)
        writer = RowWriter(options.trainer, fields, reader.rows.has_chats, reader.rows.has_alternatives)
        dropped = output_file(job.dropped) if job.dropped is not None else nullcontext()
        with (
            dropped as stream,
            complete_output(job.target, job.target_format, job.append) as write,
            Progress(len(choice.picked), quiet) as progress,
        ):
            if stream is not None:
                stream.writelines(_dropped_lines(reader.rows, members, choice, options, writer))
            lines = _lines(reader.rows, members, choice, options, writer)
            for piece in output_pieces(lines):
                write(piece)
                progress.advance(len(piece), len(piece))
    return SelectSummary(options, grouped_by(fields), pass_rule, reader, choice)


def _read(
    job: SelectJob, options: SelectOptions, fields: FieldNames, spool: IO[bytes], quiet: bool
) -> tuple[RowReader, FieldNames, str | None]:
    """Return the rows, the names of their fields, and when a response passes, if that matters."""
    with (
        open_records(job.source) as records,
        Progress(records.size, quiet) as progress,
    ):
        first, rows = peek(records.rows)
        objects = list(map(unfolded, objects_among(first)))
        names, kind = fields._asdict(), job.source.kind
        fields = scored_fields(fields, objects, kind, _needed(options))
        for role in ("response", "prompt", "reference"):
            name = getattr(fields, role)
            if name not in (None, names[role]) and not quiet:
                progress.message(f"note: {role} was read from the {kind} {name}")
        _check_chats(options, fields, objects)
        by_components, pass_rule = _pass_rule(options, objects)

        def report(record: Record, fault: Fault) -> None:
            where = record.location.within(job.source.name)
            listing.add(f"{where}: {fault.detail} ({fault.reason})", fault.reason, record.location.kind)

        listing = Listing(progress.message)
        reader = RowReader(options, fields, by_components, spool, report)
        for piece in pieces(rows, SAMPLE_ROWS):
            for record in piece:
                reader.add(record)
            progress.advance(len(piece), sum(record.size for record in piece))
        listing.close()
    return reader, fields, pass_rule


def _needed(options: SelectOptions) -> dict[str, str]:
    needed = {} if options.mode == "curriculum" else {"response": f"--{options.mode} selects responses"}
    if options.trainer is not None:
        needed["prompt"] = f"rows of {options.trainer} have a prompt"
        if options.mode == "curriculum":
            needed["reference"] = f"prompts of {options.trainer} have a reference"
    return needed


def _check_chats(options: SelectOptions, fields: FieldNames, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise FieldError for prompts that are chats if verl is to read pairs: its data set tokenizes texts."""
    prompt = fields.prompt or ""
    if options.trainer == "verl" and options.mode == "pairs" and any(isinstance(row.get(prompt), list) for row in rows):
        raise FieldError(f"the field {prompt!r} is a chat; the data set that verl reads pairs from has prompts of text")


def _pass_rule(options: SelectOptions, rows: Sequence[Mapping[str, Any]]) -> tuple[bool, str | None]:
    """Return whether components say if a response passes, and the rule in words; raises FieldError without a rule."""
    if options.mode == "curriculum" and options.min_reward is not None:
        return False, f"a reward of at least {options.min_reward:g}"
    if not rows or not (options.passed or options.mode == "curriculum"):
        return False, None
    if any(map(has_components, rows)):
        return True, "both gates and order 1"
    if options.passed:
        raise FieldError("--passed needs components, which `assay score --include components` adds")
    if any("reason" in row for row in rows):
        return False, f"reason {OK}: both gates (also order 1 if rows have components)"
    raise FieldError(
        "rows have neither components nor a reason; say with --min-reward from which reward a response passes"
    )


def _lines(
    rows: ScoredRows, members: Sequence[np.ndarray], choice: RowChoice, options: SelectOptions, writer: RowWriter
) -> Iterator[bytes]:
    if options.mode == "pairs":
        for chosen, rejected in zip(choice.picked, choice.rejected, strict=True):
            both = rows.rewards[chosen], rows.rewards[rejected]
            yield writer.pair(rows.text(chosen), rows.text(rejected), both)
        return
    for row in choice.picked:
        if options.mode == "best":
            yield writer.best(rows.text(row), rows.rewards[row])
        else:
            figures = figures_of(rows, members[rows.groups[row]].tolist())
            yield writer.prompt(rows.text(row), figures, rows.numbers[row])


def _dropped_lines(
    rows: ScoredRows, members: Sequence[np.ndarray], choice: RowChoice, options: SelectOptions, writer: RowWriter
) -> Iterator[bytes]:
    for number, reason in choice.dropped_groups.items():
        group = members[number].tolist()
        figures = figures_of(rows, group)._asdict()
        if options.mode != "curriculum":
            del figures["pass_rate"]  # known only if rows say who passes
        place = {rows.kind: rows.numbers[group[0]]}
        yield encoded({"reason": reason, **place, **figures, **writer.identity(rows.text(group[0]))}) + b"\n"
