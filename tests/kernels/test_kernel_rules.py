"""Kernels are compiled once, before the first request, by their own rules; other functions of the process are not."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.types.functions import BaseFunction, Dispatcher
from numba.np import arrayobj

from assay.kernels.compiler import FUNCTIONS, HELPER_OPTIONS, KERNELS, KernelLibrary, kernel_rules
from assay.kernels.sequences import lcs_lengths
from assay.kernels.warmup import compiled_signatures, progress, warmup

pytestmark = pytest.mark.usefixtures("compiled")


def element(array, pos):
    return array[pos]


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
    (code,) = plain.inspect_llvm().values()
    assert "icmp slt" not in code
    assert "lshr" not in code
    assert [plain(np.arange(3), k) for k in range(3)] == [0, 1, 2]


def test_a_helper_has_no_machine_code_and_works_in_kernels_and_elsewhere():
    inner = numba.njit(**HELPER_OPTIONS)(lambda x: x * np.int64(3))
    middle = numba.njit(**HELPER_OPTIONS)(lambda x: inner(x) + np.int64(1))
    signature = numba.types.int64(numba.types.int64)
    with kernel_rules():
        kernel = numba.njit(signature)(lambda x: middle(inner(x)) + inner(0))
    assert inner.signatures == [(numba.types.int64,)], "a literal argument is compiled as its type"
    assert [library_of(f).is_helper for f in (inner, middle, kernel)] == [True, True, False]
    assert isinstance(library_of(kernel), KernelLibrary)
    assert library_of(inner).get_pointer_to_function("any") == 0
    usual = numba.njit(signature)(lambda x: middle(x) - inner(x))
    assert type(library_of(usual)) is JITCodeLibrary
    assert (kernel(5), usual(5)) == (46, 1)


def test_no_function_calls_a_kernel():
    """In the cache, kernels are without the code that a caller would need."""
    kernels = {id(kernel): kernel for kernel in KERNELS}
    for function in FUNCTIONS:
        code, names = function.py_func.__code__, function.py_func.__globals__
        assert not [name for name in (*code.co_names, *code.co_freevars) if id(names.get(name)) in kernels], function


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
    assert numba.njit(element)(np.arange(3), -1) == 2


def test_warmup_is_done_once_and_compiles_all_that_ever_is():
    """However many threads ask for it at the same moment. No request compiles: tests/http/limits."""
    report = warmup()
    assert report.seconds >= 0
    assert report.signatures == compiled_signatures() >= len(KERNELS)
    start = threading.Barrier(8)

    def call(_: int) -> bool:
        start.wait()
        return warmup() is report

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(8)))
    a, offsets = np.zeros(1, np.int32), np.array([0, 1])
    with pytest.raises(TypeError, match="No matching definition"):
        lcs_lengths(np.zeros(1, np.int64), a, offsets, a, offsets, 1)
    assert report.signatures == compiled_signatures()
