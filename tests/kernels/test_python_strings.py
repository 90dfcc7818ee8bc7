"""Python strings encoded from their memory, against `str.encode`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.column import TextColumn
from assay.kernels.text import strings as python_strings
from assay.kernels.text.strings import ROOM, encode_strings, find_strings
from assay.kernels.warmup import warmup
from assay.service.scoring import text_columns
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
@examples(500)
def test_texts(texts):
    assert written(texts) == list(map(expected, texts))


@pytest.mark.parametrize("odd", ["", "é", "–", "😀", "\ud800", "\x7f", "\x80"])
@pytest.mark.parametrize("widest", ["", "é", "–", "😀"])
def test_one_odd_character_anywhere(odd, widest):
    """Around every boundary of the vectors for ASCII, in strings of every width."""
    texts = ["a" * before + odd + "b" * after + widest for before in range(66) for after in (0, 1, 14, 15, 31, 63, 64)]
    assert written(texts) == list(map(expected, texts))


def test_strings_of_other_classes():
    texts = [kind("a" * 70 + wide) for kind in (Text, np.str_) for wide in ("", "é", "–", "😀")]
    assert written(texts) == list(map(expected, texts))


def test_a_string_that_knows_its_utf8_already():
    """Some libraries request it, and the string stores it beside its characters."""
    text = "crème – " * 20
    assert orjson.loads(orjson.dumps(text)) == text
    assert written([text, text]) == [text.encode()] * 2


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
        assert "strings are encoded by str.encode, which is slower" in caplog.text
        monkeypatch.setattr(text_columns, "find_strings", None)
        texts = ["", "a", "é–😀", "\ud800", "b" * 100]
        assert [bytes(row) for row in rows_in(text_columns.owned_column(texts))] == list(map(expected, texts))
        assert [bytes(row) for row in rows_in(text_columns.borrowed_column(texts))] == list(map(expected, texts))
    finally:
        python_strings.can_read_strings.cache_clear()


def test_this_python_passes_the_check():
    python_strings.can_read_strings.cache_clear()
    assert python_strings.can_read_strings() == python_strings.is_safe_build()


def rows_in(column: TextColumn) -> Iterator[np.ndarray]:
    return (column.data[start:stop] for start, stop in pairwise(column.offsets))
