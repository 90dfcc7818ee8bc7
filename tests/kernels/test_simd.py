"""Vector operations on 32 and 64 bytes, against plain Python."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels import memory as blocks
from assay.kernels.compiler import JIT
from assay.kernels.text.lines import count_tokens
from tests.strategies import examples

RUN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789%-._") | frozenset(range(0x80, 0x100))
SPLITS = {byte for byte in range(0x80) if not chr(byte).strip()}
CLASSES = {
    "run_bits": RUN,
    "space_bits": SPLITS,
    "space_lead_bits": {chr(code).encode()[0] for code in range(0x80, 0x3001) if chr(code).isspace()},
    "special_bits": frozenset(b'"\\') | frozenset(range(0x20)) | frozenset(range(0x80, 0x100)),
    "break_bits": frozenset(b"\r\n"),
    "tag_bits": frozenset(b"<"),
    "colon_bits": frozenset(b":"),
    "non_ascii_bits": frozenset(range(0x80, 0x100)),
    "continuation_bits": frozenset(range(0x80, 0xC0)),
    "lead2_bits": frozenset(range(0xC2, 0xE0)),
    "lead3_bits": frozenset(range(0xE0, 0xF0)),
    "lead4_bits": frozenset(range(0xF0, 0xF5)),
    "restricted_lead_bits": frozenset(b"\xe0\xed\xf0\xf4"),
}
"""The bytes that each classifier finds."""


def compiled(function: Any) -> Any:
    """Compile the function as kernels are."""
    return numba.njit(error_model="numpy")(function) if JIT else function


def indices(bits: int) -> set[int]:
    return {k for k in range(64) if int(bits) >> k & 1}


def asking(classifier: Any) -> Any:
    """Compile a classifier together with the number of its bits."""
    count = blocks.bits_set

    def ask(text, pos):
        bits = classifier(text, pos)
        return bits, count(bits)

    return compiled(ask)


@pytest.fixture(scope="module")
def classify():
    """Return a function from a block to every classifier's bits and their number."""
    every = [asking(getattr(blocks, name)) for name in CLASSES]
    return lambda text, pos: [ask(text, pos) for ask in every]


@given(st.binary(min_size=64, max_size=64), st.integers(0, 40))
@examples(200)
def test_classes(classify, content, pos):
    text = np.full(104, 0x20, np.uint8)
    text[pos : pos + 64] = list(content)
    for (bits, count), (name, members) in zip(classify(text, pos), CLASSES.items(), strict=True):
        assert indices(bits) == {k for k, byte in enumerate(content) if byte in members}, name
        assert count == len(indices(bits))


def test_every_byte_is_in_its_classes(classify):
    for first in range(0, 256, 64):
        text = np.arange(first, first + 64).astype(np.uint8)
        for (bits, _), members in zip(classify(text, 0), CLASSES.values(), strict=True):
            assert {first + k for k in indices(bits)} == {byte for byte in members if first <= byte < first + 64}


@pytest.fixture(scope="module")
def moved():
    """Compile lower32, copy32 and fold32 of one position."""
    lower32, copy32, fold32 = blocks.lower32, blocks.copy32, blocks.fold32

    def move(text, pos, length, low, plain, folded, out_pos):
        beyond = lower32(text, pos, low, out_pos)
        copy32(text, pos, plain, out_pos)
        return beyond, fold32(text, pos, length, folded, out_pos)

    return compiled(move)


@given(
    st.one_of(st.binary(min_size=32, max_size=32), st.text("aZ .é", min_size=32).map(lambda s: s.encode()[:32])),
    st.integers(0, 31),
    st.integers(0, 9),
)
@examples(200)
def test_copies(moved, content, length, out_pos):
    text = np.zeros(48, np.uint8)
    text[5:37] = list(content)
    low, plain, folded = (np.full(48, 0x7E, np.uint8) for _ in range(3))
    beyond, both = moved(text, 5, length, low, plain, folded, out_pos)
    lowered = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in content)
    assert low.tobytes() == b"~" * out_pos + lowered + b"~" * (16 - out_pos)
    assert plain.tobytes() == b"~" * out_pos + content + b"~" * (16 - out_pos)
    assert folded.tobytes() == b"~" * out_pos + lowered[:length] + b" " * (32 - length) + b"~" * (16 - out_pos)
    assert indices(beyond) == {k for k in range(32) if content[k] >= 0x80}
    assert indices(int(both) & 0xFFFFFFFF) == {k for k in range(length) if lowered[k] in RUN}
    assert indices(int(both) >> 32) == {k for k in range(length) if content[k] >= 0x80}


@pytest.fixture(scope="module")
def counted():
    """Return `count_tokens`, callable from Python."""
    return compiled(lambda text, start, stop: count_tokens(text, start, stop))


blank = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
spaced = st.text(st.one_of(st.sampled_from(blank), st.sampled_from("aé中😀\u200b\u00ad")), max_size=200)


@given(spaced, st.text("x ", max_size=3), st.integers(0, 80))
@examples(400)
def test_tokens(counted, text, before, after):
    """Counts are those of `str.split()`, wherever the text is in its array and however soon the array ends."""
    encoded = text.encode()
    array = np.frombuffer(before.encode() + encoded + b"w" * after, np.uint8)
    assert counted(array, len(before), len(before) + len(encoded)) == len(text.split())


@pytest.mark.parametrize("after", [0, 200], ids=["byte by byte", "in blocks"])
def test_tokens_around_every_ascii_character(counted, after):
    for code in range(128):
        text = f"w{chr(code)}w"
        array = np.frombuffer(text.encode() + b"w" * after, np.uint8)
        assert counted(array, 0, len(text)) == len(text.split()), code


@pytest.mark.parametrize("size", [0, 1, 15, 16, 61, 62, 63, 64, 65, 127, 128, 129])
def test_tokens_around_blocks(counted, size):
    """Wide white space across the end of a block."""
    for workspace in ("\u3000", "\u00a0", "\u2028 ", "\u0085"):
        text = "w" * size + workspace + "w"
        array = np.frombuffer(text.encode() + b" " * 200, np.uint8)
        assert counted(array, 0, len(text.encode())) == len(text.split())
