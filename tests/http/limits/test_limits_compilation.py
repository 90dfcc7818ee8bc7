"""No request triggers compilation: the gauge of compiled signatures stays constant."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator
from urllib.parse import quote

import orjson
import pytest

from assay.service.settings import ScoreSettings
from tests.http.limits.posting import JSON, connected
from tests.http.process.watching import metric
from tests.servers import LiveServer

STREAM = "application/vnd.apache.arrow.stream"

SETTINGS: dict[str, list] = {
    "order": ["strict", "lcs"],
    "semantics": ["sum", "product"],
    "total": ["product", "sum"],
    "content_denominator": ["matched", "max_len"],
    "length_penalty": ["absolute", "relative"],
    "reward_scale": ["unit", "raw", "double", "shift"],
    "min_coverage": [0, 0.5, 1],
    "max_mean_words": [1, 30.5],
    "object_similarity": ["fallback", "max"],
    "parameter_similarity": ["words", "quantities"],
    "coverage": ["substring", "words"],
    "quantity_error_factor": [1, 0.5],
    "max_added_words": [None, 0],
    "max_added_numbers": [None, 0],
    "position_decay": [1, 0.5],
    "use_step_gap": [True, False],
    "use_length": [True, False],
    "use_position": [True, False],
    "use_order": [True, False],
    "think_prefilled": [True, False],
    "advantage_ddof": [0, 1],
    "max_response_bytes": [1, 262_144],
    "max_steps": [64, 1024],
}
BAD = [
    b"",
    b"{",
    b"[]",
    b"\xff",
    b'{"references": ["?"], "responses": ["x"]}',
    b'{"references": [{"steps": 5}, 7], "responses": [null], "reference_index": [9], "config": {"nope": 1}}',
    b'{"references": [], "responses": ["x"], "reference_index": [0.5], "include": ["x"]}',
]


@pytest.fixture
def server(fresh_server, compiled) -> Iterator[LiveServer]:
    """Yield a server, and check that it has compiled nothing meanwhile."""
    before = metric(fresh_server, "assay_compiled_signatures")
    assert before > 0
    yield fresh_server
    assert metric(fresh_server, "assay_compiled_signatures") == before


def configs() -> list[dict]:
    """Return every value of every setting, and the combinations that select formulas."""
    alone = [{name: value} for name, values in SETTINGS.items() for value in values]
    names = ["order", "semantics", "total", "content_denominator", "length_penalty", "use_order"]
    return alone + [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*map(SETTINGS.get, names))]


def test_every_setting_is_tried() -> None:
    assert SETTINGS.keys() == ScoreSettings.model_fields.keys()


@pytest.mark.attack
@pytest.mark.slow
def test_no_request_compiles(server, batch: bytes, single: bytes) -> None:
    request = orjson.loads(batch)
    group = {"references": request["references"][:1], "responses": request["responses"][:5]}
    strange = {
        **group,
        "responses": ["", "\U0001f600 e\u0301 \u1100\u1161 \u0130", "x" * 300_000, *group["responses"]],
    }
    zipped = {**JSON, "content-encoding": "gzip"}
    with connected(server.url) as connection:
        for _ in range(50):
            assert connection.score(single)[0] == 200
        for body in (batch, orjson.dumps(strange), orjson.dumps({"references": [], "responses": []})):
            assert connection.score(body)[0] == 200
            assert connection.score(gzip.compress(body, 1), zipped)[0] == 200
        for config in configs():
            body = orjson.dumps({**group, "config": config, "include": ["components", "advantages"]})
            assert connection.score(body)[0] == 200, config
        for body in BAD:
            assert connection.score(body)[0] in (400, 422)
            assert connection.score(body, zipped)[0] == 400


@pytest.mark.attack
def test_no_arrow_stream_compiles(server, batch: bytes) -> None:
    pa = pytest.importorskip("pyarrow")
    request = orjson.loads(batch)
    references = pa.array([request["references"][k] for k in request["reference_index"]])
    plain = {"response": pa.array(request["responses"]), "reference": references}
    large = {name: column.cast(pa.large_string()) for name, column in plain.items()}
    config = quote('{"order":"lcs"}')
    with connected(server.url) as connection:
        for columns in (plain, large, plain | {"reference": references.dictionary_encode()}):
            for rows in (0, 1, 5, len(references)):
                table = pa.table(columns).slice(0, rows)
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table, max_chunksize=2_000)
                body = sink.getvalue().to_pybytes()
                query = f"?config={config}&include=components"
                assert connection.score(body, {"content-type": STREAM}, query)[0] == 200
                assert connection.score(body[: len(body) // 2], {"content-type": STREAM})[0] in (200, 400)
