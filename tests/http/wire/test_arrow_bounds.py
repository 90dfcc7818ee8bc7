"""Arrow streams that would take too much memory, or that are followed by other bytes, are refused."""

from __future__ import annotations

import mmap
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests.http.process.watching import resident
from tests.http.samples import PERFECT, REFERENCE, errors_of, problem_of
from tests.http.wire.test_arrow import post, stream_of, table_of
from tests.servers import ready

pa = pytest.importorskip("pyarrow")

from assay.kernels.column import TextColumn  # noqa: E402
from assay.service.wire.arrow_codec import (  # noqa: E402
    MAX_EXTRA_MESSAGES,
    MAX_METADATA,
    OLD_COMPRESSION,
    ArrowTable,
    batch_of,
    inflated_bytes,
    read_stream,
)
from assay.service.wire.json_codec import RequestLimits  # noqa: E402
from assay.service.wire.problems import Problem  # noqa: E402

pytestmark = pytest.mark.attack

MIB = 1 << 20


def limits(rows: int, nbytes: int) -> RequestLimits:
    return RequestLimits(max_body_bytes=nbytes, max_responses=rows, max_reference_bytes=262_144)


GOOD = {"response": [PERFECT] * 3, "reference": [REFERENCE] * 3}


def batches_of(*batches, **options) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("rows_a_batch", [None, 2])
def test_compressed_batches_are_read(client, codec, rows_a_batch):
    references = pa.array(GOOD["reference"])
    for column in (references, references.dictionary_encode(), references.cast(pa.large_string())):
        body = stream_of({"response": GOOD["response"], "reference": column}, rows_a_batch, compression=codec)
        assert table_of(post(client, body))["reward"].to_pylist() == [1.0] * 3


LONG = "a" * (2 * MIB)

LONG_DICTIONARY = pa.array([LONG]).dictionary_encode()
BOMBS = {
    "response": {"response": [LONG], "reference": [REFERENCE]},
    "dictionary": {"response": [PERFECT], "reference": LONG_DICTIONARY},
    "view": {"response": pa.array([LONG], pa.string_view()), "reference": [REFERENCE]},
    "unknown column": {"response": [PERFECT], "reference": [REFERENCE], "more": [LONG]},
    "nested dictionary": {
        "response": [PERFECT],
        "reference": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), LONG_DICTIONARY),
    },
}


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("columns", BOMBS.values(), ids=BOMBS)
def test_streams_that_would_inflate_beyond_the_limit_are_refused(columns, codec):
    body = stream_of(columns, compression=codec)
    assert len(body) < MIB / 10
    held = pa.total_allocated_bytes()
    with pytest.raises(Problem) as caught:
        read_stream(body, limits(10, MIB))
    assert [issue.path for issue in caught.value.issues] == ["body"]
    assert pa.total_allocated_bytes() == held


def test_the_sizes_of_many_small_batches_are_added():
    body = stream_of({"response": ["a" * 1000] * 100, "reference": [REFERENCE] * 100}, 1, compression="zstd")
    read_stream(body, limits(100, 200_000))
    with pytest.raises(Problem, match="too-large"):
        read_stream(body, limits(100, 100_000))


def test_compression_of_early_writers_is_counted():
    """Arrow 0.17 named the codec in a message's metadata, which readers still support."""
    _, message = pa.ipc.MessageReader.open_stream(stream_of({"response": [LONG]}, compression="zstd"))
    batch, _ = batch_of(message)
    assert inflated_bytes(message, batch) >= len(LONG)
    unmarked = bytearray(batch.data)
    (back,) = struct.unpack_from("<i", unmarked, batch.start)
    struct.pack_into("<H", unmarked, batch.start - back + 4 + 2 * 3, 0)
    assert inflated_bytes(message, ArrowTable(bytes(unmarked), batch.start)) == 0
    assert inflated_bytes(message, ArrowTable(bytes(unmarked) + OLD_COMPRESSION, batch.start)) >= len(LONG)


