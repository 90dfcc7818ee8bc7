"""Python strings encoded from their memory, and UTF-8 validation of columns, against Python's own codecs."""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.column import TextColumn
from assay.kernels.compiler import JIT
from assay.kernels.text import strings as python_strings
from assay.kernels.text.strings import ROOM, encode_strings, find_strings, is_valid_column
from assay.kernels.warmup import warmup
from assay.service.scoring import texts as text_lists
from tests.kernels.reading import texts_of
from tests.strategies import examples

warmup()

ALPHABETS = ["aZ ~", "aé", "a–", "é–ж", "a😀", "–é😀a", "a\ud800\udfff", "a\ud83d\ude00é😀"]
"""Characters of one, two and four bytes; surrogates, alone and in pairs."""


class Text(str):
    """A subclass of str, which stores its characters elsewhere."""


def written(texts: list[str]) -> list[bytes]:
    """Return each text as the kernels encode it; checks that nothing after the buffer is written."""
    places, offsets = np.zeros((3, len(texts)), np.int64), np.zeros(len(texts) + 1, np.int64)
    characters = find_strings(places, np.array([id(text) for text in texts], np.int64))
    assert characters == sum(map(len, texts))
    out = np.full(4 * characters + ROOM + 8, 0x7E, np.uint8)
    encode_strings(out, offsets, places)
    assert out[-8:].tobytes() == b"~" * 8
    return [out[start:stop].tobytes() for start, stop in pairwise(offsets)]


def expected(text: str) -> bytes:
    return re.sub("[\ud800-\udfff]", "\ufffd", text).encode()


@given(st.lists(st.one_of(st.text(), *(st.text(alphabet, max_size=200) for alphabet in ALPHABETS)), max_size=9))
@examples(200)
def test_texts(texts):
    assert written(texts) == list(map(expected, texts))


@pytest.mark.parametrize("odd", ["", "é", "–", "😀", "\ud800", "\x7f", "\x80"])
def test_one_odd_character_anywhere(odd):
    """Around every boundary of the vectors for ASCII, in strings of every width and of other classes."""
    sizes = [(before, after) for before in range(66) for after in (0, 1, 14, 15, 31, 63, 64)]
    texts = ["a" * before + odd + "b" * after + widest for before, after in sizes for widest in ("", "é", "–", "😀")]
    texts += [kind(texts[-1]) for kind in (Text, np.str_)]
    text = "crème – " * 20
    assert orjson.loads(orjson.dumps(text)) == text  # after which the string stores its UTF-8 beside its characters
    assert written([*texts, text]) == list(map(expected, [*texts, text]))


@pytest.mark.parametrize("reason", ["free-threaded", "another implementation", "another layout"])
def test_strings_that_cannot_be_read_in_place_are_encoded_by_python(monkeypatch, caplog, reason):
    """The answers are the same, and a warning says why it is slower."""
    if reason == "free-threaded":
        monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    elif reason == "another implementation":
        monkeypatch.setattr(sys, "implementation", SimpleNamespace(name="pypy"))
    else:
        monkeypatch.setattr(python_strings, "encode_strings", lambda *_: None)
    python_strings.can_read_strings.cache_clear()
    try:
        assert not python_strings.can_read_strings()
        assert "strings are encoded by str.encode" in caplog.text
        monkeypatch.setattr(text_lists, "find_strings", None)
        texts = ["", "a", "é–😀", "\ud800", "b" * 100]
        column = text_lists.located(texts)
        assert texts_of(TextColumn(column.data, column.offsets)) == list(map(expected, texts))
    finally:
        python_strings.can_read_strings.cache_clear()


# Validation

EDGES = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF]
EDGES += [0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
"""Bytes on either side of every boundary of RFC 3629."""


def assert_agree(*rows: bytes) -> None:
    """Compare `is_valid_column` of the rows, with other text before and after them, with Python's decoder."""
    data = np.frombuffer(b"~" * 7 + b"".join(rows) + b"~" * 9, np.uint8)
    column = TextColumn.of(data, 7 + np.cumsum([0, *map(len, rows)]))
    assert bool(is_valid_column(*column)) == all(map(is_text, rows)), rows


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
                    assert_agree(b"a" * before + bytes([first, second]) + rest)


wide = st.text("aé€😀", min_size=30, max_size=90).map(str.encode)
rows = st.one_of(wide, st.text(max_size=90).map(str.encode), st.lists(st.sampled_from(EDGES), max_size=12).map(bytes))


@given(st.lists(st.one_of(rows, st.binary(max_size=8)), min_size=1, max_size=5), wide, st.data())
@examples(300)
def test_rows_and_one_spoiled_byte(rows, row, data):
    assert_agree(*rows)
    spoiled = bytearray(row)
    spoiled[data.draw(st.integers(0, len(row) - 1))] = data.draw(st.sampled_from(EDGES))
    assert_agree(bytes(spoiled))
    cut = data.draw(st.integers(0, len(row)))  # a character of two rows belongs to neither
    assert_agree(row[:cut], row[cut:])


@pytest.mark.parametrize(
    ("offsets", "valid"),
    [
        ([0, 3, 6], True),
        ([6, 6, 6], True),
        ([0, 3, 7], False),
        ([0, 2**62, 6], False),
        ([0, 5, 1], False),
        ([-1, 3, 6], False),
        ([7, 7, 7], False),
        ([-(2**63), 2**63 - 1, 6], False),
    ],
)
def test_rows_lie_inside_their_buffer(offsets, valid):
    column = TextColumn.of(np.frombuffer(b"abcdef", np.uint8), np.array(offsets, np.int64))
    assert is_valid_column(*column) == valid
