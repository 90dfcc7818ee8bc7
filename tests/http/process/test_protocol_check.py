"""A server that fails to transfer a long body never becomes ready: connections use private names of uvicorn."""

from __future__ import annotations

from dataclasses import replace

import pytest
import uvicorn

from assay.service.config import ServerSettings
from assay.service.http.process.connection import GuardedProtocol
from assay.service.http.process.protocol_check import BODY, check_protocol
from assay.service.http.process.server import uvicorn_config
from assay.service.scoring.self_test import SelfTestFailed
from tests.http.request.test_readiness import wait_for_failure
from tests.http.samples import problem_of
from tests.servers import launched

BEFORE_0_42 = """
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
init = RequestResponseCycle.__init__
def with_bytes(self, *args, **kwargs):
    init(self, *args, **kwargs)
    self.body = b""
RequestResponseCycle.__init__ = with_bytes
"""
"""Makes the body buffer immutable bytes, as in uvicorn before 0.42."""


def protocol():
    return uvicorn_config(None, ServerSettings()).http


def test_the_server_transfers_a_long_body():
    assert len(BODY) > 1 << 16
    check_protocol(protocol())


def test_a_uvicorn_that_is_too_old_keeps_the_service_from_being_ready():
    with launched(before=BEFORE_0_42) as server, server.client() as client:
        assert "SelfTestFailed" in problem_of(wait_for_failure(client), 503)["detail"]
        problem_of(client.post("/v1/score", json={"references": ["x"], "responses": ["x" * 100_000]}), 503)
        assert f"uvicorn {uvicorn.__version__}: 0 bytes came back" in server.log


def loses_a_byte(self, body):
    GuardedProtocol.on_body(self, body[1:])


def turns_it_round(self, body):
    GuardedProtocol.on_body(self, body[::-1])


def raises(self, body):
    raise AttributeError("no such name in this uvicorn")


def collects_nothing(_self, _send):
    return None


@pytest.mark.parametrize(
    "changed",
    [{"on_body": loses_a_byte}, {"on_body": turns_it_round}, {"on_body": raises}, {"collect": collects_nothing}],
    ids=lambda changed: next(iter(changed.values())).__name__,
)
def test_whatever_spoils_a_body_is_found(changed):
    with pytest.raises(SelfTestFailed, match=f"uvicorn {uvicorn.__version__}"):
        check_protocol(type("Changed", (protocol(),), changed))


def test_existing_connections_do_not_keep_the_service_from_being_ready():
    """For example after a restart, when every trainer connects before the kernels are compiled."""
    full = type("Full", (protocol(),), {"guard": replace(protocol().guard, max_descriptor=0)})
    check_protocol(full)
