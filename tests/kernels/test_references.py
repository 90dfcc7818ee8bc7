"""Reading references and responses: verdicts, spans and columns, which do not depend on the batch, against the twin."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.column import frozen
from assay.kernels.reading.references import CANON_AT, ID_AT, OBJECT_AT, SLOT_AT, STEP_AT, STRING_AT, References
from assay.kernels.reading.response import ABSENT, BODY, LINE_COLUMNS, NUMBER, START, STOP, TOKENS, find_text_spans
from assay.kernels.text.lines import NO_STEP
from assay.kernels.warmup import warmup
from tests.cases import answer
from tests.kernels.reading import Verdict, read_columns, twin_verdict, verdicts_of
from tests.reference.sections import find_sections
from tests.reference.steps import ASCII_SPACE, ORC_STEP, lines
from tests.strategies import doubtful_references, examples, references, responses

GOOD = answer('Step 3: {"action": "spin", "objects": ["5 ml tube"], "parameters": []}', "")
BAD = "Step 1: {]}"
STEP = 'Step 9: {"action": "a", "objects": [], "parameters": []}'


def as_text(reference: str | dict) -> str:
    if isinstance(reference, str):
        return reference
    return "\n".join(f"Step {i}: {json.dumps(step)}" for i, step in enumerate(reference["steps"], 1))


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
    return [column[start[k] : stop[k]].tolist() for k, group in columns.items() for column in group]


@given(st.lists(st.one_of(references.map(as_text), doubtful_references, doubtful_references), min_size=1, max_size=4))
@examples(100)
def test_any_references(texts):
    """In a batch, in a slice of a column, and alone."""
    verdicts, together = read_columns(["", *texts, GOOD, BAD], 5, 9)
    assert verdicts == [Verdict("no_steps", None), *map(twin_verdict, texts), Verdict("ok", None), twin_verdict(BAD)]
    for row, text in enumerate(texts, 1):
        (verdict,), alone = read_columns([text])
        assert verdict == verdicts[row]
        assert part(together, row) == part(alone, 0)
        assert (together.step_counts[row] == 0) == (verdict.reason != "ok")
    assert all(not column.flags.writeable for column in together)


def test_bad_line_is_counted_among_lines_that_are_not_blank():
    texts = {
        f"\n\r\n \t\n{STEP}\n\x0b\n{STEP}\r\rStep 3: {{}}\n": Verdict("bad_step_schema", 2),
        f"{STEP}\r{STEP}\r\nSteps": Verdict("bad_step_line", 2),
        f"<think></think><key>{STEP}</key><orc></orc><note></note>{BAD}": Verdict("ok", None),
        f"<think></think><key>{STEP}</key><orc></orc>{BAD}": Verdict("bad_step_line", 0),
    }
    assert verdicts_of(list(texts)) == [*map(twin_verdict, texts)] == [*texts.values()]
    many = ["\n".join([STEP] * k) + end for k in range(5) for end in ("", "\n\n \r", "\n\nbad", "\r\n" + BAD)]
    for limit in (1, 2, 3, 1024):
        assert verdicts_of(many, max_steps=limit) == [twin_verdict(text, limit) for text in many]


# Spans of sections, lines and steps


def spans(text: bytes, prefilled: bool) -> tuple[int, list[list[int]], list[list[int]], list[list[int]]]:
    """Return (complete sections, sections, rows of key, rows of orc) of one text, in buffers with other content."""
    warmup()
    sections = np.full((4, 2), 77, np.int64)
    rows = np.full((len(text) // 2 + 2, LINE_COLUMNS), 77, np.int64)
    counts = np.full(2, 77, np.int64)
    complete = find_text_spans(sections, rows, counts, frozen(np.frombuffer(text, np.uint8), np.uint8), prefilled)
    key, orc = counts.tolist()
    assert (rows[key + orc :] == 77).all()
    return int(complete), sections.tolist(), rows[:key].tolist(), rows[key : key + orc].tolist()


def assert_lines(text: bytes, rows: list[list[int]], block: str) -> None:
    """Check that the rows are the block's lines, with their numbers, rests and tokens."""
    expected = lines(block)
    assert [text[row[START] : row[STOP]].decode() for row in rows] == expected
    for row, line in zip(rows, expected, strict=True):
        form = ORC_STEP.fullmatch(line)
        assert row[NUMBER] == (min(int(form[1]), 1 << 40) if form else NO_STEP)
        rest = text[row[BODY] : row[STOP]].decode()
        assert rest.strip(ASCII_SPACE) == (form[2].strip(ASCII_SPACE) if form else line)
        assert row[TOKENS] == len(rest.split())


@given(responses, st.booleans())
@examples(200)
def test_spans(response, prefilled):
    text = response.encode()
    complete, sections, key, orc = spans(text, prefilled)
    expected = find_sections("<think>" + response if prefilled else response)
    assert (complete == 4) == (expected is not None)
    if expected is None:
        assert all(section[1] == ABSENT for section in sections[complete:])
        assert orc == []
        assert_lines(text, key, response)
    else:
        blocks = [text[start:stop].decode() for start, stop in sections]
        assert blocks[1:3] == [expected.key, expected.orc]
        assert_lines(text, key, expected.key)
        assert_lines(text, orc, expected.orc)
