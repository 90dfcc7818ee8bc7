"""One batch: responses with their references, tasks and settings, and everything that is wrong with them.

A reader fills a `Batch` with what it could read and appends an issue for everything else; `Batch.check` completes both.
A batch with an issue is never scored: `scorer.score` raises all of them, in one order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...kernels.column import TextColumn
from ..errors import InvalidReference, InvalidRequest, InvalidSetting, Issue, NotInstalled, ScoringError
from ..scoring.column_scorer import ColumnScorer
from ..scoring.references import MAX_REFERENCE_BYTES, UNLIMITED, Alternatives, ReferenceTexts
from ..scoring.shares import Validate
from ..scoring.texts import Texts, count_of, take

UNKNOWN = 255
"""The number of a task in place of an invalid name, which an issue reports."""

ISSUE_ORDER = ("include", "task", "config", "configs", "references", "responses", "reference_index", "groups")
"""The order of the issues of a batch: by field, other fields first, and within a field by row."""
PLACES = {name: place for place, name in enumerate(ISSUE_ORDER)}

ELEMENT = re.compile(r"(?:query\.)?[^.\[]+\[(\d{1,19})\]")
"""The path of a row: of an unknown field, it is the client's."""

COLUMNS = {"reference": "references", "response": "responses", "group": "groups"}
"""The fields of a request by the names of columns in a stream."""

ERRORS = {"references": InvalidReference, "config": InvalidSetting, "configs": InvalidSetting}
"""The exception for issues of one field; InvalidRequest for other fields, and for several with different ones."""


