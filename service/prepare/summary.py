"""What was read, left out and written: for a terminal, and as the manifest of the rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from ..records.files import MANIFEST
from ..records.rows import Fault, Place
from ..tables.table import Table
from ..terminal import Listing
from ..version import VERSION
from ..wording import plural
from .groups import Groups
from .options import Options
from .split import TEST, TRAIN
from .statistics import Statistics

__all__ = ["IN_HELD_OUT_GROUP", "LeftOut", "Source", "Summary", "Written"]

IN_HELD_OUT_GROUP = Fault("in_held_out_group", "it shares a group with a record that is held out")

ABOUT_LEXICAL = """\
By default, rewards of the task lexical need a model, for BERTScore. Choose another reward where the service is called:
ASSAY_CLIENT_CONFIG='{"lexical": {"reward": "rouge_l"}}', or in an address lexical.reward=rouge_l."""


class Source(NamedTuple):
    name: str
    sha256: str
    records: int
    held_out: bool


class Written(NamedTuple):
    split: str
    path: str
    rows: int
    groups: int
    sha256: str


class LeftOut(Listing):
    """The records that are left out, and why; `report` prints a line."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__(report, MANIFEST)
        self.faults: list[tuple[Place, Fault]] = []

    def leave_out(self, place: Place, fault: Fault) -> None:
        self.faults.append((place, fault))
        self.add(f"{place}: {fault.detail} ({fault.reason})", fault.reason, place.location.kind)

    @property
    def has_faults(self) -> bool:
        """Whether a record has a fault; sharing a group with one that is held out is not a fault."""
        return self.counts.total() > self.counts[IN_HELD_OUT_GROUP.reason]

    def document(self) -> list[dict[str, Any]]:
        return [{**place.document(), **fault._asdict()} for place, fault in self.faults]


@dataclass
class Summary:
    options: Options
    sources: Sequence[Source]
    files: Sequence[Written]
    left_out: LeftOut
    groups: Groups
    digest: str
    statistics: Statistics
    completed: int  # actions of references that were missing in the libraries of their records, and were added
    answers: Mapping[str, int]  # rows of the stage `supervised` by what their answer is from
    repeated_ids: int  # rows with the id of an earlier row

    @property
    def read(self) -> int:
        return sum(source.records for source in self.sources)

    @property
    def empty_splits(self) -> list[str]:
        asked = (TRAIN, TEST) if self.options.test_share > 0 else (TRAIN,)
        return [split for split in asked if split not in {file.split for file in self.files}]

    def document(self) -> dict[str, Any]:
        sizes, alike = self.groups.sizes(), self.groups.near_duplicates
        return {
            "assay": VERSION,
            "options": asdict(self.options),
            "sources": [source._asdict() for source in self.sources],
            "files": [{**file._asdict(), "path": os.path.basename(file.path)} for file in self.files],
            "read": self.read,
            "written": sum(file.rows for file in self.files),
            "left_out": {"counts": dict(sorted(self.left_out.counts.items())), "records": self.left_out.document()},
            "split_sha256": self.digest,
            "groups": {"groups": len(sizes), "largest": sizes[0], "of_one": sizes.count(1)},
            "near_duplicates": {"groups": len(alike), "records": sum(alike), "largest": max(alike, default=0)},
            "completed_libraries": self.completed,
            "answers": dict(sorted(self.answers.items())),
            "repeated_ids": self.repeated_ids,
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
        if self.completed:
            yield f"libraries    {plural(self.completed, 'action')} of references added that they lack"
        if self.answers:
            kinds = [f"{count:,} from the {source}" for source, count in sorted(self.answers.items())]
            yield f"answers      {', '.join(kinds)}"
        yield from ("", *self.statistics.parts())
        if self.options.stage == "grpo" and "lexical" in self.statistics.tasks:
            yield from ("", ABOUT_LEXICAL)
        if self.left_out.counts:
            counts = sorted(self.left_out.counts.items(), key=lambda pair: (-pair[1], pair[0]))
            yield from ("", Table(["records left out", "records"], counts))
