"""Subinterpreters: the client works there, names of hosts from Python 3.12 on; the scorer says that it does not."""

from __future__ import annotations

import sys

import pytest

from tests.clients.fault_server import FaultServer
from tests.own_process import printed

RUN = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def run(source):
    interpreter = interpreters.create()
    variables = f"import sys; sys.path[:] = {sys.path!r}; sys.argv = {sys.argv!r}; "
    failure = interpreters.run_string(interpreter, variables + "source = " + repr(source) + "; exec(source)")
    assert failure is None, failure
    if sys.version_info[:2] != (3, 12):
        interpreters.destroy(interpreter)
"""

LEAVE = """
import os, sys
if sys.version_info[:2] == (3, 12):  # whose early releases crash at the end of a subinterpreter that imported `ssl`
    sys.stdout.flush()
    os._exit(0)
"""

CLIENTS = """
import asyncio
from assay_client import AsyncClient, Client, Unavailable

def outcomes(url, timeout):
    client, asynchronous = Client(url, timeout=timeout), AsyncClient(url, timeout=timeout)
    async def step():
        calls = [asynchronous.score_one("x" * k, "r") for k in range(1, 4)]
        return [score.reward for score in await asyncio.gather(*calls)]
    yield lambda: client.score(["xx"], ["r"]).rewards
    yield lambda: client.score_one("xx", "r").reward
    yield lambda: asyncio.run(step())

for url in (sys.argv[1], sys.argv[1].replace("127.0.0.1", "localhost")):
    for outcome in outcomes(url, 20 if sys.version_info >= (3, 12) or url == sys.argv[1] else 0.3):
        try:
            print(outcome())
        except Unavailable as error:
            print("thread is not supported" in str(error))
sys.stdout.flush()
"""

SCORER = """
try:
    import assay
except ImportError as error:
    print(error, flush=True)
"""

IN_MAIN = """
from assay import Scorer
print(Scorer(threads=2).score(["x"], ['Step 1: {"action": "a", "objects": ["b"], "parameters": ["c"]}']).rewards)
"""

ANSWERS = "[0.002]\n0.002\n[0.001, 0.002, 0.003]\n"


def in_subinterpreter(source: str) -> str:
    return f"{RUN}\nrun({source!r})\n"


def test_the_client(faults: FaultServer) -> None:
    pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    names = ANSWERS if sys.version_info >= (3, 12) else "True\n" * 3
    assert printed(in_subinterpreter(CLIENTS) + LEAVE, faults.url) == ANSWERS + names


def test_the_scorer(compiled: None) -> None:
    """It neither crashes nor takes NumPy from the main interpreter, which scores afterwards."""
    pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    said, rewards = printed(in_subinterpreter(SCORER) + IN_MAIN).splitlines()
    assert said.startswith("assay does not work in a subinterpreter, because NumPy and Numba do not: use ")
    assert rewards == "[0.]"
