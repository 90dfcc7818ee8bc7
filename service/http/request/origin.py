"""Whether a request may come from a web page that has no business here, while the service listens on loopback alone.

A browser sends any page's requests to 127.0.0.1 as well. A page cannot read the replies, but it can post blindly, as
long as it needs no leave from the service: without a Content-Type of JSON. And a page whose own name is made to point
at 127.0.0.1 (DNS rebinding) is of one origin with the service, and reads and writes; but its name is in `Host`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import NamedTuple

from ...config import ServerSettings

__all__ = ["Objection", "OriginCheck"]

HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing: a link from another page to the playground is welcome."""

OWN_SITES = frozenset({b"same-origin", b"none"})
"""`Sec-Fetch-Site` of requests from our own pages, and of what the user has typed."""

MAX_REMEMBERED = 64


class Objection(NamedTuple):
    """Why a request is refused: a kind of problem, and a sentence that explains it."""

    kind: str
    detail: str


WRONG_HOST = Objection(
    "wrong-host",
    "This service listens on loopback, where `Host` must be localhost, an IP address, or one of `allowed_hosts`.",
)
CROSS_SITE = Objection("cross-site", "This request was sent by the page of another site.")
NO_TYPE = Objection("unsupported-media-type", "A browser must send a Content-Type.")


class OriginCheck:
    """The check of one service. Programs are not affected: they name the host that they call, and send no `Origin`."""

    def __init__(self, settings: ServerSettings) -> None:
        self._on_loopback = not settings.uds and is_loopback(settings.host)
        self._own_hosts = {name.lower() for name in (settings.host, *settings.allowed_hosts)}
        self._remembered = {b"localhost", b"127.0.0.1"}

    def objection(self, method: str, headers: Mapping[bytes, bytes]) -> Objection | None:
        """What speaks against a request with these headers (names in lower case), None if nothing does."""
        if not self._on_loopback:
            return None
        host = headers.get(b"host")
        if host and host not in self._remembered:
            if not self._is_ours(host):
                return WRONG_HOST
            if len(self._remembered) < MAX_REMEMBERED:
                self._remembered.add(host)
        if method in HARMLESS:
            return None
        site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
        if site is None:
            is_foreign = origin is not None and origin.partition(b"://")[2] != host
        else:
            is_foreign = site not in OWN_SITES
        if is_foreign:
            return CROSS_SITE
        if headers.get(b"content-type"):
            return None
        from_browser = site or origin or headers.get(b"user-agent", b"").startswith(b"Mozilla/")
        return NO_TYPE if from_browser else None

    def _is_ours(self, host: bytes) -> bool:
        """Whether a value of `Host` cannot be the name of somebody else's page."""
        name = host_name(host.decode("latin-1").lower())
        return name in self._own_hosts or name.endswith(".localhost") or name == "localhost" or is_address(name)


def host_name(host: str) -> str:
    """The name or address in `name:port`, without the port, brackets and a last dot."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0].removesuffix(".") if ":" in host else host.removesuffix(".")


def is_address(name: str) -> bool:
    """Whether a name is an IP address, which nobody can make point elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to what listens on this host."""
    return host.lower() == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)
