"""Shared parts of the synchronous and the asynchronous client: settings, fork handling, requests."""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from .errors import InvalidRequest
from .local import LocalService, shared_local_service
from .replies import Reply, error_of
from .retries import Endpoints
from .settings import ARGUMENT_NAMES, ClientSettings
from .transport.addresses import Address
from .transport.http11 import Fault, request_head

__all__ = ["BaseClient", "OutgoingRequest"]

GRACE_SECONDS = 0.25
"""Seconds after the deadline in which a batch may still report why it failed."""

_request_numbers = count(1)


class OutgoingRequest:
    """One request, which may be sent several times under the same id."""

    def __init__(self, method: str, route: str, body: bytes = b"") -> None:
        self.method = method
        self.route = route
        self.body = body
        self.request_id = f"{secrets.token_hex(6)}-{next(_request_numbers):x}"

    def head(self, address: Address, api_key: str | None, seconds: float) -> bytes:
        """Return the head of the request for this service, which is asked to reply within `seconds`.

        Credentials in a URL are sent to its service only; the key is for services whose URL has none.
        """
        headers = {"X-Request-ID": self.request_id, "X-Request-Timeout": f"{max(seconds, 0.001):.3f}"}
        authorization = address.authorization or (api_key and f"Bearer {api_key}")
        if authorization:
            headers["Authorization"] = authorization
        return request_head(self.method, address, self.route, headers, len(self.body))

    def check(self, reply: Reply, address: Address) -> Reply:
        """Return the reply; raise Fault if it belongs to another request, InvalidRequest if the route is missing."""
        if reply.headers.get("x-request-id", self.request_id) != self.request_id:
            raise Fault("the reply belongs to another request")
        if reply.status == 404:
            error = error_of(reply)
            detail = f"no {self.route} of an Assay service at {address}: is this its base URL (ASSAY_URL)?"
            raise InvalidRequest(f"{str(error).rstrip('.')}; {detail}", status=404, request_id=reply.request_id)
        return reply


class BaseClient:
    """Settings, the services in use, and the lease on a local service."""

    def __init__(self, settings: ClientSettings | str | Sequence[str] | None = None, **given: Any) -> None:
        self.settings = resolve_settings(settings, given)
        self._start()

    def _start(self) -> None:
        """Create the state that is private to this process."""
        self._endpoints = Endpoints(self.settings.addresses)
        self._local: LocalService | None = None
        self._local_lock = threading.Lock()
        _all_clients.add(self)

    def _after_fork(self) -> None:
        """Reset a forked child: connections, locks and the lease on a local service are the parent's."""
        self._start()

    @property
    def _needs_local(self) -> bool:
        return self.settings.mode == "local" and self._local is None

    def _acquire_local(self, seconds: float) -> None:
        """Acquire the service of mode "local", starting it if needed; blocks."""
        with self._local_lock:
            if self._local is not None:
                self._local.ensure(seconds)
                return
            local = shared_local_service(self.settings)
            try:
                self._endpoints = Endpoints([local.ensure(seconds)])
            except BaseException:
                local.release()
                raise
            self._local = local

    def _release_local(self) -> None:
        with self._local_lock:
            if self._local is not None:
                self._local.release()
                self._local = None

    def __getstate__(self) -> ClientSettings:
        return self.settings

    def __setstate__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._start()

    def __repr__(self) -> str:
        where = ", ".join(map(str, self.settings.addresses)) or "local"
        return f"{type(self).__name__}({where})"


def resolve_settings(first: Any, given: dict[str, Any]) -> ClientSettings:
    """Return the settings that these arguments of a client mean; raise TypeError or InvalidSetting."""
    given = {name: value for name, value in given.items() if value is not None or name not in ARGUMENT_NAMES}
    if isinstance(first, ClientSettings):
        if given:
            raise TypeError(f"{', '.join(given)}: not allowed with a ClientSettings object")
        return first
    if first is not None:
        extra = [name for name in ("base_url", "uds") if name in given]
        if extra:
            raise TypeError(f"{extra[0]}=: not allowed with a positional address")
        given["base_url"] = first
    url = given.get("base_url", "")
    several = isinstance(url, Iterable) and not isinstance(url, (str, bytes, Mapping))
    urls = list(url) if several else [url]
    for part in urls:
        if not isinstance(part, str):
            raise TypeError(f"base_url= must be a URL, a list of URLs or 'local', not {type(part).__name__}")
    if several:
        given["base_url"] = urls
    return ClientSettings.read(**given)


_all_clients: weakref.WeakSet[BaseClient] = weakref.WeakSet()


def _reset_after_fork() -> None:
    for client in list(_all_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
