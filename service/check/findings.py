"""Findings on single rows: invalid references, gold answers that fail a gate, and broken rules of SciRecipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..evaluate.scirecipe_records import actions_of, library_of, violations
from ..evaluate.thoth import key_block
from ..records.rows import Place, Rollout
from ..rewards.registry import SCORE
from .gold import NO_ANSWER
from .rows import CheckedRow

__all__ = ["Finding", "Rules", "findings_of"]


class Finding(NamedTuple):
    """One finding on a row: an `error` (its reference is invalid) or a `warning`, its reason and a sentence."""

    place: Place
    kind: str
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}: {self.detail} ({self.reason})"

    def document(self) -> dict[str, Any]:
        return {**self.place.document(), "kind": self.kind, "reason": self.reason, "detail": self.detail}


class Rules(NamedTuple):
    scirecipe: bool | None
    reference_field: str | None
    response_field: str | None

    def broken_by(self, record: dict[str, Any], rollout: Rollout) -> Iterator[tuple[str, str]]:
        checked = {**record, "reference": record[self.reference_field]} if self.reference_field in record else record
        published = isinstance(record.get("key"), str) and "orc" in record
        requested = published if self.scirecipe is None else self.scirecipe
        for violation in violations(checked):
            if requested or violation.rule == "library":
                yield violation
        library, answer = library_of(record), record.get(self.response_field or "")
        if library is not None and isinstance(answer, str):
            allowed = {action.lower() for action in library}
            used = actions_of(key_block(answer))
            needed = set(actions_of(key_block(rollout.response)))
            outside = sum(action not in allowed for action in used)
            distractors = sum(action in allowed and action not in needed for action in used)
            if outside:
                yield "outside_library", f"the answer uses {outside} actions that are not in the row's library"
            if distractors:
                yield "distractors", f"the answer uses {distractors} actions of the library that the reference does not"


def findings_of(rows: Sequence[CheckedRow], reasons: Sequence[str], rules: Rules) -> Iterator[Finding]:
    """Yield the findings on rows, in their order; `reasons` are those of the responses of SCORE without a fault."""
    of_score = iter(reasons)
    for row in rows:
        if row.rollout.fault is not None:
            yield Finding(row.place, "error", *row.rollout.fault)
            continue
        if row.rollout.task != SCORE:
            continue
        if (reason := next(of_score)) not in ("ok", *NO_ANSWER):
            answer = "the record's own answer" if row.has_own_answer else "a response equal to this reference"
            yield Finding(row.place, "warning", reason, f"{answer} would fail a gate")
        if row.record is not None:
            for rule, sentence in rules.broken_by(row.record, row.rollout):
                yield Finding(row.place, "warning", rule, sentence)
