"""The kernels that read texts, with plain Python values in and out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from assay.kernels.column import TextColumn
from assay.kernels.reading.references import References
from assay.kernels.rules import REASONS
from assay.kernels.warmup import warmup
from assay.service.scoring.configurations import rules_of
from assay.service.scoring.references import UNLIMITED, ReferenceTexts
from assay.service.scoring.shares import read
from assay.service.settings import ScoreSettings
from tests.kernels.faces import text_column
from tests.reference.sections import find_sections
from tests.reference.steps import BadStepError, key_step, lines

PAPER_RULES = rules_of(ScoreSettings())


class Verdict(NamedTuple):
    """Why a text is not a valid reference (`ok` if it is), and the index of its bad line among the non-blank ones."""

    reason: str
    bad_line: int | None


def read_columns(
    texts: Sequence[str], before: int = 0, after: int = 0, max_steps: int = 1024
) -> tuple[list[Verdict], References]:
    """Read all texts in one share."""
    warmup()
    references = ReferenceTexts(text_column(texts, before, after))
    parsed, statuses, bad_lines = read(references, UNLIMITED, max_steps, quantities=True)
    reasons = [REASONS[status] for status in statuses]
    bad = ("bad_step_line", "bad_step_json", "bad_step_schema")
    verdicts = [
        Verdict(reason, int(line) if reason in bad else None) for reason, line in zip(reasons, bad_lines, strict=True)
    ]
    return verdicts, parsed


def verdicts_of(texts: Sequence[str], before: int = 0, after: int = 0, max_steps: int = 1024) -> list[Verdict]:
    return read_columns(texts, before, after, max_steps)[0]


def twin_verdict(text: str, max_steps: int = 1024) -> Verdict:
    """Return the verdict of the textbook twin on a reference."""
    sections = find_sections(text)
    rows = lines(sections.key if sections else text)
    if len(rows) > max_steps:
        return Verdict("too_long", None)
    for number, line in enumerate(rows):
        try:
            key_step(line)
        except BadStepError as bad:
            return Verdict(bad.reason, number)
    return Verdict("ok" if rows else "no_steps", None)


def texts_of(column: TextColumn | None) -> list[bytes] | None:
    """Return the rows of a text column."""
    if column is None:
        return None
    data = column.data.tobytes()
    return [data[start:stop] for start, stop in pairwise(column.offsets.tolist())]


def step_with(value: str) -> str:
    """Return a key line that is valid if `value` is JSON; its name occurs again, and the later one wins."""
    return f'Step 1: {{"objects": {value}, "action": "add", "objects": [], "parameters": []}}'
