"""Before the service is ready: trainers that would lose a reward wait, and get an error if the start fails."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from assay.service.http.app import create_app
from tests.http.samples import PERFECT, REFERENCE, problem_of
from tests.servers import running, wait_for

SAMPLE = {"prompt": "p", "response": PERFECT, "label": REFERENCE}
REQUESTS = {
    "/compat/slime": SAMPLE,
    "/compat/nemo-gym/seed_session": {},
    "/compat/nemo-gym/aggregate_metrics": {"verify_responses": []},
}


def test_requests_wait_for_a_service_that_starts():
    released = threading.Event()
    with running(create_app(warmup=released.wait)) as client, ThreadPoolExecutor(4) as pool:
        try:
            waiting = [pool.submit(client.post, path, json=body) for path, body in REQUESTS.items()]
            time.sleep(0.3)
            assert not any(one.done() for one in waiting)
            problem_of(client.get("/compat/nemo-gym"), 503)
            problem_of(client.post("/v1/score", json={}), 503)
            problem_of(client.post("/compat/slime", json=SAMPLE, headers={"x-request-timeout": "0.2"}), 503)
        finally:
            released.set()
        assert [one.result().status_code for one in waiting] == [200] * 3
        assert waiting[0].result().json()["reward"] == 1.0
        assert client.get("/compat/nemo-gym").status_code == 200


def test_no_request_waits_for_a_service_that_cannot_start():
    def broken() -> None:
        raise OSError("no kernels today")

    with running(create_app(warmup=broken)) as client:
        wait_for(client, "/readyz", 503)
        started = time.perf_counter()
        for path, body in REQUESTS.items():
            assert "OSError" in problem_of(client.post(path, json=body), 503)["detail"]
        assert time.perf_counter() - started < 10
