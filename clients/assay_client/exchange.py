"""What the synchronous and the asynchronous client share: their settings, and how a request is put on the wire."""

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
from .settings import NAMES, ClientSettings
from .transport.addresses import Address
from .transport.http11 import Fault, request_head

__all__ = ["BaseClient", "Outgoing"]

GRACE = 0.25
"""Seconds past the deadline in which a batch may still say why it failed."""

_numbers = count(1)


class Outgoing:
    """One request that is to be answered once, however often it is sent."""

    def __init__(self, method: str, route: str, body: bytes = b"") -> None:
        self.method = method
        self.route = route
        self.body = body
        self.request_id = f"{secrets.token_hex(6)}-{next(_numbers):x}"

    def head(self, address: Address, api_key: str | None, seconds: float) -> bytes:
        """The request's head for this service, which need not work on it for longer than anybody waits.

        A URL's own credentials are meant for its service; the key is for those whose URL has none.
        """
        headers = {"X-Request-ID": self.request_id, "X-Request-Timeout": f"{max(seconds, 0.001):.3f}"}
        authorization = address.authorization or (api_key and f"Bearer {api_key}")
        if authorization:
            headers["Authorization"] = authorization
        return request_head(self.method, address, self.route, headers, len(self.body))

    def check(self, reply: Reply, address: Address) -> Reply:
        """The reply; raises Fault for one to another request, InvalidRequest where there is no such route."""
        if reply.headers.get("x-request-id", self.request_id) != self.request_id:
            raise Fault("a reply to another request came back")
        if reply.status == 404:
            error = error_of(reply)
            detail = f"there is no {self.route} of an Assay service at {address}: is this its base URL (ASSAY_URL)?"
            raise InvalidRequest(f"{str(error).rstrip('.')}; {detail}", status=404, request_id=reply.request_id)
        return reply


class BaseClient:
    """Settings, services in turn, and the hold on this machine's own service."""

    def __init__(self, settings: ClientSettings | str | Sequence[str] | None = None, **given: Any) -> None:
        self.settings = settings_of(settings, given)
        self._start()

    def _start(self) -> None:
        """Set up what belongs to this process alone."""
        self._endpoints = Endpoints(self.settings.addresses)
        self._local: LocalService | None = None
        self._holding = threading.Lock()
        _living.add(self)

    def _after_fork(self) -> None:
        """In a forked child: connections, locks and the hold on a local service are the parent's."""
        self._start()

    @property
    def _needs_local(self) -> bool:
        return self.settings.mode == "local" and self._local is None

    def _hold_local(self, seconds: float) -> None:
        """Mode "local": hold the service of this machine, starting it where it does not run. Blocks."""
        with self._holding:
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
        with self._holding:
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


def settings_of(first: Any, given: dict[str, Any]) -> ClientSettings:
    """The settings of a client that is made with these arguments; raises TypeError and InvalidSetting."""
    given = {name: value for name, value in given.items() if value is not None or name not in NAMES}
    if isinstance(first, ClientSettings):
        if given:
            raise TypeError(f"there are settings already: {', '.join(given)} cannot be given as well")
        return first
    if first is not None:
        twice = [name for name in ("base_url", "uds") if name in given]
        if twice:
            raise TypeError(f"there is an address already: {twice[0]}= cannot be given as well")
        given["base_url"] = first
    url = given.get("base_url", "")
    several = isinstance(url, Iterable) and not isinstance(url, (str, bytes, Mapping))
    urls = list(url) if several else [url]
    for part in urls:
        if not isinstance(part, str):
            raise TypeError(f"base_url= takes a URL, several in a list, or 'local': no {type(part).__name__}")
    if several:
        given["base_url"] = urls
    return ClientSettings.read(**given)


_living: weakref.WeakSet[BaseClient] = weakref.WeakSet()


def _start_anew() -> None:
    for client in list(_living):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
