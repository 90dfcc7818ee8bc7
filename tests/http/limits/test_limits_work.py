"""One request must not stop the others: no body costs much more than a usual one of its uncompressed size, and nobody
pays for what nobody awaits.
"""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from tests.cases import answer
from tests.http.limits.posting import JSON, connected
from tests.http.process.watching import cpu_seconds
from tests.http.raw_connection import head
from tests.servers import LiveServer, ready

pytestmark = pytest.mark.attack

MAX_RATIO = 20.0
"""Times the CPU of a usual batch of the same uncompressed size."""

MAX_SECONDS = 5.0
SLACK_SECONDS = 0.03
"""CPU seconds to ignore: the clock of a process has ticks of 10 ms, and a request costs something whatever it is."""

MAX_RATIO_OF_GZIP = 200
"""Beyond 1 MiB, what is compressed more is refused."""

TRIES = 6
"""Most on a busy machine, where a body of many small rows costs up to twice the CPU, and a usual batch does not."""


def key(*steps: tuple[str, list[str], list[str]]) -> str:
    fields = "action", "objects", "parameters"
    lines = [json.dumps(dict(zip(fields, step, strict=True)), ensure_ascii=False) for step in steps]
    return "\n".join(f"Step {number}:{line}" for number, line in enumerate(lines, 1))


def told(steps: list[tuple[str, list[str], list[str]]]) -> str:
    prose = [" ".join([action, *objects, *parameters]) for action, objects, parameters in steps]
    return answer(key(*steps), "\n".join(f"Step {number}: {text}" for number, text in enumerate(prose, 1)))


ARABIC = "\ufdfa "
WIDE = [key(("x", [], [f"{word} {ARABIC * 65_500}"])) for word in "yx"]
"""References of one step, nearly as long as they may be."""

TINY = told([("x", [], ["x"])])
DECAYS = [{"position_decay": 1 + k / 1000} for k in range(64)]
WORDS = [f"{k:x}" for k in range(4096, 4096 + 15_000)]
MANY_STEPS = [(("a", "b")[k % 2], ["b"], ["c"]) for k in range(1000)]
SHIFTED = [*MANY_STEPS[1:], MANY_STEPS[0]]
EVERY = [
    {"object_similarity": objects, "parameter_similarity": parameters, "order": order, "position_decay": decay}
    for objects, parameters, order, decay in product(
        ("fallback", "max"), ("words", "quantities"), ("strict", "lcs"), (1.0, 1.1)
    )
]


GATES = {"coverage": "words", "max_added_numbers": 10**6, "max_added_words": 10**6}
EXPANDING = answer(key(("x", ["y"], [])), f"Step 1: x {ARABIC.replace(' ', '-') * 60_000}")
"""Prose of words in every form that the limits of the consistency gate look at."""

ERRORS = [{"parameter_similarity": "quantities", "quantity_error_factor": 0.5, "max_steps": 100 + k} for k in range(2)]
NUMBERS = answer(key(("x", [], ["1 " * 60_000, "1\ufdfa " * 20_000])), "Step 1: x")

MAX_ROWS = 65_536
ONE_STEP = key(("x", [], []))


def body(responses: list[Any], references: list[Any], **fields: Any) -> bytes:
    index = [0] * len(responses) if len(references) == 1 else None
    fields |= {"reference_index": index} if index else {}
    return json.dumps({"references": references, "responses": responses, **fields}, ensure_ascii=False).encode()


def of_each_row(reference: Any) -> bytes:
    return body(["x"] * MAX_ROWS, [reference] * MAX_ROWS)


def many_alternatives(*steps: tuple[str, list[str], list[str]]) -> list[dict[str, Any]]:
    return [{"any_of": [key(*steps)] * 16}]


