"""No request triggers compilation: the gauge of compiled signatures stays constant."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from urllib.parse import quote

import orjson
import pytest

from examples.rollouts import as_request, generate
from tests.http.limits.posting import JSON, Connection, connected
from tests.http.process.watching import metric
from tests.servers import LiveServer

pytestmark = pytest.mark.attack

CONFIGS: list[dict[str, object]] = [
    {},
    {"order": "lcs", "semantics": "product", "total": "sum", "content_denominator": "max_len"},
    {"length_penalty": "relative", "reward_scale": "shift", "object_similarity": "max", "min_coverage": 1},
    {"position_decay": 0.5, "max_mean_words": 1, "max_steps": 64, "max_response_bytes": 1, "advantage_ddof": 1},
    {"use_step_gap": False, "use_length": False, "use_position": False, "use_order": False, "think_prefilled": True},
]
"""Together they set every setting to another value or type than its default."""

BAD = [
    b"",
    b"{",
    b"\xff",
    b'{"references": [{"steps": 5}, 7], "responses": [null], "reference_index": [9], "config": {"nope": 1}}',
    b'{"references": [], "responses": ["x"], "reference_index": [0.5], "include": ["x"]}',
]
STREAM = {"content-type": "application/vnd.apache.arrow.stream"}


@pytest.fixture
def connection(fresh_server: LiveServer, compiled: None) -> Iterator[Connection]:
    """Yield a connection to a server, and check that it has compiled nothing meanwhile."""
    before = metric(fresh_server, "assay_compiled_signatures")
    assert before > 0
    with connected(fresh_server.url) as connection:
        yield connection
    assert metric(fresh_server, "assay_compiled_signatures") == before


def test_no_json_request_compiles(connection) -> None:
    batch = as_request(generate(1024, 5, 7))
    group = {"references": batch["references"][:1], "responses": batch["responses"][:5]}
    strange = {**group, "responses": ["", "\U0001f600 e\u0301 \u1100\u1161 \u0130", "x" * 300_000]}
    configured = [{**group, "config": config, "include": ["components", "advantages"]} for config in CONFIGS]
    zipped = {**JSON, "content-encoding": "gzip"}
    for document in (batch, strange, {"references": [], "responses": []}, *configured):
        body = orjson.dumps(document)
        assert connection.score(body)[0] == 200
        assert connection.score(gzip.compress(body, 1), zipped)[0] == 200
    for body in BAD:
        assert connection.score(body)[0] in (400, 422)
        assert connection.score(body, zipped)[0] == 400


def test_no_arrow_stream_compiles(connection) -> None:
    pa = pytest.importorskip("pyarrow")
    request = as_request(generate(1024, 5, 7))
    references = pa.array([request["references"][k] for k in request["reference_index"]])
    plain = {"response": pa.array(request["responses"]), "reference": references}
    large = {name: column.cast(pa.large_string()) for name, column in plain.items()}
    query = "?include=components&config=" + quote('{"order":"lcs"}')
    for columns in (plain, large, plain | {"reference": references.dictionary_encode()}):
        for rows in (0, 1, 5, len(references)):
            table = pa.table(columns).slice(0, rows)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=2_000)
            assert connection.score(sink.getvalue().to_pybytes(), STREAM, query)[0] == 200
