"""Classes of 64 bytes and counts of tokens, against plain Python."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels import memory
from assay.kernels.compiler import JIT
from assay.kernels.text.lines import count_tokens
from tests.strategies import examples

CLASSES = {
    "run_bits": frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789%-._") | frozenset(range(0x80, 0x100)),
    "space_bits": {byte for byte in range(0x80) if not chr(byte).strip()},
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


count_bits = memory.bits_set


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    """Every byte, and random blocks at every offset of a word."""
    classifier = getattr(memory, name)
    find = compiled(lambda text, pos: (classifier(text, pos), count_bits(classifier(text, pos))))
    blocks = [np.arange(first, first + 64).astype(np.uint8) for first in range(0, 256, 64)]
    blocks += [np.random.default_rng(seed).integers(0, 256, 64, np.uint8) for seed in range(40 if JIT else 8)]
    for pos, block in enumerate(blocks):
        text = np.full(104, 0x20, np.uint8)
        text[pos % 41 : pos % 41 + 64] = block
        bits, count = find(text, pos % 41)
        places = {k for k, byte in enumerate(block.tolist()) if byte in CLASSES[name]}
        assert ({k for k in range(64) if int(bits) >> k & 1}, count) == (places, len(places))


counted = compiled(lambda text, start, stop: count_tokens(text, start, stop))
SPACES = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
spaced = st.text(st.one_of(st.sampled_from(SPACES), st.sampled_from("aé中😀\u200b\u00ad")), max_size=200)


@given(spaced, st.text("x ", max_size=3), st.integers(0, 80))
@examples(200)
def test_tokens(text, before, after):
    """Counts are those of `str.split()`, wherever the text is in its array and however soon the array ends."""
    encoded = text.encode()
    array = np.frombuffer(before.encode() + encoded + b"w" * after, np.uint8)
    assert counted(array, len(before), len(before) + len(encoded)) == len(text.split())


def test_tokens_around_every_character_and_block():
    """Byte by byte where little follows, else in blocks."""
    texts = [f"w{chr(code)}w" for code in range(128)]
    texts += ["w" * size + wide + "w" for size in (0, 15, 16, 61, 62, 63, 64, 65, 128) for wide in "\u3000\u00a0\u0085"]
    for text in texts:
        for after in (b"", b"w" * 200):
            array = np.frombuffer(text.encode() + after, np.uint8)
            assert counted(array, 0, len(text.encode())) == len(text.split()), text
