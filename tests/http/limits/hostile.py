"""Hostile bodies of any size that are expensive for their length, for every route that takes a body."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from tests.http.samples import ADD, PERFECT, REFERENCE

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
    """Return a generator of one reference and many short responses, whose cost is that of the reference."""

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
