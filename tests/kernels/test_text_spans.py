"""Spans of sections, lines and steps, against the twin's sections and lines."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.column import frozen
from assay.kernels.reading.response import ABSENT, BODY, LINE_COLUMNS, NUMBER, START, STOP, TOKENS, find_text_spans
from assay.kernels.text.lines import NO_STEP
from assay.kernels.warmup import warmup
from tests.reference.sections import find_sections
from tests.reference.steps import ASCII_SPACE, ORC_STEP, lines
from tests.strategies import examples, responses


def spans(text: bytes, prefilled: bool) -> tuple[int, list[list[int]], list[list[int]], list[list[int]]]:
    """Return (complete sections, sections, rows of key, rows of orc) of one text, in buffers with other content."""
    warmup()
    sections = np.full((4, 2), 77, np.int64)
    found = np.full((len(text) // 2 + 2, LINE_COLUMNS), 77, np.int64)
    counts = np.full(2, 77, np.int64)
    whole = find_text_spans(sections, found, counts, frozen(np.frombuffer(text, np.uint8), np.uint8), prefilled)
    key, orc = counts.tolist()
    assert (found[key + orc :] == 77).all()
    rows = found[: key + orc].tolist()
    return int(whole), sections.tolist(), rows[:key], rows[key:]


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
@examples(300)
def test_spans(response, prefilled):
    text = response.encode()
    whole, sections, key, orc = spans(text, prefilled)
    expected = find_sections("<think>" + response if prefilled else response)
    assert (whole == 4) == (expected is not None)
    if expected is None:
        assert sections[whole][1] == ABSENT or whole == 0
        assert orc == []
        assert_lines(text, key, response)
        return
    _, key_block, orc_block, _ = (text[start:stop].decode() for start, stop in sections)
    assert (key_block, orc_block) == (expected.key, expected.orc)
    assert_lines(text, key, expected.key)
    assert_lines(text, orc, expected.orc)


def test_sections_are_told_as_far_as_they_are_found():
    text = b"a<think>b</think> <key>c</key>\n<orc>d</orc><note>e</note>f"
    tags = [(7 + 1, 9), (23, 24), (36, 37), (49, 50)]
    whole, sections, key, _ = spans(text, False)
    assert (whole, [tuple(section) for section in sections]) == (4, tags)
    assert [text[row[START] : row[STOP]] for row in key] == [b"c"]
    for cut, count in ((57, 4), (56, 3), (48, 2), (35, 1), (22, 0), (7, 0)):
        whole, sections, _, _ = spans(text[:cut], False)
        assert whole == count
        assert [tuple(section) for section in sections[:count]] == tags[:count]
        assert all(section[1] == ABSENT for section in sections[count:])
    assert spans(text[8:], True)[1][0] == [0, 1]
    assert spans(b"", False) == (0, [[ABSENT, ABSENT]] * 4, [], [])
