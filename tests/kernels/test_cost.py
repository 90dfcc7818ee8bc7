"""No text costs much more for each byte than a typical rollout, and twice the bytes take about twice the time.

The goal is five times; the bounds here leave room for a busy machine. `pytest -rA` shows what was measured.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from statistics import median
from time import sleep, thread_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, target
from hypothesis import strategies as st

from assay import Scorer
from assay.service.scoring.texts import text_column
from examples import rollouts
from tests.cases import answer
from tests.kernels.adversaries import CATALOGUE, LIMITED, QUANTITIES, REFERENCE, Rollout, key
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


def normalised_bytes(text: str) -> int:
    """Return the UTF-8 bytes of a text; a character that NFKC expands counts as its expansion, which has to be read."""
    return sum(
        count * max(len(char.encode()), len(unicodedata.normalize("NFKC", char).encode()))
        for char, count in Counter(text).items()
    )


class Load:
    """A request that can be scored again and again, on one thread, references included."""

    def __init__(self, responses: list[str], references: list[str], index: list[int], **settings: Any) -> None:
        self.responses, self.references = text_column(responses), text_column(references)
        self.index = np.array(index, np.int64)
        self.scorer = Scorer(threads=1, **settings)
        self.bytes = sum(map(normalised_bytes, [*responses, *references]))

    def seconds(self) -> float:
        """Return the CPU time of this thread, which other load of the machine hardly affects."""
        started = thread_time()
        self.scorer.score_columns(self.responses, self.references, self.index)
        return thread_time() - started


@pytest.fixture(scope="module")
def usual() -> Load:
    """Return typical rollouts of policies, about 400 KB."""
    request = rollouts.as_request(list(rollouts.generate(40, 5, seed=3)))
    return Load(request["responses"], request["references"], request["reference_index"])


def ratio_and_growth(usual: Load, single: Load, double: Load, rounds: int) -> tuple[float, float]:
    """Time the text, its double and typical rollouts in turn, so that all see the same machine."""
    loads = (usual, single, double)
    for load in loads:
        load.seconds()
    times = [[load.seconds() / load.bytes for load in loads] for _ in range(rounds)]
    return median(max(time, two) / common for common, time, two in times), 2 * median(b / a for _, a, b in times)


def assert_bounded(common: Load, single: Load, double: Load, max_ratio: float) -> None:
    """Check that the bounds hold in one of some measurements: noise only ever adds."""
    measured = []
    for attempt in range(TRIES):
        sleep(PAUSE_SECONDS if attempt else 0.0)
        ratio, growth = ratio_and_growth(common, single, double, 5 + 4 * attempt)
        measured.append(f"{ratio:.1f} x, {growth:.2f} x for double")
        if ratio <= max_ratio and growth <= LINEAR:
            print(measured[-1])
            return
    pytest.fail("; ".join(measured))


@pytest.mark.parametrize("name", CATALOGUE)
def test_catalogue(name, usual):
    rollouts_ = [CATALOGUE[name](size) for size in (SIZE, 2 * SIZE)]
    single, double = (Load([response], [reference], [0], order="lcs") for response, reference in rollouts_)
    assert_bounded(usual, single, double, MAX_RATIO)


GATES = {"coverage": "words", "max_added_numbers": 10**6, "max_added_words": 10**6}
"""Nothing stops early."""
ERRORS = {"parameter_similarity": "quantities", "quantity_error_factor": 0.5}
MAX_OPTIONS = 16.0
"""Times the cost of the same text without them; up to 9 were measured, where that text is cheap for its bytes."""


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, GATES) for name in [*LIMITED, "thousands of missing words", "characters: the longest expansion"]),
        *((name, ERRORS) for name in QUANTITIES),
    ],
)
def test_options(name, options):
    rollouts_ = [(CATALOGUE | LIMITED | QUANTITIES)[name](size) for size in (SIZE, 2 * SIZE)]
    single, double = (Load([response], [reference], [0], order="lcs", **options) for response, reference in rollouts_)
    without = Load([rollouts_[0][0]], [rollouts_[0][1]], [0], order="lcs")
    assert_bounded(without, single, double, MAX_OPTIONS)


STEP = 'Step 1:{"action":"a","objects":[],"parameters":[]}'
SMALLEST = f"<think></think><key>{STEP}</key><orc>Step 1:a</orc><note></note>"


def test_smallest_responses(usual):
    """A thousand of the smallest that pass both gates: the cost of a row besides its bytes."""
    small = Load([SMALLEST] * 1000, [STEP], [0] * 1000)
    assert min(ratio_and_growth(usual, small, small, 5)[0] for _ in range(TRIES)) <= MAX_RATIO


WORDS = [f"w{k}" for k in range(20_000)]


def one_step_of(objects: list[str], parameters: list[str]) -> str:
    return f"Step 1: {json.dumps({'action': 'a', 'objects': objects, 'parameters': parameters}, ensure_ascii=False)}"


LARGE = {
    "words in another step": "\n".join([STEP, one_step_of([" ".join(WORDS)], []).replace('"a"', '"b"')]),
    "words": one_step_of([" ".join(WORDS[::2])], [" ".join(WORDS[::-2])]),
    "objects": one_step_of(WORDS, []),
    "one word": one_step_of(["b"], ["c " * 60_000]),
    "words that expand": one_step_of([], ["\ufdfa " * 60_000]),
    "quantities": one_step_of([], [f"{k} ml" for k in range(20_000)]),
    "steps": "\n".join([STEP.replace('"a"', f'"{action}"') for action in "ba" * 512]),
}
"""References of some 100 to 240 KB whose steps the smallest response matches, or does not."""


@pytest.mark.parametrize(
    "settings", [{"order": "strict"}, {"order": "lcs"}, ERRORS], ids=["strict", "lcs", "quantities"]
)
@pytest.mark.parametrize("name", LARGE)
def test_one_large_reference_for_many_small_responses(name, settings):
    """The cost of a response does not depend on its reference: on the words of any step, or the number of steps."""
    pairs = []
    for reference in (STEP, LARGE[name]):
        pairs.append([Load([SMALLEST] * rows, [reference], [0] * rows, **settings) for rows in (1, 2000)])
        for load in pairs[-1]:
            load.seconds()
    times = [[many.seconds() - one.seconds() for one, many in pairs] for _ in range(5)]  # in turns, as above
    small, large = zip(*times, strict=True)
    assert min(large) <= 3 * max(small)


# A search for slow texts: sections filled with repeated pieces, driven towards what costs most.

IN_WORDS = "a|b |1|1,000|-|.|%|5 min |x g |é|e\u0301|\u0345|\ufdfa|ﬃ|𝟘|각|\u1100|\u1161|㌀"
BETWEEN = '\n|\r\n| |\t|<|</key>|</think>|Step 1:|step 2: x\n|"|\\|\\u0061|{|[|[]|,|",""'
PIECES = [*IN_WORDS.split("|"), *BETWEEN.split("|")]
pieces = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)
letters = st.sampled_from(["a", "b", "ab", "1", "é", "㌀", "㌖", "\ufdfa", "\u0301", "-", "q"])
words = st.lists(letters, min_size=1, max_size=4).map("".join)


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
