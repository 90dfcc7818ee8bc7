"""Arrow IPC streams at POST /v1/score: the same numbers, every error, and nothing trusted."""

from __future__ import annotations

import random

import httpx
import numpy as np
import pytest

from assay import Scorer
from tests.http.samples import PERFECT, REFERENCE, SWAPPED, errors_of, problem_of

pa = pytest.importorskip("pyarrow")

MEDIA_TYPE = "application/vnd.apache.arrow.stream"


def stream_of(table, rows_a_batch=None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows_a_batch)
    return sink.getvalue().to_pybytes()


def post(client: httpx.Client, body: bytes, query: str = "", **headers: str) -> httpx.Response:
    return client.post(f"/v1/score{query}", content=body, headers={"content-type": MEDIA_TYPE, **headers})


def table_of(reply: httpx.Response):
    assert reply.status_code == 200, reply.text[:500]
    assert reply.headers["content-type"] == MEDIA_TYPE
    return pa.ipc.open_stream(reply.content).read_all()


def encodings(responses, references):
    plain = {"response": pa.array(responses), "reference": pa.array(references)}
    large = {name: column.cast(pa.large_string()) for name, column in plain.items()}
    return {
        "strings": plain,
        "large strings": large,
        "dictionary": plain | {"reference": plain["reference"].dictionary_encode()},
        "large dictionary": large | {"reference": large["reference"].dictionary_encode()},
        "slices": {name: pa.concat_arrays([column.slice(1, 0), column]).slice(0) for name, column in plain.items()},
    }


@pytest.fixture(scope="module")
def rows(rollout_request):
    request = rollout_request(24, 5, 11)
    return request["responses"], [request["references"][k] for k in request["reference_index"]], request


@pytest.mark.parametrize("kind", ["strings", "large strings", "dictionary", "large dictionary", "slices"])
@pytest.mark.parametrize("rows_a_batch", [None, 7])
def test_columns_have_the_bits_of_the_scorer(client, rows, kind, rows_a_batch):
    responses, references, request = rows
    expected = Scorer().score(responses, request["references"], request["reference_index"])
    body = stream_of(pa.table(encodings(responses, references)[kind]), rows_a_batch)
    table = table_of(post(client, body, "?include=components,advantages"))
    assert table.schema.names == ["reward", "reason", *expected.components, "advantage"]
    assert table["reward"].to_numpy().tobytes() == expected.rewards.tobytes()
    assert table["reason"].to_pylist() == expected.reasons.tolist()
    assert table["advantage"].to_numpy().tobytes() == expected.advantages().tobytes()
    for name, column in expected.components.items():
        assert table[name].to_numpy().tobytes() == column.tobytes()
    config = client.get("/v1/config").json()
    identity = {name: config[name].encode() for name in ("config_id", "signature")}
    assert table.schema.metadata == {name.encode(): value for name, value in identity.items()}


def test_columns_that_begin_inside_their_buffers(client):
    responses = pa.array(["not this", PERFECT, SWAPPED]).slice(1)
    references = pa.array(["nor this", REFERENCE, REFERENCE]).slice(1)
    table = table_of(post(client, stream_of(pa.table({"response": responses, "reference": references}))))
    assert table.schema.names == ["reward", "reason"]
    assert table["reward"][0].as_py() == 1.0


def test_settings_in_the_query(client):
    body = stream_of(pa.table({"response": [PERFECT], "reference": [REFERENCE]}))
    for query in ('?config={"reward_scale":"raw"}', '?&config={"reward_scale":"raw"}&&'):
        assert table_of(post(client, body, query))["reward"].to_pylist() == [2.5]
    zeros = [table_of(post(client, body, f'?config={{"min_coverage":{zero}}}')) for zero in ("0.0", "-0.0", "-0")]
    assert len({table.schema.metadata[b"config_id"] for table in zeros}) == 1
    found = errors_of(problem_of(post(client, body, '?config={"nope":1,"order":"x"}&include=all&colour=red'), 422))
    assert sorted(found) == [
        ("config.nope", "unknown_setting"),
        ("config.order", "invalid_setting"),
        ("query.colour", "unknown_field"),
        ("query.include", "unknown_column"),
    ]
    assert errors_of(problem_of(post(client, body, "?config=[1]"), 422)) == [("query.config", "wrong_type")]


def test_no_query_raises_a_limit(client):
    body = stream_of(pa.table({"response": [PERFECT], "reference": [REFERENCE]}))
    reply = post(client, body, '?config={"max_response_bytes":10000000000,"max_steps":1024}')
    assert errors_of(problem_of(reply, 422)) == [("config.max_response_bytes", "over_limit")]


