"""Kernels are compiled once, before the first request: never later, and for no other types."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from assay import Scorer
from assay.kernels.sequences import lcs_lengths
from assay.kernels.warmup import compiled_signatures, warmup
from examples import rollouts
from tests.cases import ALL
from tests.cases.writing import KEY
from tests.kernels.adversaries import CATALOGUE
from tests.kernels.faces import LCS, many_canons

pytestmark = pytest.mark.usefixtures("compiled")


def test_warmup_is_done_once():
    """However many threads ask for it at the same moment."""
    report = warmup()
    assert report.seconds >= 0
    assert report.signatures == compiled_signatures()
    start = threading.Barrier(8)

    def call(_: int) -> bool:
        start.wait()
        return warmup() is report

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(8)))


@pytest.mark.parametrize("kind", [np.int32, np.uint64, np.float64])
def test_other_types_are_refused_not_compiled(kind):
    before = compiled_signatures()
    a, offsets = np.zeros(1, kind), np.array([0, 1])
    with pytest.raises(TypeError, match="No matching definition"):
        lcs_lengths(np.zeros(1, np.int64), a, offsets, a, offsets, 1)
    assert compiled_signatures() == before


def test_no_batch_compiles_anything():
    warmup()
    before = compiled_signatures()
    assert before >= 7
    for case in ALL:
        Scorer(**case.settings).score([case.response], [case.reference])
    for name in CATALOGUE:
        response, reference = CATALOGUE[name](4000)
        Scorer(order="lcs").score([response] * 3, [reference])
    request = rollouts.as_request(list(rollouts.generate(100, 4, seed=1)))
    for threads in (1, 3):
        Scorer(threads=threads).score(**request)
    Scorer().score([], [])
    Scorer().score(["x"], [KEY], np.zeros(1, np.uint8))
    LCS("abc" * 70, "acb" * 70)
    many_canons([])
    assert compiled_signatures() == before