@dataclass(kw_only=True, slots=True)
class Batch:
    """n responses, each with its reference and its task. What could not be read is None, as `issues` report.

    Texts are a column of UTF-8, or a list of Python objects: strings, and for references also steps and records.
    """

    responses: Texts | None = None
    references: ReferenceTexts | None = None
    has_read_labels: bool = False
    """True once `batch_tasks.read_labels` has replaced references by what their tasks take."""
    label_tasks: np.ndarray | None = None
    """uint8 (references,): the number of the task that each names, `NO_TASK` without one, or `UNKNOWN`."""
    label_faults: dict[int, Issue] = field(default_factory=dict)
    """The issue of each reference whose task is `UNKNOWN`; it is a member of the record in other tasks than SCORE."""
    follows_labels: bool = False
    """True if the request names no task, so that labels may."""
    reference_index: np.ndarray | None = None
    """int64 (n,), set by `set_index`, or else by `check` to the only reference or the one of the same position."""
    groups: np.ndarray | None = None
    """int64 (n,), equal for equal groups; None also without groups."""
    task: str | None = "score"
    """The reward of every response; None if each response has one, by its number in `task_codes`."""
    task_codes: np.ndarray | None = None
    """uint8 (n,), positions in `REWARDS`; `UNKNOWN` in rows whose task an issue reports."""
    configurations: dict[str, ColumnScorer] = field(default_factory=dict)
    """How rows of SCORE are scored, by what issues call the configuration: one, or several for SCORE alone."""
    options: dict[str, Any] = field(default_factory=dict)
    """The options of other rewards by name; one that is missing has its defaults."""
    advantages: bool = False
    """True if advantages will be computed, for which groups must have two responses."""
    steps: bool = False
    """True if the steps of each response are wanted."""
    max_reference_bytes: int = MAX_REFERENCE_BYTES
    validate: Validate | None = None
    """Called with a column that may be invalid UTF-8, to raise an error if it is."""
    issues: list[Issue] = field(default_factory=list)

    # Of the part of a batch that has the rows of one reward:
    rows: np.ndarray | None = None
    """int64, ascending: the numbers of the rows in the batch; None for all."""
    reference_numbers: np.ndarray | None = None
    """int64, ascending: the numbers of the references in the batch; None for all."""
    read_only: bool = False
    """True if references are only read, for their issues, because the batch has an issue already."""

    @property
    def size(self) -> int:
        """The number of responses that could be read."""
        return 0 if self.responses is None else count_of(self.responses)

    @property
    def scorer(self) -> ColumnScorer:
        """The first of the configurations."""
        return next(iter(self.configurations.values()))

    @property
    def alternatives(self) -> Alternatives | None:
        """The alternatives of its references, if any has some and they are a column."""
        return None if self.references is None else self.references.alternatives

    def has_issue(self, name: str) -> bool:
        return any(field_of(issue) == name for issue in self.issues)

    def set_responses(self, texts: Any) -> None:
        """Copy responses, so that the caller cannot change the list while kernels read the strings."""
        if isinstance(texts, (str, bytes)) or not isinstance(texts, Sequence):
            self.issues.append(Issue("responses", "wrong_type", "a list of strings is needed"))
            return
        self.responses = list(texts)
        if set(map(type, self.responses)) != {str}:
            self.issues += [
                Issue(f"responses[{row}]", "wrong_type", "must be a string")
                for row, text in enumerate(self.responses)
                if not isinstance(text, str)
            ]

    def set_references(self, references: Any) -> None:
        """Copy references, which each reward checks for itself."""
        if isinstance(references, (str, bytes)) or not isinstance(references, Sequence):
            self.issues.append(Issue("references", "wrong_type", "a list of references is needed"))
        else:
            self.references = ReferenceTexts(list(references))

    def set_index(self, index: Any) -> None:
        """Set the reference of each response after the responses."""
        if index is None or self.responses is None:
            return
        is_array = isinstance(index, np.ndarray) and index.ndim == 1 and index.dtype.kind in "iu"
        if not is_array and (isinstance(index, (str, bytes)) or not isinstance(index, Sequence)):
            self.issues.append(Issue("reference_index", "wrong_type", "a list of integers is needed"))
            return
        entries = index
        if len(index) != self.size:
            wrong_length = f"it has {len(index)} entries for {self.size} responses"
            self.issues.append(Issue("reference_index", "wrong_length", wrong_length))
            entries = index if is_array else list(index)
            entries = entries[: self.size]
        self.reference_index = entries.astype(np.int64) if is_array else self._integers(entries)

    def _integers(self, entries: Sequence[Any]) -> np.ndarray:
        """Return entries as int64, -1 for what is far out of range, and 0 for what is no integer, with an issue."""
        if set(map(type, entries)) == {int}:
            with suppress(OverflowError):
                return np.fromiter(entries, np.int64, len(entries))
        wrong = {row for row, entry in enumerate(entries) if not is_integer(entry)}
        detail = "must be a 64-bit integer"
        self.issues += [Issue(f"reference_index[{row}]", "wrong_type", detail) for row in sorted(wrong)]
        clipped = [0 if row in wrong else entry if -1 <= entry < UNLIMITED else -1 for row, entry in enumerate(entries)]
        return np.array(clipped, np.int64)

    def set_groups(self, groups: Any) -> None:
        """Set the group of each response after the responses."""
        if groups is not None and self.responses is not None:
            self.groups, issues = group_numbers(groups, self.size)
            self.issues += issues

    def check(self) -> None:
        """Complete the index and the issues, except of the content of references, and sort the issues."""
        if self.responses is not None and self.references is not None:
            self._check_index(self.size, self.references.rows)
            self._check_groups()
        if self.issues:
            self.issues = in_order(self.issues)

    def check_texts(self) -> None:
        """Validate all texts, if that has been left to whoever reads them."""
        for texts in (self.responses, self.references and self.references.texts):
            if self.validate is not None and isinstance(texts, TextColumn):
                self.validate(texts)
        self.validate = None

    def _check_index(self, responses: int, references: int) -> None:
        index = self.reference_index
        if index is None:
            if self.issues and self.has_issue("reference_index"):
                return
            if references == responses:
                self.reference_index = np.arange(responses, dtype=np.int64)
            elif references == 1:
                self.reference_index = np.zeros(responses, np.int64)
            else:
                detail = f"it is needed: there are {responses} responses and {references} references"
                self.issues.append(Issue("reference_index", "missing", detail))
            return
        if index.min(initial=0) < 0 or index.max(initial=-1) >= references:
            outside = np.flatnonzero((index < 0) | (index >= references))
            detail = f"it is not an index of one of the {references} references"
            named = {issue.path for issue in self.issues}
            paths = [f"reference_index[{row}]" for row in outside.tolist()]
            self.issues += [Issue(path, "index_out_of_range", detail) for path in paths if path not in named]
        if self.issues and self.has_issue("reference_index"):
            self.reference_index = None

    def _check_groups(self) -> None:
        """Check what depends on a valid index: references without a response, and groups of one."""
        index = self.reference_index
        if index is None:
            return
        self.check_unused()
        if self.advantages and self.groups is None and not (self.issues and self.has_issue("groups")):
            self.issues += groups_of_one(index)

    def check_unused(self) -> None:
        """Append an issue for each reference without a response, where responses have several tasks."""
        index, codes, references = self.reference_index, self.task_codes, self.references
        if index is not None and codes is not None and references is not None and len(np.unique(codes)) != 1:
            detail = "no response names it, so its task is unknown"
            unused = np.setdiff1d(np.arange(references.rows), index)
            self.issues += [Issue(f"references[{row}]", "unused_reference", detail) for row in unused.tolist()]

    def at(self, rows: np.ndarray, references: np.ndarray | None, index: np.ndarray) -> Batch:
        """Return the batch with these rows and references, int64, ascending; None for all references."""
        assert self.references is not None
        return replace(
            self,
            responses=None if self.responses is None else take(self.responses, rows),
            references=self.references if references is None else self.references.take(references),
            label_tasks=None,
            reference_index=index,
            groups=None,
            task_codes=None if self.task_codes is None else self.task_codes[rows],
            rows=rows,
            reference_numbers=references,
        )


