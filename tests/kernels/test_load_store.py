"""Loads and stores of eight bytes, against plain Python."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.compiler import JIT
from assay.kernels.memory import load8, low_bytes, read_only, store8, trailing_zeros
from tests.strategies import examples


def ask(text: np.ndarray, pos: int, count: int, out: np.ndarray) -> tuple[Any, ...]:
    """Everything about `text[pos:pos + 8]`; a copy of it goes to `out[pos:]`."""
    word = load8(read_only(text), pos)
    store8(out, pos, word)
    return word, low_bytes(word, count), trailing_zeros(word)


@pytest.fixture(scope="module")
def asked():
    """`ask`, compiled as kernels are."""
    return numba.njit(error_model="numpy")(ask) if JIT else ask


@given(st.binary(min_size=8, max_size=8), st.integers(0, 24), st.integers(0, 8))
@examples(100)
def test_against_plain_python(asked, content, pos, count):
    text, out = np.full(32, 0xEE, np.uint8), np.zeros(32, np.uint8)
    text[pos : pos + 8] = list(content)
    word, lowest, zeros = asked(text, pos, count, out)
    value = int.from_bytes(content, "little")
    assert int(word) == value
    assert int(lowest) == int.from_bytes(content[:count], "little")
    assert zeros == (64 if value == 0 else (value & -value).bit_length() - 1)
    assert out[pos : pos + 8].tobytes() == content
    assert not out[:pos].any()
    assert not out[pos + 8 :].any()
