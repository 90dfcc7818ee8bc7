"""Let each allocation of a request fail once, and then score under guard pages; prints how many could fail.

    python -m tests.scoring.failing_allocations lists|json|fast ROWS

Every round begins with a thread that has scored a short batch. Then the memory for a longer one cannot be had,
somewhere on its way, and what comes next needs more than was there before and less than was asked for.
"""

from __future__ import annotations

import sys
from typing import Any

import orjson

from assay import Scorer
from assay.service.http.endpoints.score import answer_json
from assay.service.wire.fast_path import FastPath
from assay.service.wire.json_codec import RequestLimits
from assay.service.wire.media_types import JSON, Body
from assay.service.wire.stage_times import StageTimes
from tests.cases import answer as answer_text
from tests.cases.writing import KEY
from tests.guard_pages import forget, guarded_memory

LIMITS = RequestLimits(1 << 26, 65_536, 262_144)

Batch = dict[str, list[str]]


def batch_of(rows: int, words: int) -> Batch:
    more = " ".join(f"µ{k}" for k in range(words))
    responses = [answer_text(KEY, f"Step 1: Add the PBS for 5 minutes. {more}")] * rows
    return {"responses": responses, "references": [KEY.replace("pbs", f"pbs {more}")] * rows}


def by_lists(scorer: Scorer, batch: Batch) -> Any:
    scores = scorer.score(batch["responses"], batch["references"])
    return scores.rewards.tobytes(), scores.reason_codes.tobytes(), scores.measures.tobytes()


def by_json(scorer: Scorer, batch: Batch) -> Any:
    reply = answer_json(Body(orjson.dumps(batch), b"", JSON, False), scorer, LIMITS, StageTimes())
    assert reply is not None
    return reply.body


def by_fast_path(scorer: Scorer, batch: Batch) -> Any:
    reply = FastPath(scorer, 1 << 14, LIMITS).answer(orjson.dumps(batch), StageTimes())
    assert reply is not None
    return reply.body


def main(way: str, rows: int) -> None:
    score = {"lists": by_lists, "json": by_json, "fast": by_fast_path}[way]
    scorer = Scorer(threads=1)
    short, between, long = batch_of(1, 0), batch_of(rows, 100), batch_of(rows, 300)
    expected = {id(batch): score(scorer, batch) for batch in (short, between, long)}
    failures = 0
    with guarded_memory() as memory:
        while True:
            forget()
            assert score(scorer, short) == expected[id(short)]
            memory.fail(failures)
            try:
                assert score(scorer, long) == expected[id(long)]
                break
            except MemoryError:
                failures += 1
            memory.fail(None)
            for batch in (between, long):
                assert score(scorer, batch) == expected[id(batch)]
            memory.check()
    print(failures)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
