"""Parsing of base URLs: TCP, TLS or a Unix socket, and credentials in the URL."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field, replace
from functools import partial
from urllib.parse import SplitResult, unquote, urlsplit

from ..errors import invalid_setting

invalid_url = partial(invalid_setting, "base_url")
PORTS = {"http": 80, "https": 443}

ROUTES = re.compile(
    r"(?:/v1/(?:score|explain|evaluate|tasks|config)"
    r"|/compat/(?:openrlhf|slime|(?:eval-protocol|nemo-gym|roll)(?:/[a-z_]+)?)"
    r"|/openapi\.json|/livez|/readyz|/healthz|/v2/health/(?:live|ready))\Z"
)
"""Routes with which a base URL must not end. `/health` and `/docs` may: a proxy can serve Assay there."""


@dataclass(frozen=True)
class Address:
    """Address of a service. `str()` and `repr()` never contain a key."""

    host: str
    port: int
    tls: bool
    socket_path: str | None
    prefix: str
    """Path before every route, without a trailing slash."""
    authorization: str | None = field(repr=False, default=None)
    """Value of the Authorization header, if the URL contains credentials."""
    is_default: bool = field(compare=False, default=False)
    """Whether nobody has named an address."""

    @property
    def described(self) -> str:
        """The address for messages: whoever has named none learns so."""
        return f"{self} (the default: ASSAY_URL is not set)" if self.is_default else str(self)

    @property
    def host_header(self) -> str:
        if self.socket_path is not None:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS["https" if self.tls else "http"] else f"{host}:{self.port}"

    def __str__(self) -> str:
        if self.socket_path is not None:
            return f"unix:{self.socket_path}{self.prefix}"
        return f"{'https' if self.tls else 'http'}://{self.host_header}{self.prefix}"


def address_of(url: str) -> Address:
    """Parse `http://…`, `https://…`, `http+unix://%2F…` or `unix:/…`; raise InvalidSetting, without credentials."""
    if url.startswith("unix:"):
        return unix_address(url.removeprefix("unix:").removeprefix("//"))
    try:
        parts = urlsplit(url.strip())
        port = parts.port if parts.scheme in PORTS else None
        (parts.hostname or "").encode("idna")  # as name resolution does
    except ValueError:
        raise invalid_url("not a valid URL") from None
    if parts.query or parts.fragment:
        raise invalid_url("a base URL has no query: pass settings of the reward in `config`")
    authorization = basic_authorization(parts)
    prefix = parts.path.rstrip("/")
    if parts.scheme == "http+unix":
        path = unquote(parts.netloc.rpartition("@")[2])
        if not path.startswith("/"):
            raise invalid_url("http+unix:// needs the path of the socket, with its slashes encoded as %2F")
        return check_is_base(Address("", 0, False, path, prefix, authorization))
    if parts.scheme not in PORTS or not parts.hostname:
        raise invalid_url("must be http://HOST[:PORT], https://…, http+unix://… or unix:/PATH")
    port = port or PORTS[parts.scheme]
    return check_is_base(Address(parts.hostname, port, parts.scheme == "https", None, prefix, authorization))


def check_is_base(address: Address) -> Address:
    route = ROUTES.search(address.prefix)
    if route is None:
        return address
    base = replace(address, prefix=address.prefix[: route.start()].rstrip("/"))
    raise invalid_url(f"{route[0]} is a route of the service, which the client adds itself: use the base URL {base}")


def unix_address(path: str) -> Address:
    if not path:
        raise invalid_url("the path of the Unix socket is missing")
    return Address("", 0, False, path, "")


def basic_authorization(parts: SplitResult) -> str | None:
    """Return `any:KEY` of `http://any:KEY@host/` as Basic authentication, for trainers that accept only a URL."""
    if "@" not in parts.netloc:
        return None
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode("ascii")
