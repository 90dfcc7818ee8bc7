"""Statistics of rows, and a summary of what was read, left out and written: for a terminal, and as a manifest."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from ...service.records.files.opening import MANIFEST
from ...service.records.rows.rows import Fault, RowPlace
from ...service.records.rows.shapes import UNKNOWN, forms_with_examples
from ...service.tables.table import Table
from ...service.terminal import Listing
from ...service.version import VERSION
from ...service.wording import plural
from .examples import Example, PrepareOptions
from .split import TEST, TRAIN, SplitGroups, reference_words

MOST_FREQUENT = 50  # actions in the manifest
SHOWN_ACTIONS = 10
SHOWN_STEPS = 12  # numbers of steps in the terminal; larger ones share a row
TEXTS = ("question", "reference", "answer", "text")  # texts whose words, separated by white space, are counted
Kind = tuple[str, str | None, str | None]  # task, type, level


class RowStatistics:
    def __init__(self, rows: Iterable[tuple[Example, str]]) -> None:
        self.rows: Counter[tuple[str, Kind]] = Counter()
        self.actions: Counter[str] = Counter()  # steps by action, in lower case
        self._kinds: dict[Kind, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for example, split in rows:
            self._add(example, split)

    def _add(self, example: Example, split: str) -> None:
        kind = (example.task, example.type, example.level)
        self.rows[split, kind] += 1
        figures = self._kinds[kind]
        texts = (example.question, reference_words(example), example.answer or "", example.text or "")
        for name, text in zip(TEXTS, texts, strict=True):
            if number := len(text.split()):
                figures[name].append(number)
        if example.steps:
            figures["steps"].append(len(example.steps))
            self.actions.update(step.action.strip().lower() for step in example.steps)

    @property
    def tasks(self) -> set[str]:
        return {kind[0] for kind in self._kinds}

    def values(self, name: str) -> list[int]:
        """Return the numbers of `steps` of the rows that have some, or of words: `name` is one of TEXTS."""
        return [value for figures in self._kinds.values() for value in figures.get(name, ())]

    def document(self) -> dict[str, Any]:
        steps = self.values("steps")
        return {
            "rows": [
                {"split": split, "task": kind[0], "type": kind[1], "level": kind[2], "rows": self.rows[split, kind]}
                for split in (TRAIN, TEST)
                for kind in self._sorted_kinds()
                if self.rows[split, kind]
            ],
            "steps": {**as_json(steps), "histogram": {str(n): count for n, count in sorted(Counter(steps).items())}},
            "words": {name: as_json(self.values(name)) for name in TEXTS},
            "actions": {
                "steps": self.actions.total(),
                "distinct": len(self.actions),
                "most_frequent": [{"action": name, "steps": n} for name, n in self._frequent(MOST_FREQUENT)],
            },
        }

    def parts(self) -> Iterator[str | Table]:
        names = [name for name in ("steps", *TEXTS) if self.values(name)]
        rows = []
        for kind in self._sorted_kinds():
            counts = [self.rows[split, kind] for split in (TRAIN, TEST)]
            columns = [self._kinds[kind].get(name) for name in names]
            means = [f"{np.mean(column):.1f}" if column else None for column in columns]
            rows.append([*(label or None for label in kind), *counts, *means])
        yield Table(["task", "type", "level", "train", "test", *names], rows, left=3)
        yield "Means: numbers of steps, and of the words of the texts."
        steps = Counter(min(count, SHOWN_STEPS) for count in self.values("steps"))
        if steps:
            numbers = [(str(n) if n < SHOWN_STEPS else f"{SHOWN_STEPS} or more", steps[n]) for n in sorted(steps)]
            yield from ("", shares(["steps", "rows", "share"], numbers, steps.total()), "")
            yield shares(["action", "steps", "share"], self._frequent(SHOWN_ACTIONS), self.actions.total())
            distinct, total = plural(len(self.actions), "distinct action"), plural(self.actions.total(), "step")
            yield f"{distinct} in {total}."

    def _sorted_kinds(self) -> list[Kind]:
        return sorted(self._kinds, key=lambda kind: (kind[0], kind[1] or "", kind[2] or ""))

    def _frequent(self, most: int) -> list[tuple[str, int]]:
        return sorted(self.actions.items(), key=lambda pair: (-pair[1], pair[0]))[:most]


def shares(heads: Sequence[str], counts: Iterable[tuple[str, int]], total: int) -> Table:
    return Table(heads, [(name, count, f"{count / total:.1%}") for name, count in counts])


def as_json(values: Sequence[int]) -> dict[str, Any]:
    if not values:
        return {"rows": 0}
    middle = {"mean": float(np.mean(values)), "median": float(np.median(values))}
    return {"rows": len(values), **middle, "smallest": min(values), "largest": max(values)}


IN_HELD_OUT_GROUP = Fault("in_held_out_group", "it shares a group with a record that is held out")

ABOUT_LEXICAL = """\
By default, rewards of the task lexical need a model, for BERTScore. Choose another reward where the service is called:
ASSAY_CLIENT_CONFIG='{"lexical": {"reward": "rouge_l"}}', or in an address lexical.reward=rouge_l."""


class PreparedSource(NamedTuple):
    path: str
    name: str  # relative to the folder of the source that was named
    sha256: str
    records: int
    held_out: bool


class WrittenFile(NamedTuple):
    split: str
    path: str
    rows: int
    groups: int
    sha256: str


class LeftOut(Listing):
    """The records that are left out, and why; `report` prints a line."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__(report, MANIFEST)
        self.faults: list[tuple[RowPlace, Fault]] = []

    def leave_out(self, place: RowPlace, fault: Fault) -> None:
        self.faults.append((place, fault))
        self.add(f"{place}: {fault.detail} ({fault.reason})", fault.reason, place.location.kind)

    def close(self) -> None:
        super().close()
        if self.counts[UNKNOWN]:
            for line in forms_with_examples():
                self.report(line)

    @property
    def has_faults(self) -> bool:
        """True if a record has a fault; sharing a group with one that is held out is not a fault."""
        return self.counts.total() > self.counts[IN_HELD_OUT_GROUP.reason]

    def document(self, names: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the records for JSON; names: the name of each file in the manifest."""
        return [
            {**place._replace(source=names[place.source]).document(), **fault._asdict()} for place, fault in self.faults
        ]


@dataclass(kw_only=True)
class PrepareSummary:
    options: PrepareOptions
    sources: Sequence[PreparedSource]
    files: Sequence[WrittenFile]
    left_out: LeftOut
    groups: SplitGroups
    digest: str
    statistics: RowStatistics
    completed: int  # actions of references that were missing in the libraries of their records, and were added
    answers: Mapping[str, int]  # rows of the stage `supervised` by what their answer is from
    prompts: Mapping[str, Any] | None  # name, SHA-256, files and tasks of the prompts; None in the stage `knowledge`
    merged: Mapping[str, Sequence[str]]  # the further records of a row with alternatives, by the id of the row
    renamed: int  # rows whose id several records have, so that theirs ends with a digest

    @property
    def read(self) -> int:
        return sum(source.records for source in self.sources)

    @property
    def empty_splits(self) -> list[str]:
        asked = (TRAIN, TEST) if self.options.test_share > 0 else (TRAIN,)
        return [split for split in asked if split not in {file.split for file in self.files}]

    def document(self) -> dict[str, Any]:
        sizes, alike = self.groups.sizes(), self.groups.near_duplicates
        names = {source.path: source.name for source in self.sources}
        return {
            "assay": VERSION,
            "options": asdict(self.options),
            "prompts": self.prompts,
            "sources": [
                {name: value for name, value in source._asdict().items() if name != "path"} for source in self.sources
            ],
            "files": [{**file._asdict(), "path": os.path.basename(file.path)} for file in self.files],
            "read": self.read,
            "written": sum(file.rows for file in self.files),
            "left_out": {
                "counts": dict(sorted(self.left_out.counts.items())),
                "records": self.left_out.document(names),
            },
            "split_sha256": self.digest,
            "groups": {"groups": len(sizes), "largest": sizes[0], "of_one": sizes.count(1)},
            "near_duplicates": {"groups": len(alike), "records": sum(alike), "largest": max(alike, default=0)},
            "completed_libraries": self.completed,
            "answers": dict(sorted(self.answers.items())),
            "renamed_ids": self.renamed,
            "merged": self.merged,
            "statistics": self.statistics.document(),
        }

    def parts(self) -> Iterator[str | Table]:
        sizes, alike = self.groups.sizes(), self.groups.near_duplicates
        for file in self.files:
            yield f"{file.split:<12} {plural(file.rows, 'row')} in {plural(file.groups, 'group')}: {file.path}"
        yield f"read         {plural(self.read, 'record')} in {plural(len(self.sources), 'file')}"
        yield f"groups       {len(sizes):,}, the largest of {plural(sizes[0], 'record')}"
        yield f"duplicates   {plural(sum(alike), 'record')} in {plural(len(alike), 'group')} of equal or similar texts"
        yield f"split        sha256 {self.digest}"
        if self.prompts is not None and self.prompts["files"]:
            yield f"prompts      sha256 {self.prompts['sha256']}: {self.prompts['name']}"
        if self.completed:
            yield f"libraries    {plural(self.completed, 'action')} of references added that they lack"
        if self.merged:
            further = sum(map(len, self.merged.values()))
            yield f"alternatives {plural(further, 'record')} in {plural(len(self.merged), 'row')} of equal prompts"
        if self.renamed:
            yield f"ids          {plural(self.renamed, 'row')} whose id other records have too: a digest is added"
        if self.answers:
            kinds = [f"{count:,} from the {source}" for source, count in sorted(self.answers.items())]
            yield f"answers      {', '.join(kinds)}"
        yield from ("", *self.statistics.parts())
        if self.options.stage == "grpo" and "lexical" in self.statistics.tasks:
            yield from ("", ABOUT_LEXICAL)
        if self.left_out.counts:
            counts = sorted(self.left_out.counts.items(), key=lambda pair: (-pair[1], pair[0]))
            yield from ("", Table(["records left out", "records"], counts))
