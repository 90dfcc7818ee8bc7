"""A scorer that is used before its process forks: parent and children score concurrently, each in its own memory."""

from __future__ import annotations

import os

import pytest

from tests.own_process import printed

FORKING = """
import os, sys
from examples import rollouts
from assay import Scorer
from tests.scoring.agreement import bits

threads, many = int(sys.argv[1]), int(sys.argv[2])
given = list(rollouts.generate(many, 4, seed=11))
responses = [one["response"] for one in given]
references = list(dict.fromkeys(one["reference"] for one in given))
index = [references.index(one["reference"]) for one in given]
scorer = Scorer(threads=threads)

def wrong(rounds):
    return sum(bits(scorer.score(responses, references, index)) != expected for _ in range(rounds))

expected = bits(scorer.score(responses, references, index))
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 2 if wrong(40) else 0
        finally:
            os._exit(code)
    children.append(child)
found = wrong(40)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
print(found, codes, wrong(1))
"""

HELD_LOCKS = """
import os, signal, threading
from assay import Scorer
from assay.kernels import warmup
from tests.cases import answer
from tests.cases.writing import KEY

def rewards():
    found = Scorer(threads=2).score([answer()] * 1000, [KEY], [0] * 1000).rewards
    return set(found.tolist()), any(one.name.startswith("assay-slice") for one in threading.enumerate())

expected = rewards()
warmup._lock.acquire()
child = os.fork()
if child == 0:
    signal.alarm(30)
    code = 1
    try:
        code = 0 if rewards() == expected == ({1.0}, True) else 2
    finally:
        os._exit(code)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

SCORING_THREADS = """
import os, signal, threading, time
from examples import rollouts
from assay import Scorer
from tests.scoring.agreement import bits

given = list(rollouts.generate(100, 4, seed=11))
responses = [one["response"] for one in given]
references = list(dict.fromkeys(one["reference"] for one in given))
index = [references.index(one["reference"]) for one in given]
scorer = Scorer(threads=2)
expected = bits(scorer.score(responses, references, index))
halt = threading.Event()
wrong = []

def work():
    while not halt.is_set():
        if bits(scorer.score(responses, references, index)) != expected:
            wrong.append("parent")

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
codes = []
for _ in range(10):
    time.sleep(0.01)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        code = 1
        try:
            code = 0 if bits(scorer.score(responses, references, index)) == expected else 2
        finally:
            os._exit(code)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
halt.set()
for thread in threads:
    thread.join()
print(set(codes), wrong)
"""

pytestmark = [pytest.mark.attack, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")]


@pytest.mark.parametrize(("threads", "prompts"), [(1, 20), (2, 20), (2, 100)], ids=["1", "2", "2, by shares"])
def test_both_sides_of_a_fork_score_at_once(compiled, threads, prompts):
    assert printed(FORKING, threads, prompts) == "0 [0, 0, 0] 0\n"


def test_forks_while_other_threads_score(compiled):
    """Three threads of the parent are anywhere in the scorer, with its helper threads, in the moment of each fork."""
    assert printed(SCORING_THREADS) == "{0} []\n"


def test_a_child_does_not_wait_for_threads_of_its_parent(compiled):
    """Neither for locks nor for helper threads: it starts its own."""
    assert printed(HELD_LOCKS) == "0\n"
