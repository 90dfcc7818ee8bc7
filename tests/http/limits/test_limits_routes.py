"""One law for every route: what a body costs is in proportion to its length, probes are answered meanwhile, and what a
route refuses it does not keep. The bodies are hostile, of any size: expensive for their length.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import psutil
import pyarrow as pa
import pytest

from tests.http.limits.posting import ATTEMPTS, connected, probed
from tests.http.process.watching import resident
from tests.http.samples import ADD, PERFECT, REFERENCE, paths_with_bodies
from tests.servers import LiveServer, ready

pytestmark = pytest.mark.attack

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
Shape = Callable[[int], bytes]
"""Generates a body of about n bytes."""


class Attack(NamedTuple):
    """A kind of body for one path."""

    name: str
    path: str
    media_type: str
    body: Shape

    @property
    def label(self) -> str:
        return f"{self.path} {self.name}"


def many_names(nbytes: int, template: str = "{%s}") -> bytes:
    """Return an object of unknown fields with distinct names."""
    return (template % ",".join(f'"{k:07x}":{k}' for k in range(nbytes // 19))).encode()


def long_string(nbytes: int) -> bytes:
    return json.dumps({"x": "a b: " * (nbytes // 5)}).encode()


def list_of(item: bytes) -> Shape:
    return lambda nbytes: b'{"x":[%b]}' % b",".join([item] * (nbytes // (len(item) + 1)))


wide, empty_strings = list_of(b"[]"), list_of(b'""')
SHAPES: dict[str, Shape] = {
    "many names": many_names,
    "deep": lambda nbytes: b'{"x":%b%b}' % (b"[" * (nbytes // 2), b"]" * (nbytes // 2)),
    "wide": wide,
    "numbers": list_of(b"1"),
    "long string": long_string,
    "empty strings": empty_strings,
}
"""Kinds of bodies that are sent to every route."""


def score(references: list[object], responses: list[str], **fields: object) -> bytes:
    return json.dumps({"references": references, "responses": responses, **fields}).encode()


def long_reference(nbytes: int) -> str:
    """Return the lines of a key section, at most as long as a reference may be by default."""
    return "\n".join(f"Step {k + 1}: {ADD}" for k in range(min(nbytes, 200_000) // (len(ADD) + 12)))


def one_reference(nbytes: int) -> bytes:
    """Return one long reference and many short responses to it."""
    half = nbytes // 2
    return score([long_reference(half)], ["<key>"] * min(65_536, half // 9))


def many_references(nbytes: int) -> bytes:
    """Return as many references as responses, all short."""
    rows = min(65_536, nbytes // (len(REFERENCE) + 12))
    return score([REFERENCE] * rows, ["x"] * rows)


def task_rows(task: str, reference: object) -> Shape:
    """Return a function that makes a body: many short responses to one costly reference."""

    def body(nbytes: int) -> bytes:
        rows = min(65_536, nbytes // 256)
        return score([reference], ["a(b)".ljust(250)] * rows, task=task)

    return body


def program(nbytes: int) -> bytes:
    """Return programs of maximum length, one per response."""
    lines = "\n".join(f"add(b{k})" for k in range(15_000))
    rows = max(1, nbytes // len(lines))
    return score([{"ground_truth": "add(b)"}], [lines] * rows, task="bioplanner")


def stream(references: list[str], responses: list[str]) -> bytes:
    table = pa.table({"reference": references, "response": responses})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    return sink.getvalue()


def small_batches(nbytes: int) -> bytes:
    """Return record batches of one short row."""
    rows = min(65_536, nbytes // 300)
    return stream([REFERENCE[:20]] * rows, [""] * rows)


def evaluation(task: str, record: dict[str, object]) -> Shape:
    def body(nbytes: int) -> bytes:
        rows = min(65_536, nbytes // len(json.dumps(record)))
        return json.dumps({"task": task, "records": [record] * rows}).encode()

    return body


def verified(name: Callable[[int], str]) -> Shape:
    """Return a generator of replies of /verify, each with distinct names of numbers."""

    def body(nbytes: int) -> bytes:
        rows = nbytes // 40
        return json.dumps({"verify_responses": [{"reward": 0.5, name(k): 1} for k in range(rows)]}).encode()

    return body


def parts(nbytes: int) -> bytes:
    """Return a NeMo Gym row whose output has many empty parts."""
    text = ",".join(["{}"] * (nbytes // 3))
    output = f'[{{"type":"message","role":"assistant","content":[{text}]}}]'
    return f'{{"responses_create_params":{{}},"response":{{"output":{output}}},"reference":""}}'.encode()


def queries(nbytes: int) -> bytes:
    """Return an OpenRLHF batch whose prompts almost match their queries at many positions."""
    prompt = "ab" * (nbytes // 8) + "c"
    query = "ab" * (nbytes // 4)
    return json.dumps({"query": [query], "prompts": [prompt], "labels": [REFERENCE]}).encode()


def attacks(paths: list[str]) -> list[Attack]:
    """Return every common attack on each of the paths, and the specific ones."""
    order = {"wrong_steps": ["a"] * 500, "correct_steps": ["a"] * 500}
    return [
        *(Attack(name, path, JSON, shape) for path in paths for name, shape in SHAPES.items()),
        Attack("one long reference", "/v1/score", JSON, one_reference),
        Attack("many references", "/v1/score", JSON, many_references),
        Attack("many columns", "/v1/score", JSON, lambda n: many_names(n, '{"responses":[],"references":[],%s}')),
        Attack("many settings", "/v1/score", JSON, lambda n: many_names(n, '{"config":{%s}}')),
        Attack("Arrow: small batches", "/v1/score", ARROW, small_batches),
        Attack("Arrow: noise", "/v1/score", ARROW, lambda n: b"\xff\xff\xff\xff\x10\x00\x00\x00" * (n // 8)),
        Attack("steps to put in order", "/v1/score", JSON, task_rows("bioprobench.ord", order)),
        Attack("overlap of words", "/v1/score", JSON, task_rows("lexical", {"reference": "a b " * 200})),
        Attack("pseudocode", "/v1/score", JSON, task_rows("bioplanner", {"ground_truth": "add(b)\n" * 200})),
        Attack("programs", "/v1/score", JSON, program),
        Attack("empty records", "/v1/evaluate", JSON, evaluation("score", {"response": "", "reference": ""})),
        Attack("records", "/v1/evaluate", JSON, evaluation("score", {"response": PERFECT, "reference": REFERENCE})),
        Attack("one name", "/compat/nemo-gym/aggregate_metrics", JSON, verified(lambda _: "n")),
        Attack("distinct names", "/compat/nemo-gym/aggregate_metrics", JSON, verified(lambda k: f"n{k:x}")),
        Attack("parts", "/compat/nemo-gym/verify", JSON, parts),
        Attack("overlapping prompt", "/compat/openrlhf", JSON, queries),
    ]


PATHS = paths_with_bodies()
MIB = 1 << 20
LARGE, PARTS = MIB, 8
"""Bytes of the large body, and the number of small bodies with the same total length."""

GROWTH = 2.0
"""Maximum ratio of the cost of the large body to that of the small ones: quadratic cost would be eight."""

SLACK_SECONDS = 0.05
"""CPU seconds to ignore: the clock of a process has ticks of 10 ms."""


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with ready() as server:
        yield server
        assert "Traceback" not in server.log


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants, including ended ones."""
    process = psutil.Process(pid)
    times = [process.cpu_times(), *(child.cpu_times() for child in process.children(recursive=True))]
    return sum(each.user + each.system + each.children_user + each.children_system for each in times)


