"""API keys: if any are configured, requests to the guarded routes must have one."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from threading import Event, Thread

from pydantic import SecretStr

from ...config import read_keys
from ..wire.problems import Problem
from .exchange import Exchange

__all__ = ["Keys"]

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
        if self._digests and not self._accepts(presented_key(exchange.header(b"authorization"))):
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


def presented_key(authorization: bytes) -> bytes:
    scheme, _, credentials = authorization.strip().partition(b" ")
    credentials = credentials.strip()
    if scheme.lower() == b"bearer":
        return credentials
    if scheme.lower() == b"basic":
        with suppress(binascii.Error):
            return base64.b64decode(credentials, validate=True).partition(b":")[2]
    return b""