BODIES: dict[str, Callable[[], bytes]] = {
    "alternatives by configurations": lambda: body([TINY] * 512, [{"any_of": WIDE}], configs=DECAYS),
    "one long reference": lambda: body([TINY] * 7_000, WIDE[1:]),
    "one long reference, more responses": lambda: body([TINY] * 30_000, WIDE[1:]),
    "one long reference, in a step that nobody matches": lambda: body(
        [TINY] * 7_000, [key(("x", [], ["x"]), ("y", [], [ARABIC * 65_000]))]
    ),
    "many long references": lambda: body([TINY] * 8, WIDE * 4),
    "one reference of many steps": lambda: body([TINY] * 4096, many_alternatives(*MANY_STEPS), config=EVERY[2]),
    "words to look up": lambda: body([told([("x", [" ".join(WORDS)], [])])] * 16, many_alternatives(("x", WORDS, []))),
    "words to compare": lambda: body([told([("x", WORDS, WORDS)])] * 16, many_alternatives(("x", WORDS[::-1], WORDS))),
    "steps of 64 configurations": lambda: body([told(MANY_STEPS)] * 16, [key(*SHIFTED)], configs=DECAYS),
    "steps of 64 configurations by 4 alternatives": lambda: body(
        [told(MANY_STEPS)] * 16, [{"any_of": [key(*SHIFTED)] * 4}], configs=DECAYS
    ),
    "steps of 64 configurations by 16 alternatives": lambda: body(
        [told(MANY_STEPS)] * 16, many_alternatives(*SHIFTED), configs=DECAYS
    ),
    "everything by alternatives": lambda: body([told(MANY_STEPS)] * 16, many_alternatives(*SHIFTED), configs=EVERY),
    "64 readings": lambda: body([TINY] * 64, WIDE[:1], configs=[{"max_steps": 100 + k} for k in range(64)]),
    "3 readings": lambda: body([TINY] * 64, WIDE[:1], configs=[{"max_steps": 100 + k} for k in range(2)]),
    "words that only the prose has": lambda: body([EXPANDING] * 8, [ONE_STEP], config=GATES),
    "words that only the prose has, 2 readings": lambda: body(
        [EXPANDING] * 8, [ONE_STEP], configs=[GATES, GATES | {"coverage": "substring"}]
    ),
    "words that only the prose has, 3 readings": lambda: body(
        [EXPANDING] * 8, [ONE_STEP], configs=[GATES | {"max_steps": 100 + k} for k in range(3)]
    ),
    "quantities": lambda: body([NUMBERS] * 8, [ONE_STEP], configs=ERRORS[:1]),
    "quantities, 2 readings": lambda: body([NUMBERS] * 8, [ONE_STEP], configs=ERRORS),
    "quantities and words": lambda: body([NUMBERS] * 8, [ONE_STEP], configs=[ERRORS[0] | GATES, GATES]),
    "labels": lambda: of_each_row({"task": "score", "reference": ONE_STEP}),
    "labels as text": lambda: of_each_row(json.dumps({"task": "score", "any_of": [ONE_STEP]})),
    "labels of two tasks": lambda: body(
        ["x"] * MAX_ROWS, [{"task": "bioprobench.pqa", "answer": "a"}, ONE_STEP] * (MAX_ROWS // 2)
    ),
    "lists of alternatives": lambda: of_each_row([ONE_STEP]),
    "invalid references": lambda: of_each_row("x"),
    "references that are null": lambda: of_each_row(None),
    "references that are text of an object": lambda: of_each_row("{}"),
    "labels of unknown tasks": lambda: body(["x"] * MAX_ROWS, [{"task": f"scor{k}"} for k in range(MAX_ROWS)]),
    "responses that are null": lambda: body([None] * MAX_ROWS, [ONE_STEP]),
    "an index out of range": lambda: json.dumps(
        {"responses": ["x"] * MAX_ROWS, "references": [ONE_STEP], "reference_index": [1] * MAX_ROWS}
    ).encode(),
}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with ready("--threads", "2") as server:
        yield server
        assert "Traceback" not in server.log


@pytest.fixture(scope="module")
def usual(server, batch: bytes) -> Callable[[], float]:
    """Return a function that measures the CPU seconds of a usual batch for each byte."""

    def seconds_per_byte() -> float:
        with connected(server.url) as connection:
            before = cpu_seconds(server.process.pid)
            for _ in range(3):
                assert connection.score(batch)[0] == 200
            return (cpu_seconds(server.process.pid) - before) / 3 / len(batch)

    seconds_per_byte()
    return seconds_per_byte


@pytest.mark.parametrize("name", BODIES)
def test_no_body_costs_much_more_than_a_usual_one(server, usual, name):
    """Compressed, it is a few kilobytes: 1,330 bytes cost 26 CPU seconds before."""
    plain = BODIES[name]()
    compressed = gzip.compress(plain)
    measured = []
    for _ in range(TRIES):
        common = usual()
        with connected(server.url) as connection:
            before = cpu_seconds(server.process.pid)
            if len(plain) < MAX_RATIO_OF_GZIP * len(compressed) or len(plain) < 1 << 20:
                status, reply = connection.score(compressed, JSON | {"content-encoding": "gzip"})
            else:
                status, reply = connection.score(plain)
            seconds = cpu_seconds(server.process.pid) - before
        assert status in (200, 413, 422), reply[:500]
        measured.append((seconds, seconds / (common * len(plain) + SLACK_SECONDS)))
        if seconds <= MAX_SECONDS and measured[-1][1] <= MAX_RATIO:
            break
    print(f"{status}, {len(compressed)} of {len(plain)} bytes: {measured[-1][0]:.2f} s, {measured[-1][1]:.1f} times")
    assert measured[-1][0] <= MAX_SECONDS, measured
    assert measured[-1][1] <= MAX_RATIO, measured


LONG = body([told([("x", [" ".join(WORDS)], [])])] * 160, many_alternatives(("x", [" ".join(WORDS)], [])))
"""A body that takes two seconds of CPU or more, and is allowed."""

AFTERWARDS = 0.1 * 2
"""CPU seconds that two threads may take once nobody awaits their result; here, a busy machine gets as many again."""


def spent_until_idle(server: LiveServer) -> float:
    """Return the CPU seconds that the server takes until it takes none."""
    before = last = cpu_seconds(server.process.pid)
    while True:
        time.sleep(0.1)
        now = cpu_seconds(server.process.pid)
        if now - last <= 0.01:
            return now - before
        last = now


def test_a_client_that_hangs_up_frees_the_threads(server):
    with connected(server.url) as connection:
        before = cpu_seconds(server.process.pid)
        assert connection.score(LONG)[0] == 200
        whole = cpu_seconds(server.process.pid) - before
    spent = []
    for _ in range(TRIES):
        address = server.url.removeprefix("http://").split(":")
        before = cpu_seconds(server.process.pid)
        with socket.create_connection((address[0], int(address[1]))) as client:
            client.sendall(head(f"Content-Length: {len(LONG)}", "Content-Type: application/json") + LONG)
            while cpu_seconds(server.process.pid) - before < whole / 3:
                time.sleep(0.01)
        spent.append(spent_until_idle(server))
        if spent[-1] <= 2 * AFTERWARDS:
            break
    print(f"whole: {whole:.2f} s of CPU, after the client is gone: {spent} s")
    assert spent[-1] <= 2 * AFTERWARDS, (whole, spent)
    assert spent[-1] < whole / 3


def test_a_deadline_frees_the_threads(server):
    """The threads worked 13.5 seconds after the reply."""
    with connected(server.url) as connection:
        for _ in range(TRIES):
            status, reply = connection.score(LONG, JSON | {"x-request-timeout": "0.4"})
            spent = spent_until_idle(server)
            assert (status, json.loads(reply)["type"].rpartition("-")[2]) == (504, "deadline")
            if spent <= 2 * AFTERWARDS:
                break
    print(f"after the deadline: {spent:.2f} s of CPU")
    assert spent <= 2 * AFTERWARDS
