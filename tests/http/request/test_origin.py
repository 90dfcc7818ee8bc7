"""Access: every program and the service's own page may post to loopback, no page of another site; keys of callers."""

from __future__ import annotations

import hmac
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from pydantic import SecretStr

from assay.service.config import ServerSettings
from assay.service.http.request.access import Keys, OriginCheck
from assay.service.wire.problems import Problem
from tests.http.samples import paths_with_bodies, problem_of

pytestmark = pytest.mark.attack

JSON = {"content-type": "application/json"}
HERE = {"host": "127.0.0.1:8000"}
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"
EVIL = {"origin": "https://evil.example"}


CROSS_SITE, NO_TYPE, WRONG_HOST = "cross-site", "unsupported-media-type", "wrong-host"


def objection(headers, method="POST", check=None, **settings):
    """Return the kind of problem that a request with these headers is; None if it is acceptable."""
    raw = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    try:
        (check or OriginCheck(ServerSettings(**settings))).check(method, raw)
    except Problem as problem:
        return problem.kind
    return None


HEADERS = {
    "a library": ({**HERE, **JSON, "user-agent": "python-requests/2.32"}, None),
    "a library, no type": ({**HERE, "user-agent": "python-httpx/0.28", "content-length": "9"}, None),
    "curl -d": ({**HERE, "content-type": "application/x-www-form-urlencoded", "user-agent": "curl/8.5.0"}, None),
    "a program of HTTP/1.0": ({**JSON}, None),
    "its own page": ({**HERE, **JSON, "origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}, None),
    "its own page, older browser": ({**HERE, **JSON, "origin": "http://127.0.0.1:8000", "user-agent": CHROME}, None),
    "its own page behind a proxy": (
        {**HERE, **JSON, "origin": "https://assay.example", "sec-fetch-site": "same-origin"},
        None,
    ),
    "typed by the user": ({**HERE, **JSON, "sec-fetch-site": "none"}, None),
    "another site": ({**HERE, **EVIL, "sec-fetch-site": "cross-site"}, CROSS_SITE),
    "another port of this machine": ({**HERE, **JSON, "sec-fetch-site": "same-site"}, CROSS_SITE),
    "an empty relation": ({**HERE, **JSON, "sec-fetch-site": ""}, CROSS_SITE),
    "another site, older browser": ({**HERE, **EVIL}, CROSS_SITE),
    "a sandboxed frame, a file": ({**HERE, **JSON, "origin": "null"}, CROSS_SITE),
    "an origin that begins alike": ({**HERE, **JSON, "origin": "http://127.0.0.1:8000.evil.example"}, CROSS_SITE),
    "a typeless blob, very old browser": ({**HERE, "user-agent": CHROME}, NO_TYPE),
    "an empty type, very old browser": ({**HERE, "user-agent": CHROME, "content-type": ""}, NO_TYPE),
    "a typeless blob of its own page": ({**HERE, "sec-fetch-site": "same-origin"}, NO_TYPE),
    "a page whose name points here": (
        {"host": "evil.example:8000", **JSON, "origin": "http://evil.example:8000", "sec-fetch-site": "same-origin"},
        WRONG_HOST,
    ),
}


def test_programs_and_pages():
    objections = {name: objection(headers) for name, (headers, _) in HEADERS.items()}
    assert objections == {name: expected for name, (_, expected) in HEADERS.items()}


HOSTS = {
    "127.0.0.1": True,
    "localhost": True,
    "LocalHost:8000": True,
    "localhost.:8000": True,
    "assay.localhost:8000": True,
    "[::1]": True,
    "10.0.0.5:8000": True,
    "": True,
    "evil.example": False,
    "127.0.0.1.evil.example": False,
    "localhost.evil.example:8000": False,
    "notlocalhost": False,
    "evil.example:80:127.0.0.1": False,
    "[evil.example]:8000": False,
    "\xe9": False,
}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_hosts(method):
    """Also for GET: a page whose name resolves to loopback could read the reply."""
    objections = {host: objection({"host": host, **JSON}, method) for host in HOSTS}
    assert objections == {host: None if is_ours else WRONG_HOST for host, is_ours in HOSTS.items()}


LISTENING = {
    **dict.fromkeys(["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST"], WRONG_HOST),
    **dict.fromkeys(["0.0.0.0", "::", "10.1.2.3"]),
}


def test_no_check_unless_on_loopback():
    """Any name may be valid elsewhere, and a page cannot reach a Unix socket."""
    foreign = {"host": "evil.example", **JSON, **EVIL}
    assert {host: objection(foreign, host=host) for host in LISTENING} == LISTENING
    assert objection(foreign, uds="/tmp/assay") is None


def test_the_cache_of_hosts_is_bounded_and_right():
    check = OriginCheck(ServerSettings())
    for _ in range(2):
        for port in range(200):
            assert objection({"host": f"localhost:{port}", **JSON}, check=check) is None
            assert objection({"host": f"evil.example:{port}", **JSON}, check=check) == WRONG_HOST
    assert len(check._accepted_hosts) <= 64


FOREIGN = {
    "another name": ({"host": "evil.example"}, 421),
    "another page": ({"origin": "http://evil.example"}, 403),
    "another page, by its browser": ({"sec-fetch-site": "cross-site", "origin": "null"}, 403),
    "a browser that names no type": ({"user-agent": "Mozilla/5.0", "content-type": ""}, 415),
}


@pytest.mark.parametrize("path", paths_with_bodies())
def test_no_route_answers_a_page_of_another_site(client, path):
    for headers, status in FOREIGN.values():
        reply = client.post(path, content=b"{}", headers={"content-type": "application/json", **headers})
        problem_of(reply, status)


def test_the_host_of_a_proxy_can_be_allowed():
    for host, is_allowed in (("assay.example", True), ("Other.example:443", True), ("third.example", False)):
        objection_found = objection({"host": host, **JSON}, allowed_hosts=["assay.example", "other.example"])
        assert objection_found == (None if is_allowed else WRONG_HOST)


KEYS = ["first-key", "second-key-that-is-longer", "third", "fourth-key"]


@pytest.mark.parametrize("sent", [*KEYS, "", "first-ke", "first-key0", "x" * 60_000])
def test_every_key_is_compared_by_its_digest_without_an_early_end(monkeypatch, sent):
    """Guess a key by time: its length, its first characters, its place in the list and the number of keys tell nothing.

    Each request has as many comparisons in constant time, of digests of the same length, as there are keys.
    """
    compare = hmac.compare_digest
    compared: list[tuple[int, int]] = []

    def counted(digest: bytes, other: bytes) -> bool:
        compared.append((len(digest), len(other)))
        return compare(digest, other)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    keys = Keys(SecretStr(key) for key in KEYS)
    with nullcontext() if sent in KEYS else pytest.raises(Problem, match="unauthorized"):
        keys.check(SimpleNamespace(raw_headers={b"authorization": b"Bearer " + sent.encode()}))  # type: ignore[arg-type]
    assert compared == [(32, 32)] * len(KEYS)
