"""Threads of a batch: how many there are, and what happens to them when the system, a signal or a fork intervenes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest

from assay import Scorer
from assay.kernels.compiler import JIT
from assay.loadtests.scaling import busy_thread
from assay.service.scoring import memory, shares
from assay.service.scoring.memory import borrowed_memory
from examples import rollouts
from tests.own_process import printed

pytestmark = pytest.mark.skipif(not JIT, reason="without compiled kernels there are no threads")


def acquisitions(work: Callable[[], object], rounds: int = 1) -> float:
    """Return an upper bound of how often `work` waits for the GIL: its time beside a busy thread, in intervals."""
    interval = 0.08  # long, so that other processes on the machine hardly count
    with busy_thread(interval):
        times = []
        for _ in range(rounds):
            started = time.perf_counter()
            work()
            times.append(time.perf_counter() - started)
    return min(times) / interval


def test_a_batch_takes_the_gil_a_few_times():
    """At most eight times for a batch of 5,120 on any number of threads: it would wait for a busy thread each time."""
    batch = rollouts.as_request(list(rollouts.generate(1024, 5, seed=3)))
    scorer = Scorer(threads=16)
    scorer.score(**batch)
    assert acquisitions(lambda: scorer.score(**batch), rounds=3) < 9
    assert acquisitions(lambda: [time.sleep(0.002) for _ in range(40)]) > 15, "each of these releases the GIL once"


def test_batches_at_the_same_time_share_the_threads():
    sizes = [1] * 6
    with borrowed_memory(16, sizes) as (first, one):
        with borrowed_memory(16, sizes) as (second, two), borrowed_memory(16, sizes) as (third, _):
            assert (first, second, third) == (16, 8, 6)
            assert one.ints is not two.ints
            assert two.ints.shape[0] >= 8
        with borrowed_memory(1, sizes) as (fourth, _):
            assert fourth == 1
    assert not memory._running


REFUSED = """
import resource, sys
from assay import Scorer
from examples import rollouts
from tests.scoring.agreement import bits
from assay.service.scoring import column_scorer, shares
batch = rollouts.as_request(list(rollouts.generate(200, 4, seed=11)))
scorer = Scorer(threads=64)
expected = bits(scorer.score(**batch))
taken = []
def run(*arguments):
    outcome = shares.run(*arguments)
    taken.append(outcome.threads)
    return outcome
column_scorer.run = run
scorer.score(**batch)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (30 << 20), resource.RLIM_INFINITY))
assert bits(scorer.score(**batch)) == expected
assert taken[0] > 2 * taken[1], taken
print("right")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of address space is Linux's")
def test_threads_that_the_system_refuses_are_not_needed(compiled):
    """pthread_create fails with EAGAIN where there is no room for a stack; the others take all shares."""
    assert printed(REFUSED) == "right\n"


INTERRUPTED = """
import os, signal, threading, time
from assay import Scorer
from examples import rollouts
from tests.scoring.agreement import bits
batch = rollouts.as_request(list(rollouts.generate(400, 4, seed=11)))
many = {name: values * 40 for name, values in batch.items() if name != "references"}
scorer = Scorer(threads=2)
expected = bits(scorer.score(**batch))
tasks = lambda: len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0
before = tasks()
rounds = interrupted = 0
while interrupted < 5:
    timer = threading.Timer(0.02 + 0.01 * rounds, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        scorer.score(references=batch["references"], **many)
        timer.join()
    except KeyboardInterrupt:
        interrupted += 1
    timer.join()
    rounds += 1
    assert rounds < 100
    assert bits(scorer.score(**batch)) == expected
deadline = time.monotonic() + 10
while tasks() > before:
    assert time.monotonic() < deadline
print("right")
"""


@pytest.mark.slow
def test_an_interrupt_during_a_batch_ends_it(compiled):
    """Ctrl-C is raised once the call of the kernel returns; no thread is left, and the next batch is right."""
    assert printed(INTERRUPTED) == "right\n"


def test_long_batches_are_several_calls():
    """So that an interrupt is not raised minutes later."""
    assert shares.SHARE_BYTES * shares.MAX_SHARES_OF_CALL < 1 << 27
