"""Arrow streams: one that is taken has the rewards of its texts, any other is an error of the request.

An input is a stream.
"""

from __future__ import annotations

from typing import Any

from tests.fuzz.fuzzing import fuzz, outcome

# isort: split
import numpy as np
import pyarrow as pa

from assay import Scorer
from assay.kernels.column import column_of
from assay.service.http.endpoints.score import answer_arrow
from assay.service.wire.json_codec import RequestLimits
from assay.service.wire.media_types import ARROW, Body
from assay.service.wire.problems import Problem
from assay.service.wire.stage_times import StageTimes
from tests.cases import answer as answer_text
from tests.cases.writing import KEY
from tests.guard_pages import GuardedMemory

LIMITS = RequestLimits(1 << 26, 1000, 262_144)
SCORER = Scorer(threads=1)


def check(data: bytes, memory: GuardedMemory) -> None:
    body: Any = memory.frozen(data)
    reply = outcome(answer_arrow, Body(body, b"", ARROW, False), b"include=components", SCORER, LIMITS, StageTimes())
    if isinstance(reply, Problem):
        assert reply.status in (400, 413, 422)
        return
    table = pa.ipc.open_stream(data).read_all()
    responses, references = (column_of([text.encode() for text in table[n].to_pylist()]) for n in table.column_names)
    if table.column_names != ["response", "reference"]:
        responses, references = references, responses
    index = np.arange(table.num_rows)
    scores = SCORER.score_columns(memory.column(responses), memory.column(references), index)
    columns = pa.ipc.open_stream(reply.body).read_all()
    assert columns["reward"].to_pylist() == scores.rewards.tolist()
    assert columns["reason"].to_pylist() == scores.reasons.tolist()


def stream_of(table: Any, rows: int | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue().to_pybytes()


def seeds() -> list[bytes]:
    """Streams of each encoding, whole and in batches, with rows that are null, missing or of another type."""
    responses = pa.array([answer_text(), "", answer_text(KEY, "Step 1: Add the µ."), "x" * 20])
    references = pa.array([KEY, KEY.replace("pbs", "µ"), KEY, KEY])
    tables = [
        pa.table({"response": responses, "reference": references}),
        pa.table({"response": responses, "reference": references.dictionary_encode()}),
        pa.table({"reference": references.cast(pa.large_string()), "response": responses.cast(pa.large_string())}),
        pa.table({"response": responses.cast(pa.string_view()), "reference": references.cast(pa.string_view())}),
        pa.table({"response": [answer_text(), None], "reference": [KEY, KEY]}),
        pa.table({"response": [1, 2], "reference": [KEY, "prose"], "more": [KEY, KEY]}),
        pa.table({"response": pa.array([], pa.string()), "reference": pa.array([], pa.string())}),
    ]
    return [*(stream_of(table) for table in tables), *(stream_of(table.slice(1), 1) for table in tables[:4]), b""]


if __name__ == "__main__":
    fuzz(check, seeds())
