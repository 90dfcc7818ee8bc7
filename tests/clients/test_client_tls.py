"""HTTPS, with a certificate created for the test."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay_client import InvalidRequest, InvalidSetting, Unavailable
from assay_client.transport.transports import tls_context
from tests.clients.fault_server import FaultServer, http, raw
from tests.servers import LiveServer

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to create a certificate")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost"]
    parts = [path.with_name("key.pem"), path.with_name("certificate.pem")]
    subprocess.run([*command, *names, "-keyout", str(parts[0]), "-out", str(parts[1])], check=True, capture_output=True)
    path.write_text("".join(part.read_text() for part in parts))
    return path


class TlsServer(FaultServer):
    """The fault server over TLS."""

    def __init__(self, certificate: Path) -> None:
        super().__init__()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self.url = self.url.replace("http://127.0.0.1", "https://localhost")

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            wrapped = self._context.wrap_socket(connection, server_side=True)
            with self._lock:
                self._open.add(wrapped)  # shut down instead of the original, which is detached
            super()._serve(wrapped)


@pytest.fixture
def guarded(certificate: Path) -> Iterator[TlsServer]:
    tls_context.cache_clear()
    with TlsServer(certificate) as server:
        yield server
    tls_context.cache_clear()


def test_https(face: Any, guarded: TlsServer, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_name("certificate.pem")))
    client = face(base_url=guarded.url, timeout=20)
    large = ["x" * 100_000] * 20
    assert client.score(["x", *large], ["r"]).rewards == [0.001, *[100.0] * 20]
    assert [score.reward for score in client.together([("x" * k, "r") for k in range(20)])] == [
        k / 1000 for k in range(20)
    ]


@pytest.mark.usefixtures("one_attempt")
def test_an_untrusted_certificate(face: Any, guarded: TlsServer) -> None:
    with pytest.raises(Unavailable, match="certificate is not trusted"):
        face(base_url=guarded.url).score(["x"], ["r"])
    assert not guarded.requests


class ClosingServer(FaultServer):
    """Receives a few bytes and closes."""

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.recv(1 << 16)


@pytest.mark.usefixtures("one_attempt")
def test_https_to_a_port_without_tls(face: Any, server: LiveServer) -> None:
    """The service replies in plain HTTP, which no retry would change; others only close the connection."""
    secure = server.url.replace("http:", "https:")
    client = face(base_url=secure)
    for call in (lambda: client.score(["x"], ["r"]), lambda: client.score_one("x", "r"), client.wait_until_ready):
        with pytest.raises(InvalidSetting, match=rf"base_url: {secure}: the port does not speak TLS: use http://"):
            call()
    with ClosingServer() as closing, pytest.raises(Unavailable, match="may not speak TLS"):
        face(base_url=closing.url.replace("http:", "https:")).score(["x"], ["r"])


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", InvalidSetting),
        (http(400, b"<center>The plain HTTP request was sent to HTTPS port</center>"), InvalidRequest),
    ],
    ids=["alert", "nginx"],
)
def test_http_to_a_port_with_tls(face: Any, faults: FaultServer, reply: bytes, error: type[Exception]) -> None:
    """Servers that report it; that of OpenSSL only closes the connection."""
    faults.otherwise = raw(reply)
    with pytest.raises(error, match=r"the port speaks TLS: use https:// instead"):
        face(base_url=faults.url).score(["x"], ["r"])
