"""Which errors are retried, how often, how soon and where."""

from __future__ import annotations

import random
import socket
import time
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest

from assay_client import (
    BadReply,
    Client,
    InvalidRequest,
    ServiceError,
    TooLarge,
    Unauthorized,
    Unavailable,
    retries,
)
from assay_client import settings as settings_module
from assay_client.results import HttpReply
from assay_client.retries import Endpoints, reply_with_retries, retry_after
from assay_client.settings import ClientSettings
from assay_client.transport.addresses import address_of
from assay_client.transport.http11 import TransportFault
from assay_client.transport.waiting import completed
from tests.clients.fault_server import FaultServer, Request, answer, close, http, late, raw, reset, status, truncated

QUICK = {"backoff": 0.01, "max_backoff": 0.05, "timeout": 20}


@pytest.fixture
def refusing_url(refusing: tuple[str, int]) -> str:
    host, port = refusing
    return f"http://{host}:{port}"


TRANSIENT = {
    "reset": reset,
    "closed": close,
    "truncated": truncated,
    **{str(code): status(code) for code in (408, 429, 502, 503, 504)},
    "not HTTP": raw(b"SSH-2.0-OpenSSH\r\n\r\n"),
    "other id": raw(http(200, b"{}", {"X-Request-ID": "somebody-elses"})),
}


@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
def test_transient_errors_are_retried(face: Any, faults: FaultServer, fault: Any) -> None:
    faults.script = [fault] * 3
    assert face(base_url=faults.url, **QUICK).score(["abc"], ["r"]).rewards == [0.003]
    assert len(faults.requests) == 4
    assert all(float(request.headers["x-request-timeout"]) <= QUICK["timeout"] for request in faults.requests)
    assert len({request.headers["x-request-id"] for request in faults.requests}) == 1
    assert len({request.body for request in faults.requests}) == 1


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, InvalidRequest),
        (401, Unauthorized),
        (403, Unauthorized),
        (404, InvalidRequest),
        (413, TooLarge),
        (422, InvalidRequest),
        (500, ServiceError),
    ],
)
def test_other_errors_are_not_retried(face: Any, faults: FaultServer, code: int, error: type[Exception]) -> None:
    faults.script = [status(code)]
    with pytest.raises(error, match=rf"HTTP {code} from http://127\.0\.0\.1:\d+: detail of {code}"):
        face(base_url=faults.url, **QUICK).score(["abc"], ["r"])
    assert len(faults.requests) == 1


def test_retry_after_past_the_deadline_ends_the_call_at_once(face: Any, faults: FaultServer) -> None:
    faults.script = [status(429, Retry_After="60")]
    started = time.monotonic()
    with pytest.raises(Unavailable, match=r"60.* s, .*HTTP 429 detail of 429") as caught:
        face(base_url=faults.url, timeout=30).score(["abc"], ["r"])
    assert time.monotonic() - started < 15
    assert caught.value.attempts == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": formatdate(1_000_030, usegmt=True), "date": formatdate(1_000_000, usegmt=True)}, 30),
        ({"retry-after": formatdate(1_000_000, usegmt=True)}, 0),
        ({"retry-after": "soon"}, 0),
        ({"retry-after": "1.5"}, 0),
        ({}, 0),
    ],
)
def test_both_forms_of_retry_after(headers: dict[str, str], seconds: float) -> None:
    assert retry_after(HttpReply(503, headers, b"")) == seconds


def test_a_silent_service_is_replaced_by_another(face: Any, faults: FaultServer) -> None:
    faults.otherwise = late(30)
    with FaultServer() as other:
        client = face(base_url=[faults.url, other.url], attempt_timeout=2, **QUICK | {"max_backoff": 20})
        for _ in range(4):
            assert client.score(["abc"], ["r"]).rewards == [0.003]
    assert len(faults.requests) <= 1
    assert len(other.requests) == 4


