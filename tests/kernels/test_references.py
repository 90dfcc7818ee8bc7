"""Reading references: verdicts against the twin, alone and in batches, and columns that do not depend on the batch."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.reading.references import CANON_AT, ID_AT, OBJECT_AT, SLOT_AT, STEP_AT, STRING_AT, References
from tests.cases import BAD_REFERENCES, answer
from tests.kernels.reading import Verdict, read_columns, twin_verdict, verdicts_of
from tests.strategies import doubtful_references, examples, references

GOOD = answer('Step 3: {"action": "spin", "objects": ["5 ml tube"], "parameters": []}', "")
BAD = "Step 1: {]}"


def as_text(reference: str | dict) -> str:
    if isinstance(reference, str):
        return reference
    return "\n".join(f"Step {i}: {json.dumps(step)}" for i, step in enumerate(reference["steps"], 1))


def check(text: str) -> Verdict:
    """Return the twin's verdict, after comparing the kernel with it alone, in a batch, and in a slice of a column."""
    expected = twin_verdict(text)
    empty, good, bad = Verdict("no_steps", None), Verdict("ok", None), Verdict("bad_step_json", 0)
    assert verdicts_of([text]) == [expected]
    batch, verdicts = ["", text, GOOD, BAD, text, ""], [empty, expected, good, bad, expected, empty]
    assert verdicts_of(batch) == verdicts
    assert verdicts_of(batch, 5, 9) == verdicts
    return expected


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        (reference, reason)
        for _, reference, reason in BAD_REFERENCES
        if isinstance(reference, str) and reason != "too_long"
    ],
    ids=[name for name, reference, reason in BAD_REFERENCES if isinstance(reference, str) and reason != "too_long"],
)
def test_bad_references(reference, reason):
    assert check(reference).reason == reason


@given(references)
@examples(60)
def test_readable(reference):
    assert check(as_text(reference)).reason == "ok"


@given(doubtful_references)
@examples(300)
def test_doubtful(text):
    check(text)


def test_bad_line_is_counted_among_lines_that_are_not_blank():
    step = 'Step 9: {"action": "a", "objects": [], "parameters": []}'
    assert check(f"\n\r\n \t\n{step}\n\x0b\n{step}\r\rStep 3: {{}}\n") == Verdict("bad_step_schema", 2)
    assert check(f"{step}\r{step}\r\nSteps") == Verdict("bad_step_line", 2)
    assert check(f"<think></think><key>{step}</key><orc></orc><note></note>{BAD}") == Verdict("ok", None)
    assert check(f"<think></think><key>{step}</key><orc></orc>{BAD}") == Verdict("bad_step_line", 0)


def test_limit_of_steps():
    step = 'Step 9: {"action": "a", "objects": [], "parameters": []}'
    texts = ["\n".join([step] * k) + end for k in range(5) for end in ("", "\n\n \r", "\n\nbad", "\r\n" + BAD)]
    for limit in (1, 2, 3, 1024):
        assert verdicts_of(texts, max_steps=limit) == [twin_verdict(text, limit) for text in texts]


def part(parsed: References, row: int) -> list[list]:
    """Return the part of the columns for one reference; its positions are relative to its starts."""
    columns = {
        STEP_AT: [parsed.steps.T],
        ID_AT: [parsed.ids],
        OBJECT_AT: [parsed.objects],
        STRING_AT: [parsed.starts, parsed.lengths, parsed.heads],
        SLOT_AT: [parsed.slots],
        CANON_AT: [parsed.canon],
    }
    start, stop = parsed.ranges[row], parsed.ranges[row + 1]
    return [column[start[k] : stop[k]].tolist() for k, kept in columns.items() for column in kept]


@given(st.lists(st.one_of(references.map(as_text), doubtful_references), min_size=1, max_size=4))
@examples(60)
def test_columns_do_not_depend_on_the_batch(texts):
    verdicts, together = read_columns(texts)
    assert together.rows == len(texts)
    for row, text in enumerate(texts):
        (verdict,), alone = read_columns([text])
        assert verdict == verdicts[row] == twin_verdict(text)
        assert part(together, row) == part(alone, 0)
        assert (together.step_counts[row] == 0) == (verdict.reason != "ok")


def test_columns_are_read_only_and_trimmed():
    _, parsed = read_columns([GOOD, "", GOOD])
    assert all(not column.flags.writeable for column in parsed)
    assert parsed.ranges[:, STEP_AT].tolist() == [0, 1, 1, 2]
    assert parsed.step_counts.tolist() == [1, 0, 1]
    assert parsed.nbytes < 4096
    assert np.all(np.diff(parsed.ranges, axis=0) >= 0)
