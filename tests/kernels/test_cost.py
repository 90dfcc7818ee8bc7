"""No text costs much more for each byte than a typical rollout, and twice the bytes take about twice the time.

The goal is five times (`cost.py` prints the table); the bounds here leave room for a busy machine.
"""

from __future__ import annotations

from time import sleep, thread_time

import pytest
from hypothesis import given, target
from hypothesis import strategies as st

from tests.cases import answer
from tests.kernels.adversaries import CATALOGUE, REFERENCE, Rollout, key
from tests.kernels.cost import Load, measure, measure_small, typical
from tests.strategies import examples

MAX_RATIO = 12.0
"""Times the cost a byte of typical rollouts."""
LINEAR = 2.6
"""Times the time for twice the bytes."""
SIZE = 60_000
MIN_BYTES = 20_000
TRIES = 5
PAUSE_SECONDS = 1.0
"""Between tries: each takes less than a tenth of a second, and the load of another process may last longer."""

pytestmark = [pytest.mark.attack, pytest.mark.usefixtures("compiled")]


@pytest.fixture(scope="module")
def usual() -> Load:
    return typical()


@pytest.mark.parametrize("name", CATALOGUE)
def test_catalogue(name, usual):
    """The bounds hold in one of some measurements: noise only ever adds."""
    measured = []
    for attempt in range(TRIES):
        sleep(PAUSE_SECONDS if attempt else 0.0)
        cost = measure(name, CATALOGUE[name], SIZE, 5 + 4 * attempt, usual)
        measured.append(f"{cost.ratio:.1f} x typical, {cost.growth:.2f} x for double")
        if cost.ratio <= MAX_RATIO and cost.growth <= LINEAR:
            return
    pytest.fail("; ".join(measured))


def test_smallest_responses(usual):
    assert min(measure_small(5, usual).ratio for _ in range(TRIES)) <= MAX_RATIO


def test_one_large_reference_for_many_small_responses():
    """The cost of a response does not depend on the length of its reference."""
    step = 'Step 1:{"action":"a","objects":[],"parameters":[]}'
    response = f"<think></think><key>{step}</key><orc>Step 1:a</orc><note></note>"
    words = " ".join(f"w{k}" for k in range(30_000))
    large = f'{step}\nStep 2:{{"action":"b","objects":["{words}"],"parameters":[]}}'
    loads = [Load([response] * 2000, [reference], [0] * 2000) for reference in (step, large)]
    parsed = [load.scorer.parse(load.references) for load in loads]

    def seconds(k: int) -> float:
        started = thread_time()
        loads[k].scorer.score_parsed(loads[k].responses, parsed[k], loads[k].index)
        return thread_time() - started

    assert min(seconds(1) for _ in range(5)) <= 3 * max(seconds(0) for _ in range(5))


# A search for slow texts: sections filled with repeated pieces, driven towards what costs most.

IN_WORDS = "a|b |1|1,000|-|.|%|5 min |x g |é|e\u0301|\u0345|\ufdfa|ﬃ|𝟘|각|\u1100|\u1161|㌀"
BETWEEN = '\n|\r\n| |\t|<|</key>|</think>|Step 1:|step 2: x\n|"|\\|\\u0061|{|[|[]|,|",""'
PIECES = [*IN_WORDS.split("|"), *BETWEEN.split("|")]
pieces = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)
words = st.lists(
    st.sampled_from(["a", "b", "ab", "1", "é", "㌀", "㌖", "\ufdfa", "\u0301", "-", "q"]), min_size=1, max_size=4
).map("".join)


def repeated(unit: str, size: int) -> str:
    return unit * (size // max(1, len(unit.encode())))


@st.composite
def slow_texts(draw: st.DrawFn, size: int = 24_000) -> Rollout:
    """Draw a response of about `size` bytes whose sections and elements repeat a few pieces."""
    shares = draw(st.lists(st.integers(0, 4), min_size=4, max_size=4))
    budget = [size * share // max(1, sum(shares)) for share in shares]
    unit, count = draw(words), draw(st.integers(1, 200))
    objects = [repeated(unit, max(1, budget[2] // count // 2)) + f"{draw(words)}{k:x}" for k in range(count)]
    step = key({"action": "add", "objects": objects, "parameters": [repeated(draw(words), budget[2] // 2)]})
    prose = f"Step 1: add {repeated(draw(pieces), budget[1])}{draw(words)}{repeated(unit, budget[3])}"
    return answer(step, prose, think=repeated(draw(pieces), budget[0])), REFERENCE


@pytest.fixture(scope="module")
def usual_ns(usual) -> float:
    usual.seconds()
    return sorted(usual.seconds() / usual.bytes for _ in range(9))[4]


@given(slow_texts())
@examples(150)
def test_search_for_slow_texts(usual, usual_ns, rollout):
    response, reference = rollout
    copies = MIN_BYTES // len(response.encode()) + 1  # a call has its price, whatever it scores
    load = Load([response] * copies, [reference], [0] * copies, order="lcs")
    load.seconds()
    ratio = min(load.seconds() for _ in range(2)) / load.bytes / usual_ns
    target(ratio)
    if ratio > MAX_RATIO:
        again = [load.seconds() / load.bytes / (usual.seconds() / usual.bytes) for _ in range(9)]
        assert min(again) <= MAX_RATIO, f"{sorted(again)[4]:.1f} x typical"