def send(url: str, attack: Attack, body: bytes) -> int:
    """Send a body on a new connection; return the status of the reply."""
    with connected(url) as connection:
        return connection.send("POST", attack.path, body, {"content-type": attack.media_type})[0]


def check_cost(server: LiveServer, attack: Attack, large: int) -> tuple[float, float]:
    """Send as many bytes in small bodies and in a large one; return the CPU seconds of both."""
    process = server.process.pid

    def cost(nbytes: int, times: int) -> float:
        body = attack.body(nbytes)
        before = cpu_seconds(process)
        for _ in range(times):
            assert send(server.url, attack, body) in (200, 400, 413, 422), attack.label
        return cpu_seconds(process) - before

    cost(large // PARTS, 1)  # the cost of the first request of its kind
    for _ in range(ATTEMPTS):
        small = cost(large // PARTS, PARTS)
        whole = cost(large, 1)
        if whole <= GROWTH * small + SLACK_SECONDS:
            break
    assert whole <= GROWTH * small + SLACK_SECONDS, f"{small:.2f} s in parts, {whole:.2f} s as one body"
    return small, whole


@pytest.mark.slow
@pytest.mark.parametrize("attack", attacks(PATHS), ids=lambda attack: attack.label)
def test_cost_is_proportional_to_length(server, attack):
    with probed(server.url, 2.0):
        check_cost(server, attack, LARGE)


REFUSED: dict[str, Callable[[int], bytes]] = {
    "names": many_names,
    "wide": wide,
    "text": long_string,
    "empty strings": empty_strings,
    "not JSON": lambda nbytes: b"[" * nbytes,
}


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_what_is_refused_is_not_kept(server, path):
    """The service's size does not grow with sequential requests of one client."""
    process = server.process.pid
    attacks = [Attack(name, path, JSON, shape) for name, shape in REFUSED.items()]

    def send_all() -> None:
        for attack in attacks:
            accepted = (200,) if path.endswith("_session") and attack.name != "not JSON" else (400, 413, 422)
            assert send(server.url, attack, attack.body(8 * MIB)) in accepted, attack.name

    send_all()
    before = resident(process)
    for _ in range(4):
        send_all()
    assert resident(process) - before < 4 * 8 * MIB  # of 160 MiB sent
