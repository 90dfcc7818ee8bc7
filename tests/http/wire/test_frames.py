"""Frames between the service and its jobs: what is written is read, and nothing else is."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from assay.service.http.wire.parts import pack, read_frames, unpack, write_frame
from tests.strategies import examples

COLUMN = st.one_of(*(arrays(kind, st.integers(0, 20)) for kind in (np.uint8, np.int64, np.float64)))
HEAD = st.dictionaries(st.text(max_size=5), st.integers(-5, 5), max_size=3)


@examples(100)
@given(HEAD, st.lists(COLUMN, max_size=4), st.lists(st.binary(max_size=30), max_size=4), st.integers(0, 250))
def test_what_is_packed_is_read_unless_it_was_cut_off(head, columns, others, length):
    frames = [b"".join(pack(head, columns)), *others]
    file = io.BytesIO()
    for frame in frames:
        write_frame(file, b"r", frame[:3], frame[3:])
    assert list(read_frames(io.BytesIO(file.getvalue()))) == [(b"r", frame) for frame in frames]
    ends = np.cumsum([len(frame) + 9 for frame in frames]).tolist()
    whole = sum(end <= length for end in ends)
    assert [frame for _, frame in read_frames(io.BytesIO(file.getvalue()[:length]))] == frames[:whole]
    read, found = unpack(frames[0])
    assert read == head
    assert [(column.dtype, column.tobytes()) for column in found] == [(c.dtype, c.tobytes()) for c in columns]


@examples(200)
@given(st.binary(max_size=60))
def test_other_bytes_are_refused(frame):
    with pytest.raises(ValueError):  # noqa: PT011
        unpack(frame)


@pytest.mark.parametrize(
    "columns", [b'[["O",1]]', b'[["u1",-1]]', b'[["u1",9]]', b'[["u1",0.5]]', b'[["u1"]]', b"5", b'[["u1",1]]x']
)
def test_columns_of_other_types_and_lengths_are_refused(columns):
    text = b'{"head":{},"columns":%b}' % columns
    with pytest.raises(ValueError):  # noqa: PT011
        unpack(len(text).to_bytes(8, "little") + text + b"12")
