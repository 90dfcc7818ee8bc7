"""The two faces of the service, called in this process: a body of JSON, and a stream of Arrow."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson
import pyarrow as pa

from assay import Scorer
from assay.service.http.endpoints.score import answer_arrow, answer_json
from assay.service.http.request.paths import PendingAnswer
from assay.service.rewards.scoring import run_here
from assay.service.wire.json_codec import Answer, RequestLimits
from assay.service.wire.media_types import ARROW, JSON, Body
from assay.service.wire.stage_times import StageTimes

__all__ = ["SCORER", "post_arrow", "post_json", "reply_of", "table_of"]

LIMITS = RequestLimits(1 << 24, 65_536, 262_144)
SCORER = Scorer()


def post_json(request: Mapping[str, Any]) -> Answer:
    """Return the answer to a request, or raise Problem."""
    return complete(answer_json(Body(orjson.dumps(request), b"", JSON, False), SCORER, LIMITS, StageTimes()))


def post_arrow(
    columns: pa.Table | Mapping[str, Any], include: Sequence[str], config: Any = None, task: str = ""
) -> Answer:
    """Return the answer to a stream of some columns, or raise Problem."""
    table, sink = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    query = f"include={','.join(include)}&config={quote(json.dumps(config or {}))}" + (f"&task={task}" if task else "")
    body = Body(sink.getvalue(), b"", ARROW, False)
    return complete(answer_arrow(body, query.encode(), SCORER, LIMITS, StageTimes()))


def complete(result: Answer | PendingAnswer) -> Answer:
    """Score the rows of other tasks here, which the service scores in a separate process."""
    return result.complete(run_here(result.scoring.left)) if isinstance(result, PendingAnswer) else result


def reply_of(answer: Answer) -> dict[str, Any]:
    reply: dict[str, Any] = orjson.loads(answer.body)
    return reply


def table_of(answer: Answer) -> pa.Table:
    return pa.ipc.open_stream(answer.body).read_all()
