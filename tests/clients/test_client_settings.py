"""Sources of the client's settings, and errors of invalid ones."""

from __future__ import annotations

import json
import pickle
from collections import deque
from typing import Any

import numpy
import pytest

from assay.service.http.app import create_app
from assay_client import AsyncClient, Client, ClientSettings, InvalidRequest, InvalidSetting
from assay_client.settings import DEFAULT_URL
from assay_client.transport.addresses import address_of
from tests.clients.fault_server import FaultServer, status

KINDS = pytest.mark.parametrize("make", [Client, AsyncClient])


def test_arguments_over_environment_over_defaults() -> None:
    environ = {
        "ASSAY_URL": "http://a:1, https://b/prefix/",
        "ASSAY_API_KEY": "key",
        "ASSAY_CLIENT_CONFIG": '{"order": "lcs"}',
        "ASSAY_CLIENT_TIMEOUT": "7",
        "ASSAY_CLIENT_MAX_BATCH": "64",
        "ASSAY_CLIENT_WINDOW": "0",
    }
    read = ClientSettings.read(environ)
    assert [str(address) for address in read.addresses] == ["http://a:1", "https://b/prefix"]
    assert (read.api_key, read.timeout, read.max_batch, read.window) == ("key", 7, 64, 0)
    assert json.loads(read.config) == {"order": "lcs"}
    read = ClientSettings.read(environ, base_url="http://c", timeout=3, config={"total": "sum"}, api_key=None)
    assert [str(address) for address in read.addresses] == ["http://c"]
    assert (read.timeout, read.api_key) == (3, "key")
    assert json.loads(read.config) == {"total": "sum"}
    assert [str(address) for address in ClientSettings.read({}).addresses] == [DEFAULT_URL]


@pytest.mark.parametrize(
    ("environ", "given", "mode"),
    [
        ({}, {}, "remote"),
        ({"ASSAY_URL": "local"}, {}, "local"),
        ({"ASSAY_CLIENT_MODE": "local", "ASSAY_URL": "http://a"}, {}, "local"),
        ({"ASSAY_CLIENT_MODE": "local"}, {"base_url": "http://a"}, "remote"),
        ({"ASSAY_CLIENT_MODE": "local"}, {"uds": "/s"}, "remote"),
        ({"ASSAY_URL": "http://a"}, {"base_url": "local"}, "local"),
        ({"ASSAY_URL": "http://a"}, {"mode": "local"}, "local"),
    ],
)
def test_the_mode(environ: dict[str, str], given: dict[str, Any], mode: str) -> None:
    read = ClientSettings.read(environ, **given)
    assert read.mode == mode
    assert bool(read.addresses) is (mode == "remote")


@pytest.mark.parametrize(
    ("url", "shown", "path"),
    [
        ("http://[::1]:8000/", "http://[::1]:8000", None),
        ("https://host:8443/deep/er/", "https://host:8443/deep/er", None),
        ("unix:///run/a.sock", "unix:/run/a.sock", "/run/a.sock"),
        ("http+unix://%2Frun%2FA.sock/p", "unix:/run/A.sock/p", "/run/A.sock"),
    ],
)
def test_addresses(url: str, shown: str, path: str | None) -> None:
    address = address_of(url)
    assert (str(address), address.socket_path) == (shown, path)


@pytest.mark.parametrize(
    "url", ["", "host", "ftp://host", "http://", "http://host:x", "http://host?order=lcs", "http+unix://run/s", "unix:"]
)
def test_invalid_addresses(url: str) -> None:
    with pytest.raises(InvalidSetting, match=r"base_url|ASSAY_URL"):
        ClientSettings.read({}, base_url=[url] if url else "")


def test_every_invalid_setting_is_named_by_its_source() -> None:
    environ = {"ASSAY_URL": "nowhere", "ASSAY_CLIENT_TIMEOUT": "soon", "ASSAY_CLIENT_TIMEUOT": "1"}
    with pytest.raises(InvalidSetting) as caught:
        ClientSettings.read(environ, window=-1, max_batch=0.5, config="[]", attempt_timeout=float("nan"), nonsense=1)
    assert {issue.path for issue in caught.value.issues} == {
        *("ASSAY_URL", "ASSAY_CLIENT_TIMEOUT", "ASSAY_CLIENT_TIMEUOT"),
        *("window", "max_batch", "config", "attempt_timeout", "nonsense"),
    }
    for name in ("", " a", "a\n", "é", "x" * 101):
        with pytest.raises(InvalidSetting, match="run: invalid_setting"):
            ClientSettings.read({}, run=name)
    assert ClientSettings.read({}, run="x" * 100, max_batch=1).run == "x" * 100


@KINDS
def test_a_key_is_shown_nowhere(make: Any) -> None:
    client = make(base_url="http://user:hidden-one@host", api_key="hidden-two")
    shown = f"{client!r} {client.settings!r} {client.settings.addresses[0]} {client.settings.addresses[0]!r}"
    assert "host" in shown
    assert "hidden" not in shown
    with pytest.raises(InvalidSetting) as caught:
        make(base_url="http://user:hidden-one@host:port", api_key="hidden two")
    assert "hidden" not in str(caught.value)