def test_an_empty_table(client):
    empty = pa.table({"response": pa.array([], pa.string()), "reference": pa.array([], pa.string())})
    assert table_of(post(client, stream_of(empty), "?include=components")).num_rows == 0


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"response": [PERFECT]}, [("reference", "missing_field")]),
        ({"response": [1], "reference": [REFERENCE]}, [("response", "wrong_type")]),
        ({"response": [PERFECT], "reference": [REFERENCE], "id": [1]}, [("id", "unknown_field")]),
        (
            {"response": [None, PERFECT, None], "reference": [REFERENCE, None, REFERENCE]},
            [("reference[1]", "wrong_type"), ("response[0]", "wrong_type"), ("response[2]", "wrong_type")],
        ),
        ({"response": [PERFECT] * 2, "reference": [REFERENCE, "?"]}, [("references[1]", "bad_step_line")]),
    ],
)
def test_every_error_is_reported(client, columns, expected):
    assert errors_of(problem_of(post(client, stream_of(pa.table(columns))), 422)) == expected


def test_nothing_of_a_stream_is_trusted(client):
    """Offsets outside the buffer and invalid UTF-8 never reach a kernel."""
    body = stream_of(pa.table({"response": ["abc", "def"], "reference": [REFERENCE] * 2}))
    honest = np.array([0, 3, 6], np.int32).tobytes()
    assert body.count(honest) == 1
    for offsets in ([0, 3, 2**30], [0, 5, 1], [-3, 0, 3], [2**30, 2**30 + 1, 2**30 + 2]):
        problem_of(post(client, body.replace(honest, np.array(offsets, np.int32).tobytes())), 400)
    problem_of(post(client, body.replace(b"abcdef", b"ab\xff\xfeef")), 400)


@pytest.mark.parametrize("row", [0, 350, 699])
@pytest.mark.parametrize("rows_a_batch", [None, 64])
def test_texts_that_several_threads_validate(client, row, rows_a_batch):
    responses = [PERFECT] * 700
    responses[row] += "abcdef"
    columns = {"response": pa.array(responses), "reference": pa.array([REFERENCE] * 700).dictionary_encode()}
    body = stream_of(pa.table(columns), rows_a_batch)
    table_of(post(client, body))
    problem_of(post(client, body.replace(b"abcdef", b"ab\xff\xfeef")), 400)


@pytest.mark.parametrize("count", [5, 200])
def test_nothing_of_a_dictionary_is_trusted(client, count):
    """Neither its texts, nor their offsets, nor the indices; few of them, or many that threads share."""
    references = [REFERENCE.replace("tube", f"tube{k:04}") for k in range(count)]
    columns = {"response": pa.array([PERFECT] * count), "reference": pa.array(references).dictionary_encode()}
    body = stream_of(pa.table(columns))
    assert table_of(post(client, body)).num_rows == count
    length = len(REFERENCE) + 4
    honest = {
        np.arange(count, dtype=np.int32).tobytes(): [np.r_[: count - 1, count], np.r_[: count - 1, -1]],
        np.arange(0, length * (count + 1), length, dtype=np.int32).tobytes(): [
            np.r_[0 : length * count : length, 2**30],
            np.r_[0 : length * (count - 1) : length, length * count, length],
        ],
    }
    for numbers, spoiled in honest.items():
        assert body.count(numbers) == 1
        for others in spoiled:
            problem_of(post(client, body.replace(numbers, others.astype(np.int32).tobytes())), 400)
    name = f"tube{count - 1:04}".encode()
    assert body.count(name) == 1
    problem_of(post(client, body.replace(name, name[:-2] + b"\xff\xfe")), 400)


def test_buffers_that_end_within_an_offset(client):
    references = pa.array([REFERENCE.replace("tube", f"tube{k:04}") for k in range(37)]).dictionary_encode()
    body = stream_of(pa.table({"response": pa.array([PERFECT] * 37), "reference": references}))
    whole, broken = (np.int64(size).tobytes() for size in (38 * 4, 38 * 4 + 1))
    positions = [pos for pos in range(len(body)) if body.startswith(whole, pos)]
    assert len(positions) >= 2
    for pos in positions:
        assert post(client, body[:pos] + broken + body[pos + 8 :]).status_code in (200, 400)


def test_damaged_streams_are_not_arrow(client):
    body = stream_of(pa.table({"response": [PERFECT] * 3, "reference": [REFERENCE] * 3}))
    generator = random.Random(5)
    for damaged in (b"", b"\x00", body[:20], body[: len(body) // 2], b"{}"):
        problem_of(post(client, damaged), 400)
    for _ in range(100):
        spoiled = bytearray(body)
        for _ in range(generator.randint(1, 4)):
            spoiled[generator.randrange(len(spoiled))] ^= 1 << generator.randrange(8)
        assert post(client, bytes(spoiled)).status_code in (200, 400, 422)
    assert table_of(post(client, body))["reward"].to_pylist() == [1.0] * 3
