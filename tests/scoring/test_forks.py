"""A scorer that is used before its process forks: parent and children score concurrently, each in its own memory."""

from __future__ import annotations

import os

import pytest

from tests.own_process import printed

BATCH = """
import os, signal, sys, threading, time
from examples import rollouts
from assay import Scorer
from tests.scoring.agreement import bits

threads, prompts = int(sys.argv[1]), int(sys.argv[2])
batch = rollouts.as_request(list(rollouts.generate(prompts, 4, seed=11)))
scorer = Scorer(threads=threads)
expected = bits(scorer.score(**batch))

def is_wrong(rounds=1):
    return sum(bits(scorer.score(**batch)) != expected for _ in range(rounds))

def forked(rounds):
    child = os.fork()
    if child == 0:
        signal.alarm(180)
        code = 1
        try:
            code = 2 if is_wrong(rounds) else 0
        finally:
            os._exit(code)
    return child

def code_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""

FORKING = """
children = [forked(40) for _ in range(3)]
wrong = is_wrong(40)
print(wrong, [code_of(child) for child in children], is_wrong())
"""

SCORING_THREADS = """
halt = threading.Event()
wrong = []

def work():
    while not halt.is_set():
        if is_wrong():
            wrong.append("parent")

workers = [threading.Thread(target=work) for _ in range(3)]
for worker in workers:
    worker.start()
codes = []
for _ in range(10):
    time.sleep(0.01)
    codes.append(code_of(forked(1)))
halt.set()
for worker in workers:
    worker.join()
print(set(codes), wrong)
"""

HELD_LOCKS = """
from assay.kernels import warmup
warmup._lock.acquire()
is_wrong = lambda rounds: bits(Scorer(threads=threads).score(**batch)) != expected
print(threading.active_count(), code_of(forked(1)))
"""

pytestmark = [pytest.mark.attack, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")]


@pytest.mark.parametrize(
    ("threads", "prompts"),
    [pytest.param(1, 20, marks=pytest.mark.slow), (2, 20), pytest.param(2, 100, marks=pytest.mark.slow)],
    ids=["1", "2", "2, by shares"],
)
def test_both_sides_of_a_fork_score_at_once(compiled, threads, prompts):
    assert printed(BATCH + FORKING, threads, prompts) == "0 [0, 0, 0] 0\n"


@pytest.mark.slow
def test_forks_while_other_threads_score(compiled):
    """Three threads of the parent are anywhere in the scorer, with its helper threads, in the moment of each fork."""
    assert printed(BATCH + SCORING_THREADS, 2, 100) == "{0} []\n"


def test_a_child_does_not_wait_for_threads_of_its_parent(compiled):
    """Not for locks, and there are no threads: those of a batch end with it."""
    assert printed(BATCH + HELD_LOCKS, 2, 100) == "1 0\n"
