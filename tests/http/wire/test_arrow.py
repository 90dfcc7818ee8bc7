"""Arrow IPC streams at POST /v1/score: the same numbers, every error, and nothing trusted."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import numpy as np
import pytest

from assay import Scorer
from assay.kernels.score import COMPONENTS
from tests.http.samples import PERFECT, REFERENCE, SWAPPED, errors_of, problem_of

pa = pytest.importorskip("pyarrow")

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
ROW = {"response": [PERFECT], "reference": [REFERENCE]}


def stream_of(columns, rows_a_batch=None, **options) -> bytes:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows_a_batch)
    return sink.getvalue().to_pybytes()


def post(client: httpx.Client, body: bytes, query: str = "", **headers: str) -> httpx.Response:
    return client.post(f"/v1/score{query}", content=body, headers={"content-type": MEDIA_TYPE, **headers})


def table_of(reply: httpx.Response):
    assert reply.status_code == 200, reply.text[:500]
    assert reply.headers["content-type"] == MEDIA_TYPE
    return pa.ipc.open_stream(reply.content).read_all()


KINDS = {
    "strings": (pa.string(), False),
    "large strings": (pa.large_string(), False),
    "views, as Polars writes them": (pa.string_view(), False),
    "a dictionary of views": (pa.string_view(), True),
    "dictionary": (pa.string(), True),
}
"""Type of texts, and whether references are a dictionary."""


@pytest.mark.parametrize(("kind", "dictionary"), KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("rows_a_batch", [None, 7])
def test_columns_have_the_bits_of_the_scorer(client, rollout_request, kind, dictionary, rows_a_batch):
    request = rollout_request(24, 5, 11)
    index = request["reference_index"]
    expected = Scorer().score(request["responses"], request["references"], index)
    references = pa.array(["", *(request["references"][k] for k in index)], kind).slice(1)
    references = references.dictionary_encode() if dictionary else references
    columns = {"response": pa.array(["not this", *request["responses"]], kind).slice(1), "reference": references}
    table = table_of(post(client, stream_of(columns, rows_a_batch), "?include=components,advantages"))
    assert table.schema.names == ["reward", "reason", *expected.components, "advantage"]
    assert table["reward"].to_numpy().tobytes() == expected.rewards.tobytes()
    assert table["reason"].to_pylist() == expected.reasons.tolist()
    assert table["advantage"].to_numpy().tobytes() == expected.advantages().tobytes()
    for name, column in expected.components.items():
        assert table[name].to_numpy().tobytes() == column.tobytes()
    config = client.get("/v1/config").json()
    assert table.schema.metadata == {name.encode(): config[name].encode() for name in ("config_id", "signature")}


def test_an_empty_table(client):
    empty = {"response": pa.array([], pa.string()), "reference": pa.array([], pa.string())}
    table = table_of(post(client, stream_of(empty), "?include=components"))
    assert (table.num_rows, table.num_columns) == (0, 2 + len(COMPONENTS))


ORD = json.dumps({"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]})
TASKS = {"response": ["a", "b"], "reference": [REFERENCE, ORD], "task": ["score", "bioprobench.ord"]}
WRONG: list[tuple[dict[str, Any], str, list[tuple[str, str]]]] = [
    (
        ROW,
        'config={"nope":1}&include=all&colour=red',
        [("query.colour", "unknown_field"), ("query.include", "unknown_column"), ("config.nope", "unknown_setting")],
    ),
    (ROW, "configs=[]", [("query.configs", "unknown_field")]),
    (ROW, "task=bioprobench.od", [("query.task", "unknown_task")]),
    ({"more": ["a"]}, "", [("more", "unknown_field"), ("reference", "missing_field"), ("response", "missing_field")]),
    ({"response": [1], "reference": [REFERENCE]}, "", [("response", "wrong_type")]),
    (
        {"response": [None, PERFECT, None], "reference": [REFERENCE, None, REFERENCE]},
        "",
        [("reference[1]", "wrong_type"), ("response[0]", "wrong_type"), ("response[2]", "wrong_type")],
    ),
    (TASKS | {"task": ["score", None]}, 'config={"bioprobench.ord":{}}', [("task[1]", "wrong_type")]),
    (TASKS | {"group": pa.array([None, 3])}, "", [("group[0]", "wrong_type")]),
    (TASKS | {"group": [1.5, 2.5]}, "", [("group", "wrong_type")]),
    (TASKS | {"task": [1, 2]}, "", [("task", "wrong_type")]),
    (TASKS | {"task": ["score", "scor"]}, "", [("task[1]", "unknown_task")]),
    (TASKS, "task=score", [("query.task", "repeated_setting")]),
]


@pytest.mark.parametrize(("columns", "query", "errors"), WRONG)
def test_every_error_is_reported(client, columns, query, errors):
    assert errors_of(problem_of(post(client, stream_of(columns), f"?{query}"), 422)) == errors


def spoiled(body: bytes, honest: np.ndarray, others: list[int]) -> bytes:
    """Return a stream with other numbers, int32, in place of those that it has once."""
    assert body.count(honest.astype(np.int32).tobytes()) == 1
    return body.replace(honest.astype(np.int32).tobytes(), np.array(others, np.int32).tobytes())


def test_nothing_of_a_stream_is_trusted(client):
    """Offsets outside the buffer and invalid UTF-8 never reach a kernel."""
    body = stream_of({"response": ["abc", "def"], "reference": [REFERENCE] * 2})
    for offsets in ([0, 3, 2**30], [0, 5, 1], [-3, 0, 3], [2**30, 2**30 + 1, 2**30 + 2]):
        problem_of(post(client, spoiled(body, np.array([0, 3, 6]), offsets)), 400)
    problem_of(post(client, body.replace(b"abcdef", b"ab\xff\xfeef")), 400)


@pytest.mark.parametrize(("row", "rows_a_batch"), [(0, None), (350, 64), (699, None)])
def test_texts_that_several_threads_validate(client, row, rows_a_batch):
    responses = [PERFECT] * 700
    responses[row] += "abcdef"
    references = pa.array([REFERENCE] * 700).dictionary_encode()
    body = stream_of({"response": responses, "reference": references}, rows_a_batch)
    table_of(post(client, body))
    problem_of(post(client, body.replace(b"abcdef", b"ab\xff\xfeef")), 400)


@pytest.mark.parametrize("count", [5, 200])
def test_nothing_of_a_dictionary_is_trusted(client, count):
    """Neither its texts, nor their offsets, nor the indices; few of them, or many that threads share."""
    references = [REFERENCE.replace("tube", f"tube{k:04}") for k in range(count)]
    body = stream_of({"response": [PERFECT] * count, "reference": pa.array(references).dictionary_encode()})
    assert table_of(post(client, body)).num_rows == count
    index, offsets = np.arange(count), np.arange(count + 1) * (len(REFERENCE) + 4)
    for last in (count, -1):
        problem_of(post(client, spoiled(body, index, [*index[:-1], last])), 400)
    for end in ([offsets[-2], 2**30], [offsets[-1], offsets[1]]):
        problem_of(post(client, spoiled(body, offsets, [*offsets[:-2], *end])), 400)
    name = f"tube{count - 1:04}".encode()
    assert body.count(name) == 1
    problem_of(post(client, body.replace(name, name[:-2] + b"\xff\xfe")), 400)


def test_buffers_that_end_within_an_offset(client):
    references = pa.array([REFERENCE.replace("tube", f"tube{k:04}") for k in range(37)]).dictionary_encode()
    body = stream_of({"response": [PERFECT] * 37, "reference": references})
    whole, broken = (np.int64(size).tobytes() for size in (38 * 4, 38 * 4 + 1))
    positions = [pos for pos in range(len(body)) if body.startswith(whole, pos)]
    assert len(positions) >= 2
    for pos in positions:
        assert post(client, body[:pos] + broken + body[pos + 8 :]).status_code in (200, 400)


def test_damaged_streams_are_not_arrow(client):
    body = stream_of({"response": [PERFECT, SWAPPED, ""], "reference": [REFERENCE] * 3})
    generator = random.Random(5)
    for damaged in (b"", b"\x00", body[:20], body[: len(body) // 2], b"{}"):
        problem_of(post(client, damaged), 400)
    for _ in range(50):
        flipped = bytearray(body)
        flipped[generator.randrange(len(flipped))] ^= 1 << generator.randrange(8)
        assert post(client, bytes(flipped)).status_code in (200, 400, 422)
    assert table_of(post(client, body))["reward"].to_pylist()[0] == 1.0