def test_several_services_share_the_load_and_replace_each_other(
    face: Any, faults: FaultServer, refusing_url: str
) -> None:
    with FaultServer() as other:
        client = face(base_url=f"{faults.url}, {other.url},{refusing_url}", **QUICK)
        for _ in range(12):
            assert client.score(["abc"], ["r"]).rewards == [0.003]
        counts = len(faults.requests), len(other.requests)
        assert sum(counts) == 12
        assert min(counts) >= 4
    for _ in range(3):
        assert client.score(["abc"], ["r"]).rewards == [0.003]
    assert len(faults.requests) == counts[0] + 3


def test_connections_are_kept_alive_and_a_stale_one_is_not_a_failure(faults: FaultServer) -> None:
    def answer_and_close(connection: socket.socket, request: Request) -> bool:
        answer(connection, request)
        return False

    with Client(base_url=faults.url) as client:
        for _ in range(5):
            client.score(["abc"], ["r"])
    assert faults.connections == 1
    faults.otherwise = answer_and_close
    with Client(base_url=faults.url, timeout=30, backoff=30) as client:
        started = time.monotonic()
        for _ in range(5):
            assert client.score(["abc"], ["r"]).rewards == [0.003]
    assert time.monotonic() - started < 15


class Driven:
    """A call with these outcomes, on a clock that only sleeping advances: attempts, pauses, draws and the result."""

    def __init__(self, outcomes: list[Any], **settings: Any) -> None:
        self.attempts: list[float] = []
        self.pauses: list[float] = []
        self.draws: list[tuple[float, float]] = []
        self._outcomes = outcomes
        address = address_of("http://a")
        own = ClientSettings(addresses=(address,), **settings)
        call = reply_with_retries(
            Endpoints([address]), own, own.timeout, self._attempt, self._sleep, lambda: sum(self.pauses), self._uniform
        )
        try:
            self.result: HttpReply | Unavailable = completed(call)
        except Unavailable as error:
            self.result = error

    async def _attempt(self, address: Any, seconds: float) -> HttpReply:
        self.attempts.append(seconds)
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, TransportFault):
            raise outcome
        return outcome

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def _uniform(self, low: float, high: float) -> float:
        self.draws.append((low, high))
        return high


def test_delays_are_random_up_to_a_bound_that_doubles() -> None:
    call = Driven([TransportFault("x")] * 8 + [HttpReply(200, {}, b"")], backoff=0.1, max_backoff=2.0, timeout=100)
    assert call.draws == [(0.0, bound) for bound in (0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0)]
    assert call.pauses == pytest.approx([high for _, high in call.draws])
    assert isinstance(call.result, HttpReply)


def test_retry_after_is_the_least_delay() -> None:
    call = Driven([HttpReply(503, {"retry-after": "7"}, b""), HttpReply(200, {}, b"")], backoff=0.5, timeout=100)
    assert call.pauses == [7.5]


def test_attempts_end_by_the_deadline() -> None:
    call = Driven([TransportFault("x")] * 50, backoff=1, max_backoff=1, timeout=3.5, attempt_timeout=2)
    assert call.attempts[:6] == [2, 2, 1.5, 0.75, 0.375, 0.1875], "a delay takes at most half of the time that is left"
    assert isinstance(call.result, Unavailable)
    assert call.result.attempts == len(call.attempts) == 7
    assert "x (7 times)" in str(call.result)
    assert 3.5 - 2 * retries.LAST_SECONDS < sum(call.pauses) < 3.5