@pytest.mark.parametrize("rest", [b"\0", b"more", stream_of(GOOD)], ids=["zero", "bytes", "stream"])
def test_nothing_follows_a_stream(client, rest):
    body = stream_of(GOOD)
    problem = problem_of(post(client, body + rest), 400)
    assert errors_of(problem) == [("body", "not_arrow")]
    assert str(len(body)) in problem["errors"][0]["detail"]
    assert table_of(post(client, body)).num_rows == 3
    assert table_of(post(client, body[:-8])).num_rows == 3, "the mark of its end may be left out"


def small_dictionary(k):
    references = pa.array([REFERENCE.replace("tube", f"tube{k}{n:02}") for n in range(100)])
    column = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), references)
    return pa.RecordBatch.from_arrays([pa.array([PERFECT] * 100), column], ["response", "reference"])


def test_dictionaries_without_a_common_index(client):
    issues = errors_of(problem_of(post(client, batches_of(small_dictionary(0), small_dictionary(1))), 422))
    assert issues == [("reference", "too_large")]
    assert table_of(post(client, batches_of(small_dictionary(0), small_dictionary(0)))).num_rows == 200


def test_more_than_two_gibibytes_of_text_in_several_batches(monkeypatch):
    """The pages of the mapping are never touched: batches are refused before they are joined."""
    length = 1 << 30
    text = pa.py_buffer(mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    column = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, length], np.int32)), text)
    table = pa.table({"response": pa.chunked_array([column] * 3), "reference": pa.array([REFERENCE] * 3)})
    monkeypatch.setattr("assay.service.wire.arrow_codec._read_columns", lambda body: (table, []))
    monkeypatch.setattr("assay.service.wire.arrow_codec._validate", lambda table: None)
    batch = read_stream(stream_of(GOOD), limits(10, MIB))
    assert batch.responses is None
    assert [(issue.path, issue.reason) for issue in batch.issues] == [("response", "too_large")]


def test_thousands_of_messages_without_rows(client):
    full = pa.RecordBatch.from_pydict(GOOD)
    empty = full.slice(0, 0)
    assert table_of(post(client, batches_of(full, *[empty] * (MAX_EXTRA_MESSAGES - 1)))).num_rows == 3
    problem = problem_of(post(client, batches_of(full, *[empty] * (MAX_EXTRA_MESSAGES + 1))), 413)
    assert errors_of(problem) == [("body", "too_many")]
    one_row = [full.slice(0, 1)] * 3000
    assert table_of(post(client, batches_of(*one_row))).num_rows == 3000


def test_more_rows_than_a_request_may_have():
    with pytest.raises(Problem) as caught:
        read_stream(stream_of(GOOD), limits(2, MIB))
    assert [issue.path for issue in caught.value.issues] == ["response"]
    references = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([REFERENCE, "b", "c"]))
    with pytest.raises(Problem) as caught:
        read_stream(stream_of(pa.table({"response": [PERFECT], "reference": references})), limits(2, MIB))
    assert [issue.path for issue in caught.value.issues] == ["reference"]


