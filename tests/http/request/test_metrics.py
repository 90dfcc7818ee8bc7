"""/metrics: parsed by Prometheus' own parsers, with the right counts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from assay import ScoreSettings
from assay.kernels.rules import REASONS
from tests.http.process.watching import samples_of, value_of
from tests.http.samples import PERFECT, REFERENCE, REQUEST, REWARDS
from tests.servers import ready


@pytest.fixture(scope="module")
def fresh():
    """Start a server whose counters only the tests of this module change; `test_counts` is the first."""
    with ready() as server, server.client() as client:
        yield client


def test_counts(fresh):
    for _ in range(3):
        fresh.post("/v1/score/", json=REQUEST)
    fresh.post("/v1/score", json={"references": [REFERENCE], "responses": [PERFECT]})
    fresh.post("/v1/score", json={"references": [REFERENCE], "responses": []})
    fresh.post("/v1/score", json={"references": ["x"], "responses": [PERFECT]})
    fresh.post("/v1/score", content=b"{")
    fresh.get("/secret/path/of/a/client")
    found = samples_of(fresh)
    value = partial(value_of, found)
    requests = "assay_request_duration_seconds_count"
    assert value(requests, route="/v1/score", code="200") == 5
    assert value(requests, route="/v1/score", code="422") == 1
    assert value(requests, route="/v1/score", code="400") == 1
    assert value(requests, route="unmatched", code="404") == 1
    plain = {"run": "unnamed", "task": "score"}
    assert value("assay_responses_total", **plain, reason="ok") == 7
    assert value("assay_responses_total", **plain, reason="missing_sections") == 3
    assert {dict(labels)["reason"] for name, labels in found if name == "assay_responses_total"} == set(REASONS)
    assert value("assay_reward_count", **plain) == 10
    assert value("assay_reward_sum", **plain) == pytest.approx(3 * sum(REWARDS) + 1)
    assert value("assay_reward_bucket", **plain, le="0.0") == 3
    assert value("assay_reward_bucket", **plain, le="0.4") == 6
    assert value("assay_reward_bucket", **plain, le="1.0") == value("assay_reward_bucket", **plain, le="+Inf") == 10
    assert value("assay_batch_responses_count") == 5
    assert value("assay_batch_responses_sum") == 10
    for stage in ("decode", "score", "encode", "queue"):
        assert value("assay_stage_duration_seconds_count", stage=stage) == 5
    assert value("assay_ready") == 1
    assert value("assay_draining") == 0
    assert value("assay_compiled_signatures") > 0
    assert value("assay_batches_unfinished") == 0
    build = next(dict(labels) for name, labels in found if name == "assay_build_info")
    assert build.keys() == {"version", "config_id", "rules_version"}
    assert build["config_id"] == ScoreSettings().config_id
    assert not any("secret" in str(labels) for _, labels in found)


OPEN = "application/openmetrics-text"


ACCEPT = [
    (OPEN, True),
    (f'{OPEN} ; Version="1.0.0" ; charset=utf-8;q=0.5', True),
    (f"text/html, {OPEN};version=1.0.0;escaping=allow-utf-8;q=0.6,*/*;q=0.1", True),
    (f"{OPEN};version=abc, {OPEN.upper()};version=1.0.0", True),
    (f"{OPEN};version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", False),
    (f"{OPEN};version=1.0.0;version=2.0.0", False),
    (f"{OPEN};version=1.0.0\xe9", False),
    (f"{OPEN};version=99999999999999999999.0.0", False),
    (f"{OPEN}x", False),
    ("", False),
    (";;;,,,===", False),
    (",".join([f"{OPEN};version=x"] * 500), False),
]


def test_no_accept_header_is_an_error(client):
    def is_wrong(case: tuple[str, bool]) -> bool:
        accept, is_openmetrics = case
        reply = client.get("/metrics", headers={"accept": accept.encode("latin-1")})
        expected = "application/openmetrics-text; version=1.0.0" if is_openmetrics else "text/plain; version=0.0.4"
        right = reply.status_code == 200 and reply.headers["content-type"].startswith(expected)
        return not right or reply.text.endswith("# EOF\n") != is_openmetrics

    with ThreadPoolExecutor(len(ACCEPT)) as pool:  # at the same time, so that they share a rendering
        assert [case[0][:100] for case, wrong in zip(ACCEPT, pool.map(is_wrong, ACCEPT), strict=True) if wrong] == []