def read_objects(scorer: ColumnScorer, responses: Any, references: Any, reference_index: Any, groups: Any) -> Batch:
    """Return Python objects as a batch of SCORE."""
    batch = Batch(configurations={"config": scorer})
    batch.set_responses(responses)
    batch.set_references(references)
    batch.set_index(reference_index)
    batch.set_groups(groups)
    return batch


def is_integer(entry: Any) -> bool:
    return isinstance(entry, (int, np.integer)) and not isinstance(entry, bool)


def group_numbers(groups: Any, responses: int) -> tuple[np.ndarray | None, list[Issue]]:
    """Return a number for the group of each response, int64 (responses,), None without (valid) groups; and issues.

    An integer and the string of its digits are two groups.
    """
    if groups is None:
        return None, []
    entries = groups.tolist() if isinstance(groups, np.ndarray) and groups.ndim == 1 else groups
    if isinstance(entries, (str, bytes)) or not isinstance(entries, Sequence):
        return None, [Issue("groups", "wrong_type", "a list of strings or integers is needed")]
    issues = []
    if len(entries) != responses:
        issues.append(Issue("groups", "wrong_length", f"it has {len(entries)} entries for {responses} responses"))
    if not set(map(type, entries)) <= {str, int}:
        issues += [
            Issue(f"groups[{row}]", "wrong_type", "must be a string or an integer")
            for row, entry in enumerate(entries[:responses])
            if not isinstance(entry, str) and not is_integer(entry)
        ]
    if issues:
        return None, issues
    numbers: dict[str | int, int] = {}
    return np.fromiter((numbers.setdefault(entry, len(numbers)) for entry in entries), np.int64, responses), []


def groups_of_one(reference_index: np.ndarray) -> list[Issue]:
    """Return an issue if groups that follow from references, int64 (n,), have one response each.

    That is a mistake: one reference for each row and no index. Groups that a request names may have one response.
    """
    if len(reference_index) and len(np.unique(reference_index)) == len(reference_index):
        return [Issue("include", "no_group", "advantages need a group of at least two responses")]
    return []


def field_of(issue: Issue) -> str:
    """Return the field of a request that an issue is about."""
    start = issue.path.partition("[")[0]
    if start in PLACES:
        return start
    name = start.removeprefix("query.").partition(".")[0].removesuffix(" (dictionary)")
    return name if issue.reason == "unknown_field" else COLUMNS.get(name, name)


def in_order(issues: Iterable[Issue]) -> list[Issue]:
    """Return issues in the order that lists of them have everywhere: see `ISSUE_ORDER`."""

    def place(issue: Issue) -> tuple[int, int]:
        field = PLACES.get(field_of(issue), -1)
        element = ELEMENT.match(issue.path) if field >= 0 else None
        return field, int(element[1]) if element else -1

    return sorted(issues, key=place)


def error_of(issues: Sequence[Issue]) -> ScoringError:
    """Return the error of a batch with these issues."""
    kinds = {
        NotInstalled if issue.reason == "not_installed" else ERRORS.get(field_of(issue), InvalidRequest)
        for issue in issues
    }
    return (kinds.pop() if len(kinds) == 1 else InvalidRequest)(issues)
