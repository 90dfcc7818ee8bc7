"""Base URLs of services: TCP, TLS or a Unix socket, with the key that a URL may carry."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field, replace
from urllib.parse import SplitResult, unquote, urlsplit

from ..errors import InvalidSetting, Issue, invalid

__all__ = ["Address", "address_of", "unix_address"]

PORTS = {"http": 80, "https": 443}

ROUTES = re.compile(
    r"/v1/(?:score|explain|evaluate|tasks|config)"
    r"|/compat/(?:openrlhf|slime|nemo-gym(?:/[a-z_]+)?)"
    r"|/openapi\.json|/livez|/readyz|/v2/health/(?:live|ready)"
)
"""Paths of the service with which no base URL ends. A proxy may well have it under `/health` or `/docs`."""


@dataclass(frozen=True)
class Address:
    """Where a service listens. Its text never holds a key."""

    host: str
    port: int
    tls: bool
    socket_path: str | None
    prefix: str
    """Path before every route, without a slash at its end."""
    authorization: str | None = field(repr=False, default=None)
    """Value of the header, where the URL itself names a user and a key."""

    @property
    def host_header(self) -> str:
        """Value of the header Host."""
        if self.socket_path is not None:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS["https" if self.tls else "http"] else f"{host}:{self.port}"

    def __str__(self) -> str:
        if self.socket_path is not None:
            return f"unix:{self.socket_path}{self.prefix}"
        return f"{'https' if self.tls else 'http'}://{self.host_header}{self.prefix}"


def address_of(url: str) -> Address:
    """Read `http://…`, `https://…`, `http+unix://%2Frun%2Fassay.sock` or `unix:/run/assay.sock`.

    Raises InvalidSetting, which does not repeat what may be a key.
    """
    if url.startswith("unix:"):
        return unix_address(url.removeprefix("unix:").removeprefix("//"))
    try:
        parts = urlsplit(url.strip())
        port = parts.port if parts.scheme in PORTS else None
        (parts.hostname or "").encode("idna")  # as a look-up of the name does
    except ValueError:
        raise wrong("it cannot be read as a URL") from None
    if parts.query or parts.fragment:
        raise wrong("a base URL has no query: settings of the reward go into `config`")
    authorization = authorization_of(parts)
    prefix = parts.path.rstrip("/")
    if parts.scheme == "http+unix":
        path = unquote(parts.netloc.rpartition("@")[2])
        if not path.startswith("/"):
            raise wrong("http+unix:// needs the socket's path, its slashes written as %2F")
        return base(Address("", 0, False, path, prefix, authorization))
    if parts.scheme not in PORTS or not parts.hostname:
        raise wrong("http://HOST[:PORT], https://…, http+unix://… or unix:/PATH is needed")
    port = port or PORTS[parts.scheme]
    return base(Address(parts.hostname, port, parts.scheme == "https", None, prefix, authorization))


def base(address: Address) -> Address:
    """The address; raises InvalidSetting for that of one of the service's routes."""
    route = next((found for found in ROUTES.finditer(address.prefix) if found.end() == len(address.prefix)), None)
    if route is None:
        return address
    meant = replace(address, prefix=address.prefix[: route.start()].rstrip("/"))
    raise wrong(f"{route[0]} is a route of the service, which the client adds itself: the base {meant} is needed")


def unix_address(path: str) -> Address:
    """The service at this Unix socket; raises InvalidSetting for an empty path."""
    if not path:
        raise wrong("the path of the Unix socket is missing")
    return Address("", 0, False, path, "")


def authorization_of(parts: SplitResult) -> str | None:
    """`http://any:KEY@host/` as Basic authentication, so that a trainer that takes only a URL can carry a key."""
    user, at, _ = parts.netloc.rpartition("@")
    if not at:
        return None
    name, _, key = user.partition(":")
    pair = f"{unquote(name)}:{unquote(key)}".encode()
    return "Basic " + base64.b64encode(pair).decode("ascii")


def wrong(detail: str) -> InvalidSetting:
    error = invalid([Issue("base_url", "invalid_setting", detail)])
    assert isinstance(error, InvalidSetting)
    return error