@pytest.mark.parametrize("layout", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
def test_more_alternatives_than_a_request_may_have(layout):
    """Before any is copied: lists of a view may share their texts."""
    lists = pa.array([[REFERENCE, "b"], ["c"]], layout(pa.string()))
    columns = {"response": [PERFECT] * 2, "reference": lists}
    assert read_stream(stream_of(columns), limits(3, MIB)).alternatives.counts.tolist() == [2, 1]
    with pytest.raises(Problem) as caught:
        read_stream(stream_of(columns), limits(2, MIB))
    assert [issue.path for issue in caught.value.issues] == ["reference"]
    if layout is pa.list_view:
        starts, sizes = pa.array([0] * 1000, pa.int32()), pa.array([1000] * 1000, pa.int32())
        shared = pa.ListViewArray.from_arrays(starts, sizes, pa.array(["a"] * 1000))
        with pytest.raises(Problem):
            read_stream(stream_of({"response": [PERFECT] * 1000, "reference": shared}), limits(65_536, MIB))


def test_metadata_is_limited(client):
    for size, status in ((MAX_METADATA // 2, 200), (MAX_METADATA, 413)):
        table = pa.table(GOOD).replace_schema_metadata({"note": "x" * size})
        assert post(client, stream_of(table)).status_code == status
    many = pa.table({**GOOD, **{f"c{k}": ["x"] * 3 for k in range(300)}})
    assert problem_of(post(client, stream_of(many)), 422)["error_count"] == 300
    wide = pa.table({**GOOD, **{f"c{k}": ["x"] * 3 for k in range(5000)}})
    assert errors_of(problem_of(post(client, stream_of(wide)), 413)) == [("body", "too_large")]


def test_damaged_compressed_streams_are_not_arrow():
    body = stream_of({"response": [PERFECT] * 20, "reference": [REFERENCE] * 20}, compression="zstd")
    for cut in range(0, len(body), 37):
        for spoiled in (body[:cut] + bytes([body[cut] ^ 0xFF]) + body[cut + 1 :], body[:cut]):
            with suppress(Problem):
                read_stream(spoiled, limits(100, MIB))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc here")
def test_memory_is_constant_under_refused_streams():
    hostile = [
        (stream_of({"response": ["a" * (100 * MIB)], "reference": [REFERENCE]}, compression="zstd"), 413),
        (stream_of({"response": [PERFECT], "reference": pa.array(["a" * (100 * MIB)])}, compression="zstd"), 413),
        (stream_of(GOOD) * 2, 400),
        (batches_of(small_dictionary(0), small_dictionary(1)), 422),
        (batches_of(*[pa.RecordBatch.from_pydict(GOOD).slice(0, 0)] * 5000), 413),
        (stream_of(pa.table(GOOD).replace_schema_metadata({"note": "x" * (4 * MIB)})), 413),
    ]
    zstandard = pytest.importorskip("zstandard")
    bomb = zstandard.compress(hostile[0][0])
    with ready() as server, server.client() as client:
        table_of(post(client, stream_of(GOOD)))  # loads pyarrow
        before = resident(server.process.pid, "VmRSS")
        for _ in range(5):
            for body, status in hostile:
                problem_of(post(client, body), status)
            problem_of(post(client, bomb, **{"content-encoding": "zstd"}), 413)
        assert resident(server.process.pid, "VmHWM") - before < 60 * MIB
        assert resident(server.process.pid, "VmRSS") - before < 40 * MIB
        assert table_of(post(client, stream_of(GOOD))).num_rows == 3


def dictionaries(base: list[str], batches: int, *, growing: bool) -> bytes:
    """Encode batches of one row that share a dictionary, or each of which adds an entry to it."""
    extended = [pa.array(base + [f"x{k}" for k in range(1, size)]) for size in range(1, batches + 1 if growing else 2)]
    column = pa.array([0], pa.int32())
    references = [pa.DictionaryArray.from_arrays(column, extended[k if growing else 0]) for k in range(batches)]
    rows = [pa.record_batch({"response": pa.array(["r"]), "reference": reference}) for reference in references]
    return batches_of(*rows, emit_dictionary_deltas=True)


def test_a_dictionary_that_grows_with_every_batch_is_counted_each_time():
    """Arrow copies all of it for each delta, and keeps every copy."""
    base = ["x" * 10_000] * 100
    batch = read_stream(dictionaries(base, 4, growing=True), limits(1000, 1 << 24))
    assert not batch.issues
    assert isinstance(batch.references.texts, TextColumn)
    assert batch.references.rows == 4
    with pytest.raises(Problem, match="too-large"):
        read_stream(dictionaries(base, 40, growing=True), limits(1000, 1 << 24))


def test_a_shared_dictionary_is_not_validated_for_each_batch(monkeypatch):
    """All batches are joined before the one validation of the dictionary."""
    body = dictionaries(["\u00e9" * 50] * 100, 500, growing=False)
    chunks: list[dict[str, int]] = []
    monkeypatch.setattr(
        "assay.service.wire.arrow_codec._validate",
        lambda table: chunks.append({name: table[name].num_chunks for name in table.column_names}),
    )
    batch = read_stream(body, limits(1000, 1 << 24))
    assert batch.reference_index is not None
    assert batch.reference_index.tolist() == [0] * 500
    assert chunks == [{"reference": 1, "response": 500}]
