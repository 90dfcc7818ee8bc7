"""Keys that callers of the scoring routes must show, where any are configured."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
from collections.abc import Iterable
from threading import Event, Thread

from pydantic import SecretStr

from ...config import read_keys
from ..wire.problems import Problem
from .exchange import Exchange

__all__ = ["Keys"]

log = logging.getLogger("assay")

CHALLENGES = ((b"www-authenticate", b'Bearer realm="assay"'), (b"www-authenticate", b'Basic realm="assay"'))


class Keys:
    """The configured keys; without any, every caller is let through.

    Those of a file follow the file: it is read again when it changes, or when it is asked for. A key taken out of it is
    refused from then on.
    """

    def __init__(self, keys: Iterable[SecretStr], path: str | None = None) -> None:
        self._fixed = digests(keys)
        self._path = path
        self._stamp = stamp_of(path)
        self._known = self._fixed
        if path is not None:
            self._known += digests(read_keys(path))
        self._reader: Thread | None = None
        self._due = Event()
        self._asked = False

    def follow(self, asked: bool = False) -> None:
        """Have the file read again, if it is not what it was or where that is asked for.

        Returns at once: a file system that does not answer holds up one thread, and the keys stay what they are.
        """
        if self._path is None:
            return
        self._asked |= asked
        self._due.set()
        if self._reader is None:
            self._reader = Thread(target=self._read_when_due, name="keys", daemon=True)
            self._reader.start()

    def _read_when_due(self) -> None:
        while self._due.wait():
            self._due.clear()
            if self._asked:
                self._asked = False
                self.reload()
            else:
                self.refresh()

    def refresh(self) -> None:
        """Read the file again if it is not what it was."""
        if stamp_of(self._path) != self._stamp:
            self.reload()

    def reload(self) -> None:
        """Read the file again. One that cannot be read, or that holds no key, is logged and changes nothing."""
        if self._path is None:
            return
        self._stamp = stamp_of(self._path)
        try:
            self._known = self._fixed + digests(read_keys(self._path))
        except (OSError, ValueError) as error:
            log.error("the keys stay what they are: %s cannot be used (%s)", self._path, type(error).__name__)
        else:
            log.info("keys read again from %s, now %d", self._path, len(self._known))

    def check(self, exchange: Exchange) -> None:
        """Raise Problem `unauthorized` unless the request shows one of the keys."""
        if self._known and not self._knows(shown_key(exchange.header(b"authorization"))):
            detail = "This route needs a key, as a bearer token or as the password of Basic authentication."
            raise Problem("unauthorized", detail, headers=CHALLENGES)

    def _knows(self, shown: bytes) -> bool:
        """Compares with every key, by digests: in a time that tells neither where they differ nor how long they are."""
        digest = hashlib.sha256(shown).digest()
        known = [hmac.compare_digest(digest, key) for key in self._known]
        return any(known)


def digests(keys: Iterable[SecretStr]) -> tuple[bytes, ...]:
    return tuple(hashlib.sha256(key.get_secret_value().encode("ascii")).digest() for key in keys)


def stamp_of(path: str | None) -> tuple[int, int, int] | None:
    """What changes with the file's content, also where a link is turned to another file; None where there is none."""
    try:
        found = os.stat(path) if path is not None else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size) if found is not None else None


def shown_key(authorization: bytes) -> bytes:
    """The key in an Authorization header's value; empty where there is none."""
    scheme, _, credentials = authorization.strip().partition(b" ")
    credentials = credentials.strip()
    if scheme.lower() == b"bearer":
        return credentials
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(credentials, validate=True).partition(b":")[2]
        except binascii.Error:
            return b""
    return b""
