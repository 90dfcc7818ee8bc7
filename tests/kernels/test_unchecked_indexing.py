"""Kernels are compiled without negative-index handling, other functions of the process with it."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba.np import arrayobj

from assay.kernels.compiler.unchecked_indexing import EMITTER, unchecked_indexing
from assay.kernels.warmup import KERNELS, warmup

pytestmark = pytest.mark.usefixtures("compiled")


def element(array, pos):
    return array[pos]


def code_of(function) -> str:
    (code,) = function.inspect_llvm().values()
    return code


def test_what_is_compiled_within_asks_no_index_whether_it_is_negative():
    """Also a test of this Numba: another one may call its function by another name."""
    signature = numba.types.int64(numba.types.int64[::1], numba.types.int64)
    with unchecked_indexing():
        plain = numba.njit(signature, error_model="numpy")(element)
    usual = numba.njit(signature, error_model="numpy")(element)
    assert "icmp slt" not in code_of(plain)
    assert "lshr" not in code_of(plain)
    assert len(code_of(plain).splitlines()) < len(code_of(usual).splitlines())
    array = np.arange(3)
    assert [plain(array, k) for k in range(3)] == [usual(array, k) for k in range(3)] == [0, 1, 2]


def test_other_code_knows_negative_indices():
    warmup()
    assert all(function.signatures for function in KERNELS)
    last = numba.njit(element)
    assert last(np.arange(3), -1) == 2


def test_the_compiler_is_left_as_it_was_after_an_error():
    before = getattr(arrayobj, EMITTER)

    def fail() -> None:
        with unchecked_indexing():
            assert getattr(arrayobj, EMITTER) is not before
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert getattr(arrayobj, EMITTER) is before


def test_a_compiler_without_that_function_compiles_as_usual(monkeypatch):
    monkeypatch.delattr(arrayobj, EMITTER)
    with unchecked_indexing():
        assert not hasattr(arrayobj, EMITTER)
    assert not hasattr(arrayobj, EMITTER)
