"""Protects a service on loopback from web pages of other sites (CSRF and DNS rebinding).

A browser sends any page's requests to 127.0.0.1 as well. A page cannot read the replies, but it can post blindly as
long as it needs no CORS preflight: without a Content-Type of JSON. And a page whose name resolves to 127.0.0.1 (DNS
rebinding) has the same origin as the service and can read and write; but its name is in `Host`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from ...config import ServerSettings
from ..wire.problems import Problem

__all__ = ["OriginCheck"]

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