def test_a_client_is_pickled_as_its_settings(faults: FaultServer) -> None:
    client = Client(base_url=faults.url, api_key="key", timeout=7, config={"order": "lcs"})
    client.score(["x"], ["r"])
    copy = pickle.loads(pickle.dumps(client))
    assert copy.settings == client.settings
    assert hash(copy.settings) == hash(client.settings)
    assert copy.score_one("xx", "r").reward == 0.002


@KINDS
def test_the_address_may_come_first(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make(["http://a", "http://b"], timeout=7).settings == make(base_url="http://a,http://b", timeout=7).settings
    assert make(deque(["http://a", "http://b"])).settings == make("http://a,http://b").settings
    assert make("local").settings.mode == "local"
    settings = ClientSettings.read(base_url="http://host")
    assert make(settings).settings is make(settings=settings).settings is settings
    monkeypatch.setenv("ASSAY_URL", "http://variable")
    assert [str(address) for address in make(None).settings.addresses] == ["http://variable"]


@KINDS
def test_arguments_of_a_wrong_type_are_named(make: Any) -> None:
    for address in (8000, b"http://host", {"base_url": "http://host"}, ["http://host", 8000]):
        with pytest.raises(TypeError, match="base_url="):
            make(address)
    wrong = {"timeout": [7], "max_batch": b"7", "api_key": 7, "mode": 1, "command": 7, "config": [1], "uds": 7}
    for name, value in wrong.items():
        with pytest.raises(TypeError, match=f"{name}= must be .*, not {type(value).__name__}"):
            make(**{name: value})
    assert make(timeout="7", max_batch=numpy.int64(7), window=numpy.float32(0.5)).settings.max_batch == 7


def test_arguments_of_a_call_of_a_wrong_type_are_named(face: Any, faults: FaultServer) -> None:
    client = face(base_url=faults.url)
    wrong = {"timeout": "7", "include": "components", "reference_index": ["0"], "records": 7}
    for name, value in [*wrong.items(), ("include", 7), ("reference_index", 7)]:
        with pytest.raises(TypeError, match=f"{name}= must be "):
            client.score(["x"], ["r"], **{name: value})
    for seconds in (float("nan"), float("inf")):  # every wait has an end
        with pytest.raises(InvalidSetting, match="timeout: must be a finite number"):
            client.score(["x"], ["r"], timeout=seconds)
        with pytest.raises(InvalidSetting, match="timeout: must be a finite number"):
            client.score_one("x", "r", timeout=seconds)
    assert not faults.requests
    assert client.score(["x"], ["r"], numpy.zeros(1, int), timeout=numpy.float32(9)).rewards == [0.001]


@KINDS
def test_arguments_that_contradict_each_other(make: Any) -> None:
    with pytest.raises(TypeError, match="base_url="):
        make("http://a", base_url="http://b")
    with pytest.raises(TypeError, match="uds="):
        make("http://a", uds="/run/assay.sock")
    with pytest.raises(TypeError, match="timeout"):
        make(ClientSettings.read({}), timeout=7)
    with pytest.raises(InvalidSetting, match="addresses: at least one is needed"):
        make(ClientSettings())
    with pytest.raises(InvalidSetting, match="tiemout"):
        make("http://a", tiemout=None)


def test_the_address_of_a_route_is_not_the_base() -> None:
    """Words that a proxy may use as a prefix are accepted; the error does not contain a key."""
    known = {getattr(route, "path", "/") for route in create_app().routes}
    words = {"/", "/docs", "/health", "/metrics", "/ping", "/version"}
    paths = {path for path in known - words if not path.startswith(("/playground/", "/docs/"))}
    assert {"/v1/score", "/compat/slime", "/compat/nemo-gym/verify"} <= paths
    for path in words:
        assert str(address_of(f"http://host/proxy{path}")) == f"http://host/proxy{path}".rstrip("/")
    for path in paths | {"/compat/nemo-gym", "/v1/score/", "//v1/score"}:
        with pytest.raises(InvalidSetting, match=r"ASSAY_URL.*http://host:8000/proxy") as caught:
            ClientSettings.read({"ASSAY_URL": f"http://any:secret@host:8000/proxy{path}"})
        assert "secret" not in str(caught.value)
    for url in ("http://host/v1", "http://host/docs/assay", "http://host/my-v1/scores", "http://host/compat"):
        assert str(address_of(url)) == url


def test_a_wrong_base(face: Any, faults: FaultServer) -> None:
    """Prefixes of proxies are not known in advance: the reply decides."""
    faults.otherwise = status(404)
    with pytest.raises(InvalidRequest, match=rf"HTTP 404 from {faults.url}/v1: .*/v1/score .*base URL"):
        face(base_url=f"{faults.url}/v1").score(["x"], ["r"])
    assert len(faults.requests) == 1
