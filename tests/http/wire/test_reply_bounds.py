"""The bound of a reply: no reply is longer, usual requests are far below their limit, hostile ones are above it."""

from __future__ import annotations

import io
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer
from assay.service.http.endpoints.score import answer_arrow, answer_json
from assay.service.http.request.paths import PendingAnswer
from assay.service.rewards.scoring import run_here
from assay.service.wire.json_codec import RequestLimits
from assay.service.wire.media_types import ARROW, JSON, Body
from assay.service.wire.problems import Problem
from assay.service.wire.reply_bounds import FREE_REPLY_BYTES, REPLY_BYTES
from assay.service.wire.stage_times import StageTimes
from tests.strategies import batches, examples, settings

LIMITS = RequestLimits(64 << 20, 65_536, 262_144, max_reply_bytes=64 << 20)
INCLUDE = ["components", "advantages", "steps"]
STEP = '{"action":"a","objects":[],"parameters":[]}'
WORDS = {"task": "lexical", "config": {"reward": "rouge_l"}, "references": [{"reference": "a b"}]}


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    return Scorer(threads=1)


def steps_of(n: int) -> str:
    """Return a response of n of the shortest steps."""
    key, prose = ("".join(f"Step {k}:{text}\n" for k in range(1, n + 1)) for text in (STEP, "a"))
    return f"<think></think><key>{key}</key><orc>{prose}</orc><note></note>"


def answered(scorer: Scorer, request: dict[str, Any]) -> tuple[int, int, int]:
    """Return the lengths of a request and of its reply, and the bound of the reply."""
    body, bounds = orjson.dumps(request), [0]
    answer = answer_json(Body(body, b"", JSON, False), scorer, LIMITS, StageTimes(), reserve=bounds.append)
    assert answer is not None
    if isinstance(answer, PendingAnswer):
        answer = answer.complete(run_here(answer.scoring.left))
    return len(body), len(answer.body), bounds[-1]


@given(
    batches(alternatives=True),
    st.lists(settings, max_size=3),
    st.lists(st.sampled_from(["components", "steps"]), unique=True),
)
@examples(40)
def test_no_reply_is_longer_than_its_bound(scorer, columns, configs, include):
    request = dict(zip(("responses", "references", "reference_index"), columns, strict=True)) | {"include": include}
    if configs:
        request["configs"] = [config | {"max_steps": 1024} for config in configs]
    length, reply, bound = answered(scorer, request)
    assert reply <= bound <= FREE_REPLY_BYTES + REPLY_BYTES * length


DENSE: dict[str, dict[str, Any]] = {
    "steps": {"references": ["Step 1:" + STEP], "responses": [steps_of(1024)] * 4, "configs": [{}] * 10},
    "responses": {"references": ["Step 1:" + STEP], "responses": [""] * 5_000, "groups": [0] * 5_000},
    "another task": WORDS | {"responses": ["a b"] * 1_000},
    "two tasks": {
        "task": [*["lexical"] * 500, *["score"] * 500],
        "config": {"lexical": {"reward": "rouge_l"}},
        "references": [{"reference": "a b"}, "Step 1:" + STEP],
        "reference_index": [*[0] * 500, *[1] * 500],
        "responses": [*["a b"] * 500, *[steps_of(2)] * 500],
    },
}


@pytest.mark.parametrize("name", DENSE)
def test_bodies_with_the_longest_replies(scorer, name):
    include = {"responses": ["components", "advantages"], "another task": ["components"]}.get(name, ["steps"])
    length, reply, bound = answered(scorer, DENSE[name] | {"include": include})
    assert reply <= bound <= FREE_REPLY_BYTES + REPLY_BYTES * length


def stream(columns: dict[str, Any], **options: Any) -> bytes:
    table, sink = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize("response", ["", steps_of(3)])
@pytest.mark.parametrize("options", [{}, {"compression": "lz4"}], ids=["plain", "compressed"])
def test_streams(scorer, response, options):
    references = pa.array(["Step 1:" + STEP] * 500).dictionary_encode()
    body, bounds = stream({"response": [response] * 500, "reference": references}, **options), [0]
    query = f"include={','.join(INCLUDE)}".encode()
    answer = answer_arrow(Body(body, b"", ARROW, False), query, scorer, LIMITS, StageTimes(), bounds.append)
    assert not isinstance(answer, PendingAnswer)
    assert len(answer.body) <= bounds[-1]


def test_usual_batches_are_far_below(scorer, batch, rollout_request):
    """A GRPO step with every column, and the configurations of Table 21 and as many as there may be."""
    step = orjson.loads(batch) | {"include": INCLUDE}
    length, reply, bound = answered(scorer, step)
    assert reply <= bound < REPLY_BYTES / 4 * length
    some = rollout_request(32, 8) | {"include": ["components"]}
    for number in (8, 64):
        assert answered(scorer, some | {"configs": [{"position_decay": 1 + k / 100} for k in range(number)]})


def many(response: str, rows: int, **fields: Any) -> dict[str, Any]:
    return {"references": ["Step 1:" + STEP], "responses": [response] * rows, "configs": [{}] * 64, **fields}


@pytest.mark.attack
@pytest.mark.parametrize(
    ("request_fields", "path"),
    [
        (many(steps_of(1024), 1, include=["steps"]), "configs"),
        (many(steps_of(1024), 18, include=["steps"]), "configs"),
        (many(steps_of(1024), 8, include=["steps"], configs=[{"think_prefilled": True}, {}] * 10), "configs"),
        (many("", 1_000, include=["components"]), "configs"),
        (WORDS | {"responses": [""] * 60_000, "include": ["components"]}, "include"),
    ],
    ids=["one response", "more than a mebibyte", "two readings", "empty responses", "another task"],
)
def test_a_reply_that_would_be_too_long_is_refused_before_it_is_computed(scorer, request_fields, path):
    bounds: list[int] = []
    body = Body(orjson.dumps(request_fields), b"", JSON, False)
    with pytest.raises(Problem) as raised:
        answer_json(body, scorer, LIMITS, StageTimes(), reserve=bounds.append)
    (issue,) = raised.value.issues
    assert (raised.value.kind, issue.path, issue.reason) == ("too-large", path, "reply_too_large")
    assert str(FREE_REPLY_BYTES + REPLY_BYTES * len(body.data)) in raised.value.detail
    assert not bounds


@pytest.mark.attack
def test_a_reply_beyond_the_work_bytes_is_refused(scorer):
    request = {"references": ["Step 1:" + STEP], "responses": [steps_of(1024)] * 20, "include": ["steps"]}
    small = RequestLimits(64 << 20, 65_536, 262_144, max_reply_bytes=1 << 20)
    with pytest.raises(Problem) as raised:
        answer_json(Body(orjson.dumps(request), b"", JSON, False), scorer, small, StageTimes())
    assert raised.value.detail.endswith(f"here {1 << 20}.")
