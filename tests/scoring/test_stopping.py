"""A batch that is stopped has no rewards, and its threads are free soon after."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from assay import Scorer
from assay.kernels.batch import score_batch
from assay.kernels.compiler import entry
from assay.kernels.memory import NEVER
from assay.service.rewards.batch import read_objects
from assay.service.rewards.scoring import score
from assay.service.scoring import shares
from assay.service.scoring.stopping import StopFlag, Stopped, current_flag
from tests.cases import told
from tests.cases.writing import answer, step

WORDS = " ".join(f"w{k}" for k in range(20_000))
LONG = told([step("add", WORDS)])
REFERENCE = {"steps": [step("add", WORDS, WORDS)]}
MANY = 400
"""Responses that take a second, or more."""

SECONDS = 0.1
"""From the flag to the end, on each thread; a busy machine gets as many again."""


def batches() -> dict[str, tuple[list[str], list[object]]]:
    """Return requests whose time goes into responses, references, shares of both, and one row of alternatives."""
    alternatives = [{"any_of": [{"steps": [step("add", f"{WORDS} {k}")]} for k in range(16)]}]
    return {
        "responses": ([LONG] * MANY, [REFERENCE]),
        "references": ([answer()] * MANY, [REFERENCE] * MANY),
        "shares": ([LONG] * MANY, [REFERENCE] * MANY),
        "alternatives": ([LONG] * MANY, alternatives),
    }


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", batches())
def test_a_stopped_batch_raises_soon(compiled, monkeypatch, name, threads):
    """The flag is set while the kernel runs: what comes before it, such as copies of long texts, is not stopped."""
    responses, references = batches()[name]
    index = [0] * MANY if len(references) == 1 else None
    batch = read_objects(Scorer(threads=threads).columns, responses, references, index, None)
    flag, cpu, stopped = StopFlag(), [], threading.Event()

    def stop() -> None:
        cpu.append(time.process_time())
        flag.set()
        stopped.set()

    def work() -> None:
        while True:  # the timer may be late: a batch that ends before it is scored again
            is_late = stopped.is_set()
            score(batch)
            assert not is_late, "the batch went on to its end"

    def entered(kernel: Any) -> Any:
        if kernel is score_batch and timer.ident is None:
            timer.start()
        return entry(kernel)

    timer = threading.Timer(0.1, stop)
    monkeypatch.setattr(shares, "entry", entered)
    with pytest.raises(Stopped):
        flag.run(work)
    assert time.process_time() - cpu[0] < 2 * SECONDS * threads, "the threads went on"
    timer.join()


def test_a_flag_is_of_one_job():
    """Also after an error, and in a thread that runs another job."""
    flag = StopFlag()
    flag.set()
    assert flag.is_set
    with pytest.raises(Stopped):
        flag.run(lambda: Scorer().score([LONG], [REFERENCE]))
    assert current_flag() is NEVER
    assert NEVER[0] == 0
    assert StopFlag().run(lambda: Scorer().score([LONG], [REFERENCE])).reasons.tolist() == ["ok"]