def test_calls_that_are_retried_are_logged_once(caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence until a deadline of two minutes would not say that the address is wrong."""
    monkeypatch.setattr(retries, "_warned_at", float("-inf"))
    monkeypatch.setattr(retries, "time", SimpleNamespace(monotonic=lambda: 0.0))
    for _ in range(2):
        call = Driven([TransportFault("connection refused")] * 200, timeout=1, backoff=0.01)
        assert isinstance(call.result, Unavailable)
        assert call.result.attempts > 2
    (warning,) = [record.message for record in caplog.records if record.name == "assay_client"]
    assert warning == "http://a: connection refused; retrying for up to 1 s"


@pytest.mark.parametrize("timeout", [0.6, 6.0, 120.0])
def test_no_call_gives_up_early(timeout: float) -> None:
    """A service that refuses at once is tried until the deadline, however long the delays are by then."""
    call = Driven([TransportFault("x")] * 200, timeout=timeout)
    assert timeout - 2 * retries.LAST_SECONDS < sum(call.pauses) < timeout
    assert len(call.attempts) < 40
    busy = Driven([HttpReply(503, {"retry-after": "5"}, b""), HttpReply(200, {}, b"")], timeout=6.0, backoff=4)
    assert busy.pauses == [5.5], "not before Retry-After, and not past the deadline"


def test_each_service_gets_a_share_of_the_time(face: Any, faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first hangs, whatever the timeout is, or its address drops packets."""
    monkeypatch.setattr(random, "randrange", lambda n: 0)
    faults.otherwise = late(30)
    with FaultServer() as other:
        client = face(base_url=[faults.url, other.url], timeout=4)
        assert client.score(["abc"], ["r"]).rewards == [0.003]
        assert client.score_one("abc", "r").reward == 0.003
    (share,) = [float(request.headers["x-request-timeout"]) for request in faults.requests]
    assert share <= 2
    assert len(Endpoints([address_of("http://a"), address_of("http://a:80")]).addresses) == 1, "named twice"


def test_a_share_is_of_what_is_left_for_the_services_that_failed_least() -> None:
    addresses = [address_of(f"http://host{k}") for k in range(3)]
    attempts: list[tuple[str, float]] = []
    clock = [0.0]

    async def attempt(address: Any, seconds: float) -> HttpReply:
        attempts.append((address.host, round(seconds, 6)))
        clock[0] += seconds
        raise TransportFault("no reply in time")

    async def sleep(seconds: float) -> None:
        clock[0] += seconds

    settings = ClientSettings(addresses=tuple(addresses), backoff=0.001, timeout=12)
    call = reply_with_retries(Endpoints(addresses), settings, 12, attempt, sleep, lambda: clock[0], lambda low, high: 0)
    with pytest.raises(Unavailable):
        completed(call)
    assert {host for host, _ in attempts} == {"host0", "host1", "host2"}
    assert [seconds for _, seconds in attempts] == [4, 4, 4]


PAGE = http(200, b"<html><title>Sign in</title></html>", {"Content-Type": "text/html"})
FOREIGN = {
    "page": (PAGE, BadReply, "invalid reply from {url}: it is an HTML page"),
    "proxy": (http(403, b"<html>Denied</html>"), Unauthorized, "HTTP 403 from {url}: an HTML page; .* proxy"),
    "gateway": (http(403, b'{"message": "Forbidden"}'), Unauthorized, "HTTP 403 from {url}: no details; .* proxy"),
    "redirect": (http(302, b"", {"Location": "/login"}), BadReply, "HTTP 302 from {url} is not a reply of an Assay"),
}


@pytest.mark.parametrize(("reply", "error", "message"), FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_reply_names_its_address(
    face: Any, faults: FaultServer, reply: Any, error: Any, message: str
) -> None:
    faults.otherwise = raw(reply)
    client = face(base_url=faults.url)
    for call in (lambda: client.score(["x"], ["r"]), lambda: client.score_one("x", "r"), client.config):
        with pytest.raises(error, match=message.format(url=faults.url)):
            call()


@pytest.mark.usefixtures("one_attempt")
def test_the_default_address_is_named_as_the_default(
    face: Any, refusing_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_module, "DEFAULT_URL", refusing_url)
    with pytest.raises(
        Unavailable, match=r"http://127\.0\.0\.1:\d+ \(the default: ASSAY_URL is not set\): connection refused"
    ):
        face().score(["x"], ["r"])
    with pytest.raises(Unavailable) as caught:
        face(base_url=settings_module.DEFAULT_URL).score(["x"], ["r"])
    assert "default" not in str(caught.value)


def test_only_a_few_stale_connections_are_retried_without_delay() -> None:
    call = Driven([TransportFault("x", stale=True)] * 4 + [HttpReply(200, {}, b"")], timeout=10)
    assert len(call.attempts) == 5
    assert len(call.pauses) == len(call.draws) == 1


def test_clients_start_with_different_services() -> None:
    addresses = [address_of(f"http://host{k}") for k in range(8)]
    random.seed(5)
    first = {Endpoints(addresses).in_order(0)[0] for _ in range(64)}
    assert len(first) > 4
