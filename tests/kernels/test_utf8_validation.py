"""UTF-8 validation of text columns, against Python's decoder, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.column import TextColumn
from assay.kernels.compiler import JIT
from assay.kernels.text.strings import is_valid_column
from assay.kernels.warmup import warmup
from tests.strategies import examples

warmup()

EDGES = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF]
EDGES += [0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
"""Bytes on either side of every boundary of RFC 3629."""


def holds(rows: list[bytes]) -> bool:
    """Return `is_valid_column` of the rows, with other text before and after them."""
    data = np.frombuffer(b"~" * 7 + b"".join(rows) + b"~" * 9, np.uint8)
    return bool(is_valid_column(*TextColumn.of(data, 7 + np.cumsum([0, *map(len, rows)]))))


def is_text(row: bytes) -> bool:
    try:
        row.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_every_pair_and_triple_of_edges():
    """At the start of a block, across its end, and where less than a block is left."""
    for before in (0, 61, 62, 63, 64, 130) if JIT else (62,):
        for first in EDGES:
            for second in EDGES:
                for rest in (b"", b"\x80", b"\x80\x80", b"\xbfA", b"\x80\x80\x80", b"\x80" * 2 + b"a" * 70):
                    row = b"a" * before + bytes([first, second]) + rest
                    assert holds([row]) == is_text(row), row


@given(
    st.lists(
        st.one_of(
            st.text(max_size=90).map(str.encode),
            st.text("aé€😀", min_size=50, max_size=90).map(str.encode),
            st.lists(st.sampled_from(EDGES), max_size=12).map(bytes),
            st.binary(max_size=8),
        ),
        min_size=1,
        max_size=5,
    )
)
@examples(600)
def test_rows(rows):
    assert holds(rows) == all(map(is_text, rows))


@given(st.text("aé€😀", min_size=30, max_size=90).map(str.encode), st.data())
@examples(300)
def test_one_spoiled_byte(row, data):
    spoiled = bytearray(row)
    spoiled[data.draw(st.integers(0, len(row) - 1))] = data.draw(st.sampled_from(EDGES))
    assert holds([bytes(spoiled)]) == is_text(bytes(spoiled))


def test_a_character_of_two_rows_belongs_to_neither():
    for row in ("é", "€", "😀", "a" * 63 + "😀" + "b" * 70):
        encoded = row.encode()
        for cut in range(1, len(encoded)):
            assert holds([encoded[:cut], encoded[cut:]]) == (is_text(encoded[:cut]) and is_text(encoded[cut:]))


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([0, 3, 6], True),
        ([6, 6, 6], True),
        ([2, 2, 2], True),
        ([0, 3, 7], False),
        ([0, 2**62, 6], False),
        ([0, 5, 1], False),
        ([-1, 3, 6], False),
        ([-3, -2, -1], False),
        ([7, 7, 7], False),
        ([-(2**63), 2**63 - 1, 6], False),
    ],
)
def test_rows_lie_inside_their_buffer(offsets, expected):
    column = TextColumn.of(np.frombuffer(b"abcdef", np.uint8), np.array(offsets, np.int64))
    assert is_valid_column(*column) == expected
