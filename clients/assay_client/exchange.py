"""What both clients share: settings, the steps of their calls, fork handling, and mode "local"."""

from __future__ import annotations

import os
import secrets
import threading
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from .coalescing import Entry, settle_entries
from .errors import InvalidRequest
from .local import LocalService, shared_local_service
from .replies import Reply, error_of, read_document, read_scores
from .requests import ScoreRequest, assemble_request
from .results import Scores
from .retries import Endpoints, Sleep, Steps, retry_steps
from .settings import ARGUMENT_NAMES, ClientSettings
from .transport.addresses import Address
from .transport.asynchronous import AsyncTransport
from .transport.http11 import Exchange, Fault, request_head
from .transport.sync import SyncTransport

__all__ = ["AcquireLocal", "BaseClient"]

_request_numbers = count(1)


class AcquireLocal(NamedTuple):
    """Step of a call: acquire the service of mode "local" within `seconds`."""

    seconds: float


class BaseClient:
    """Settings, the services in use, and the lease on a local service."""

    _transport: SyncTransport | AsyncTransport

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
        self._transport.pool.abandon()
        _inherited.append(self._transport)  # else the garbage collector would end it through the parent's event loops
        self._start()

    def _score_steps(self, request: ScoreRequest, deadline: float) -> Steps[Scores]:
        return read_scores((yield from self._call_steps("POST", "/v1/score", deadline, request.body)), request)

    def _document_steps(self, route: str, deadline: float) -> Steps[dict[str, Any]]:
        return read_document((yield from self._call_steps("GET", route, deadline)))

    def _batch_steps(self, entries: list[Entry], config: str) -> Steps[None]:
        """Settle every entry; `config` holds their settings of the reward."""

        def score(batch: list[Entry]) -> Steps[Scores]:
            texts, references = [entry.response for entry in batch], [entry.reference for entry in batch]
            request = assemble_request(texts, references, None, config, ("components",))
            return self._score_steps(request, max(entry.deadline for entry in batch))

        return settle_entries(entries, score)

    def _call_steps(self, method: str, route: str, deadline: float, body: bytes = b"") -> Steps[Reply]:
        """Send a request, always under the same id, until a reply is final; raise Unavailable."""
        request_id = f"{secrets.token_hex(6)}-{next(_request_numbers):x}"
        retries = retry_steps(self._endpoints, self.settings, deadline)
        outcome: Reply | Fault | None = None
        while True:
            try:
                step = retries.send(outcome)
            except StopIteration as end:
                return end.value
            if isinstance(step, Sleep):
                outcome = yield step
                continue
            headers = self._headers(request_id, step.address, step.seconds)
            head = request_head(method, step.address, route, headers, len(body))
            try:
                reply = yield Exchange(step.address, head, body, step.seconds, deadline)
                outcome = checked_reply(reply, request_id, route, step.address)
            except Fault as fault:
                outcome = fault
                if self._local is not None:
                    yield AcquireLocal(deadline - time.monotonic())

    def _headers(self, request_id: str, address: Address, seconds: float) -> dict[str, str]:
        """Return the headers of a request to this service, which is asked to reply within `seconds`.

        Credentials in a URL are sent to its service only; the key is for services whose URL has none.
        """
        headers = {"X-Request-ID": request_id, "X-Request-Timeout": f"{max(seconds, 0.001):.3f}"}
        api_key = self.settings.api_key
        authorization = address.authorization or (api_key and f"Bearer {api_key}")
        return headers | {"Authorization": authorization} if authorization else headers

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

    def _close(self) -> None:
        """Close idle connections and release a local service."""
        self._transport.pool.close()
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


def checked_reply(reply: Reply, request_id: str, route: str, address: Address) -> Reply:
    """Return the reply; raise Fault if it belongs to another request, InvalidRequest if the route is missing."""
    if reply.headers.get("x-request-id", request_id) != request_id:
        raise Fault("the reply belongs to another request")
    if reply.status == 404:
        detail = f"no {route} of an Assay service at {address}: is this its base URL (ASSAY_URL)?"
        message = f"{str(error_of(reply)).rstrip('.')}; {detail}"
        raise InvalidRequest(message, status=404, request_id=reply.request_id)
    return reply


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
_inherited: list[object] = []


def _reset_after_fork() -> None:
    for client in list(_all_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
