"""A failed allocation is 503 for the request that needs it, and for no other."""

from __future__ import annotations

import logging

import pytest

from assay.service.config import Config
from assay.service.http.app import create_app
from assay.service.scoring import text_columns as workspaces
from tests.http.samples import PERFECT, REFERENCE, REQUEST, problem_of
from tests.servers import running, wait_for

REQUESTS = {
    "on the event loop": REQUEST | {"config": {"order": "lcs"}},
    "in a thread": {"references": [REFERENCE], "responses": [PERFECT, "x" * 100_000]},
}


def refuse(*_: object) -> None:
    raise MemoryError


@pytest.mark.attack
@pytest.mark.parametrize("document", REQUESTS.values(), ids=REQUESTS)
def test_out_of_memory(monkeypatch, caplog, document):
    with running(create_app(Config())) as client:
        wait_for(client, "/readyz", 200)
        with monkeypatch.context() as refusing, caplog.at_level(logging.ERROR, "assay"):
            refusing.setattr(workspaces, "allocate_workspace", refuse)
            refusing.setattr(workspaces, "MAX_KEPT_TEXT", -1)  # so that no existing workspace suffices
            reply = client.post("/v1/score", json=document)
        assert problem_of(reply, 503)["type"].endswith("#problem-out-of-memory")
        assert int(reply.headers["retry-after"]) >= 1
        assert "MemoryError" in caplog.text
        assert client.post("/v1/score", json=document).json()["rewards"][0] == 1.0
