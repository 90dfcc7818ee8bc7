"""Access: keys of the API, and protection of a service on loopback from web pages of other sites.

A browser sends any page's requests to 127.0.0.1 as well. A page cannot read the replies, but it can post blindly as
long as it needs no CORS preflight: without a Content-Type of JSON. And a page whose name resolves to 127.0.0.1 (DNS
rebinding) has the same origin as the service and can read and write; but its name is in `Host`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from threading import Event, Thread

from pydantic import SecretStr

from ...config import ServerSettings, read_keys
from ...wire.problems import Problem
from .exchange import Exchange

log = logging.getLogger("assay")

CHALLENGES = ((b"www-authenticate", b'Bearer realm="assay"'), (b"www-authenticate", b'Basic realm="assay"'))


class Keys:
    """The configured keys; without any, every request is accepted. A key file is read again when it changes."""

    def __init__(self, keys: Iterable[SecretStr], path: str | None = None) -> None:
        self._fixed = digests(keys)
        self._path = path
        self._digests = self._fixed
        self._signature: tuple[int, int, int] | None = None
        if path is not None:
            self._signature = file_signature(path)
            self._digests += digests(read_keys(path))
        self._reader: Thread | None = None
        self._due = Event()

    def follow(self, force: bool = False) -> None:
        """Read the file again if it has changed, or with `force`, in a thread: a file system may hang."""
        if self._path is None:
            return
        if force:
            self._signature = None
        self._due.set()
        if self._reader is None:
            self._reader = Thread(target=self._read_when_due, name="keys", daemon=True)
            self._reader.start()

    def _read_when_due(self) -> None:
        while self._due.wait():
            self._due.clear()
            self.refresh()

    def refresh(self) -> None:
        """Read the file again if it has changed; if it is unreadable or has no key, log that and keep the keys."""
        assert self._path is not None
        signature = file_signature(self._path)
        if signature == self._signature:
            return
        self._signature = signature
        try:
            self._digests = self._fixed + digests(read_keys(self._path))
        except (OSError, ValueError) as error:
            log.error("keeping the current keys: %s cannot be used (%s)", self._path, type(error).__name__)
        else:
            log.info("keys reloaded from %s: now %d", self._path, len(self._digests))

    def check(self, exchange: Exchange) -> None:
        if self._digests and not self._accepts(key_in(exchange.raw_headers)):
            detail = "This route needs a key, as a bearer token or as the password of Basic authentication."
            raise Problem("unauthorized", detail, headers=CHALLENGES)

    def _accepts(self, presented: bytes) -> bool:
        """Compare with the digest of every key, in a time that is independent of the keys."""
        digest = hashlib.sha256(presented).digest()
        matches = [hmac.compare_digest(digest, accepted) for accepted in self._digests]
        return any(matches)


def digests(keys: Iterable[SecretStr]) -> tuple[bytes, ...]:
    return tuple(hashlib.sha256(key.get_secret_value().encode("ascii")).digest() for key in keys)


def file_signature(path: str) -> tuple[int, int, int]:
    """Return a value that changes with the file's content or a symlink's target; zeros if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_ino, status.st_size


def key_in(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the key of a request: of `Authorization`, else of the headers of ROLL and of eval-protocol."""
    for name in (b"authorization", b"xrl-authorization"):
        if name in headers:
            return presented_key(headers[name])
    return headers.get(b"x-api-key", b"").strip()


def presented_key(authorization: bytes) -> bytes:
    scheme, _, credentials = authorization.strip().partition(b" ")
    credentials = credentials.strip()
    if scheme.lower() == b"bearer":
        return credentials
    if scheme.lower() == b"basic":
        with suppress(binascii.Error):
            return base64.b64decode(credentials, validate=True).partition(b":")[2]
    return b""


HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing: other pages may link to the playground."""

OWN_SITES = frozenset({b"same-origin", b"none"})
"""`Sec-Fetch-Site` of requests from the service's own pages, and of addresses that the user typed."""

MAX_CACHED_HOSTS = 64

WRONG_HOST = (
    "This service listens on loopback, where `Host` must be localhost, an IP address, or one of `allowed_hosts`."
)


class OriginCheck:
    """The check of one service. Programs other than browsers are not affected: they send no `Origin`."""

    def __init__(self, settings: ServerSettings) -> None:
        self._on_loopback = not settings.uds and is_loopback(settings.host)
        self._own_hosts = {name.lower() for name in (settings.host, *settings.allowed_hosts)}
        self._accepted_hosts = {b"localhost", b"127.0.0.1"}

    def check(self, method: str, headers: Mapping[bytes, bytes]) -> None:
        """Raise Problem if a request with these headers (lower-case names) may be from a page of another site."""
        if not self._on_loopback:
            return
        host = headers.get(b"host")
        if host and host not in self._accepted_hosts:
            if not self._is_ours(host):
                raise Problem("wrong-host", WRONG_HOST)
            if len(self._accepted_hosts) < MAX_CACHED_HOSTS:
                self._accepted_hosts.add(host)
        if method in HARMLESS:
            return
        site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
        foreign_origin = site is None and origin is not None and origin.partition(b"://")[2] != host
        if foreign_origin or (site is not None and site not in OWN_SITES):
            raise Problem("cross-site", "This request was sent by a page of another site.")
        from_browser = site or origin or headers.get(b"user-agent", b"").startswith(b"Mozilla/")
        if from_browser and not headers.get(b"content-type"):
            raise Problem("unsupported-media-type", "A browser must send a Content-Type.")

    def _is_ours(self, host: bytes) -> bool:
        name = host_name(host.decode("latin-1").lower())
        return name in self._own_hosts or name.endswith(".localhost") or name == "localhost" or is_address(name)


def host_name(host: str) -> str:
    """Return the name or address in `name:port`, without the port, brackets and a trailing dot."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0].removesuffix(".") if ":" in host else host.removesuffix(".")


def is_address(name: str) -> bool:
    """Return True for an IP address, which DNS cannot redirect."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return True if only this machine can connect to a server on this host."""
    return host.lower() == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)
