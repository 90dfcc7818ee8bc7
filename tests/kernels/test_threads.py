"""Threads inside a kernel: each calls the work once, and a call that fails is reported."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from assay.kernels.compiler import JIT
from assay.kernels.threads import LINE, MAX_THREADS, fetch_add, on_threads

pytestmark = pytest.mark.skipif(not JIT, reason="without compiled kernels there are no threads")

CALLS, NEXT, FAILING = 0, LINE, 2 * LINE


@numba.njit(_nrt=False)
def add_up(counters, values):
    """Count the call, fail if its number is FAILING, and else take numbers until none is left, whose squares count."""
    if fetch_add(counters, np.int64(CALLS), np.int64(1)) == counters[FAILING]:
        raise ValueError
    while True:
        k = fetch_add(counters, np.int64(NEXT), np.int64(1))
        if k >= values.shape[0]:
            break
        values[k] += k * k


run = on_threads(add_up)


@numba.njit(_nrt=False)
def add_up_on_threads(helpers, counters, values):
    return run(helpers, (counters, values))


@pytest.mark.parametrize("helpers", [0, 1, 7, MAX_THREADS - 1])
def test_every_thread_calls_once_and_all_work_is_done_once(helpers):
    for _ in range(20):
        counters, values = np.zeros(3 * LINE, np.int64), np.zeros(1000, np.int64)
        counters[FAILING] = -1
        assert add_up_on_threads(helpers, counters, values)
        assert counters[CALLS] == helpers + 1
        assert values.tolist() == [k * k for k in range(1000)]


@pytest.mark.parametrize("failing", [0, 3, 7])
def test_a_call_that_fails_is_reported_and_the_others_go_on(failing):
    counters, values = np.zeros(3 * LINE, np.int64), np.zeros(1000, np.int64)
    counters[FAILING] = failing
    assert not add_up_on_threads(7, counters, values)
    assert values.tolist() == [k * k for k in range(1000)]
