"""The rules that kernels are compiled by, and other functions of the process are not."""

from __future__ import annotations

from contextlib import suppress

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.types.functions import BaseFunction, Dispatcher
from numba.np import arrayobj

from assay.kernels.compiler import FUNCTIONS, HELPER_OPTIONS, KERNELS, KernelLibrary, kernel_rules
from assay.kernels.warmup import progress, warmup

pytestmark = pytest.mark.usefixtures("compiled")


def element(array, pos):
    return array[pos]


def code_of(function) -> str:
    (code,) = function.inspect_llvm().values()
    return code


def library_of(function) -> JITCodeLibrary:
    (compiled,) = function.overloads.values()
    return compiled.library


def replaced() -> list[object]:
    return [
        JITCPUCodegen._library_class,
        JITCPUCodegen.set_env,
        BaseFunction.get_call_type,
        Dispatcher.get_call_type,
        arrayobj.fix_integer_index,
    ]


def test_a_kernel_asks_no_index_whether_it_is_negative():
    signature = numba.types.int64(numba.types.int64[::1], numba.types.int64)
    with kernel_rules():
        plain = numba.njit(signature, error_model="numpy")(element)
    usual = numba.njit(signature, error_model="numpy")(element)
    assert "icmp slt" not in code_of(plain)
    assert "lshr" not in code_of(plain)
    assert len(code_of(plain).splitlines()) < len(code_of(usual).splitlines())
    array = np.arange(3)
    assert [plain(array, k) for k in range(3)] == [usual(array, k) for k in range(3)] == [0, 1, 2]


def test_a_helper_has_no_machine_code_and_works_in_kernels_and_elsewhere():
    inner = numba.njit(**HELPER_OPTIONS)(lambda x: x * np.int64(3))
    middle = numba.njit(**HELPER_OPTIONS)(lambda x: inner(x) + np.int64(1))
    signature = numba.types.int64(numba.types.int64)
    with kernel_rules():
        kernel = numba.njit(signature)(lambda x: middle(inner(x)))
    assert [library_of(f).is_helper for f in (inner, middle, kernel)] == [True, True, False]
    assert isinstance(library_of(kernel), KernelLibrary)
    assert library_of(inner).get_pointer_to_function("any") == 0
    usual = numba.njit(signature)(lambda x: middle(x) - inner(x))
    assert type(library_of(usual)) is JITCodeLibrary
    assert (kernel(5), usual(5)) == (46, 1)


def test_a_literal_argument_is_compiled_as_its_type():
    inner = numba.njit(**HELPER_OPTIONS)(lambda x: x + np.int64(1))
    with kernel_rules():
        kernel = numba.njit(numba.types.int64(numba.types.int64))(lambda x: inner(x) + inner(0))
    assert inner.signatures == [(numba.types.int64,)]
    assert kernel(5) == 7


def test_other_code_is_compiled_by_the_rules_of_numba():
    """After the kernels, and after an error."""
    before = replaced()
    warmup()
    assert replaced() == before
    assert all(function.signatures for function in KERNELS)
    done, functions = progress()  # kernels from the cache need no helpers
    assert functions == len(FUNCTIONS) > 150
    assert len(KERNELS) <= done <= functions
    with suppress(ZeroDivisionError), kernel_rules():
        assert not any(now is then for now, then in zip(replaced(), before, strict=True))
        raise ZeroDivisionError
    assert replaced() == before
    last = numba.njit(element)
    assert last(np.arange(3), -1) == 2
