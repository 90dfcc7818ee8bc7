"""The synchronous and the asynchronous client."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from itertools import count
from math import isfinite
from numbers import Real
from typing import Any, NamedTuple

from .coalescing import GRACE_SECONDS, AsyncCoalescer, BatchKey, PendingCall, SyncCoalescer, settle_entries
from .errors import InvalidRequest, Unavailable, invalid_setting
from .local import LocalService, shared_local_service
from .requests import EncodedRequest, assemble_request, checked_reference, dumps, named_task, named_tasks, score_request
from .results import HttpReply, Score, ScoreReplies, Scores, error_of, read_document
from .retries import Endpoints, reply_with_retries
from .settings import MIXED, SETTINGS, ClientSettings
from .tasks import SCORE
from .transport.addresses import Address
from .transport.http11 import HttpExchange, TransportFault, request_head
from .transport.transports import AsyncTransport, Transport
from .transport.waiting import Blocking, completed

Reference = str | bool | Mapping[str, Any] | Sequence[Any]
"""Text; steps, alternatives, a label or a record of a task as a mapping or its JSON text; a list of alternatives; or a
boolean for a task that asks for one."""

_request_numbers = count(1)


class ClientCall(NamedTuple):
    method: str
    route: str
    body: bytes
    request_id: str
    deadline: float


class BaseClient:
    _transport: Transport

    def __init__(self, settings: ClientSettings | str | Sequence[str] | None = None, **arguments: Any) -> None:
        self.settings = resolve_settings(settings, arguments)
        self._start()

    def _start(self) -> None:
        self._endpoints = Endpoints(self.settings.addresses)
        self._local: LocalService | None = None
        self._local_lock = threading.Lock()
        _all_clients.add(self)

    def _after_fork(self) -> None:
        """Reset a forked child: connections, locks and the lease on a local service are the parent's."""
        self._transport.abandon()
        self._start()

    async def _sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def _acquire_local(self, seconds: float) -> None:
        self._acquire_local_blocking(seconds)

    async def _score(
        self,
        responses: Sequence[str],
        references: Sequence[Reference],
        reference_index: Sequence[int] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        include: Iterable[str] = ("components",),
        timeout: float | None = None,
        records: Sequence[object] | None = None,
        groups: Sequence[str | int] | None = None,
        task: str | Sequence[str] | None = None,
    ) -> Scores:
        """Score a batch of n responses in one request; parameters, result and errors are as for `Client.score`."""
        if task is None:
            task = named_tasks(references, reference_index, len(responses) if hasattr(responses, "__len__") else 0)
        merged = self.settings.merged(config, task if isinstance(task, str) else MIXED)
        request = score_request(responses, references, reference_index, merged, include, records, groups, task)
        return await self._scores(request, await self._deadline(timeout))

    async def _scores(
        self, request: EncodedRequest, deadline: float, receive: Callable[[int, Score], None] | None = None
    ) -> Scores:
        """Return the scores; `receive` gets position and score of the others while some responses are sent again."""
        replies = ScoreReplies(request, receive)
        request_id = new_request_id()

        async def attempt(address: Address, seconds: float) -> HttpReply:
            nonlocal request_id
            sent = ClientCall("POST", "/v1/score", replies.request.body, request_id, deadline)
            reply = await self._attempt(sent, address, seconds)
            missing = replies.add(reply) if reply.status == 200 else None
            if missing is not None:
                request_id = new_request_id()
                raise TransportFault(missing)
            return reply

        reply = await reply_with_retries(self._endpoints, self.settings, deadline, attempt, self._sleep)
        if replies.scores is None or reply.status != 200:
            raise error_of(reply, replies.request)
        return replies.scores

    async def _request(
        self, route: str, body: Mapping[str, Any] | bytes | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Return the reply of any other route. See `Client.request`."""
        method, sent = ("GET", b"") if body is None else ("POST", body if isinstance(body, bytes) else dumps(body))
        deadline = await self._deadline(timeout)
        attempt = partial(self._attempt, ClientCall(method, route, sent, new_request_id(), deadline))
        return read_document(await reply_with_retries(self._endpoints, self.settings, deadline, attempt, self._sleep))

    async def _deadline(self, timeout: float | None) -> float:
        """Return the deadline of a call that begins now; starting a local service does not count towards it."""
        if timeout is not None and not isinstance(timeout, Real):
            raise TypeError(f"timeout= must be a number of seconds, not {type(timeout).__name__}")
        if timeout is not None and not isfinite(timeout):
            raise invalid_setting("timeout", "must be a finite number")
        if self.settings.mode == "local" and self._local is None:
            await self._acquire_local(self.settings.start_timeout)
        return time.monotonic() + (self.settings.timeout if timeout is None else float(timeout))

    def _batch_key(
        self, config: Mapping[str, Any] | None, task: str | None, timeout: float | None, steps: bool
    ) -> BatchKey:
        """Return what a single call must share with others to be sent with them; raise InvalidSetting."""
        if task is None:
            return self.settings.merged(config), timeout, False, steps
        settings = {task: config} if config and task != SCORE else config
        return self.settings.merged(settings, MIXED), timeout, True, steps

    async def _settle_batch(self, entries: list[PendingCall], key: BatchKey) -> None:
        async def score(batch: list[PendingCall]) -> Scores:
            texts, references = [entry.response for entry in batch], [entry.reference for entry in batch]
            config, _, is_mixed, has_steps = key
            task = tuple(entry.task for entry in batch) if is_mixed else SCORE
            columns = ("components", "steps") if has_steps else ("components",)
            request = assemble_request(texts, references, None, config, columns, task=task)
            deadline = max(entry.deadline for entry in batch)
            return await self._scores(request, deadline, lambda k, row: batch[k].settle(row))

        await settle_entries(entries, score)

    async def _attempt(self, call: ClientCall, address: Address, seconds: float) -> HttpReply:
        headers = self._headers(call.request_id, address, seconds)
        head = request_head(call.method, address, call.route, headers, len(call.body))
        try:
            reply = await self._transport.exchange(HttpExchange(address, head, call.body, seconds, call.deadline))
            return checked_reply(reply._replace(origin=address.described), call.request_id, call.route)
        except TransportFault as fault:
            if fault.final:
                raise invalid_setting("base_url", f"{address.described}: {fault.detail}") from None
            if self._local is not None:
                await self._acquire_local(call.deadline - time.monotonic())
            raise

    def _headers(self, request_id: str, address: Address, seconds: float) -> dict[str, str]:
        """Return the headers of a request, with the key only for a service whose URL has no credentials."""
        headers = {"X-Request-ID": request_id, "X-Request-Timeout": f"{max(seconds, 0.001):.3f}"}
        if self.settings.run is not None:
            headers["X-Assay-Run"] = self.settings.run
        api_key = self.settings.api_key
        authorization = address.authorization or (api_key and f"Bearer {api_key}")
        return headers | {"Authorization": authorization} if authorization else headers

    def _acquire_local_blocking(self, seconds: float) -> None:
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
        self._transport.close()
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


def new_request_id() -> str:
    return f"{secrets.token_hex(6)}-{next(_request_numbers):x}"


def checked_reply(reply: HttpReply, request_id: str, route: str) -> HttpReply:
    """Return the reply; raise TransportFault if it answers another request, InvalidRequest if the route is missing."""
    if reply.headers.get("x-request-id", request_id) != request_id:
        raise TransportFault("the reply belongs to another request")
    if reply.status == 404:
        detail = f"no {route} of an Assay service there: is this its base URL (ASSAY_URL)?"
        message = f"{str(error_of(reply)).rstrip('.')}; {detail}"
        raise InvalidRequest(message, status=404, request_id=reply.request_id)
    return reply


def resolve_settings(first: Any, arguments: dict[str, Any]) -> ClientSettings:
    arguments = {name: value for name, value in arguments.items() if value is not None or name not in SETTINGS}
    if isinstance(first, ClientSettings):
        if arguments:
            raise TypeError(f"{', '.join(arguments)}: not allowed with a ClientSettings object")
        if first.mode == "remote" and not first.addresses:
            raise invalid_setting("addresses", "at least one is needed; ClientSettings.read() supplies the default")
        return first
    if first is not None:
        extra = [name for name in ("base_url", "uds") if name in arguments]
        if extra:
            raise TypeError(f"{extra[0]}=: not allowed with a positional address")
        arguments["base_url"] = first
    return ClientSettings.read(**arguments)


_all_clients: weakref.WeakSet[BaseClient] = weakref.WeakSet()


def _reset_after_fork() -> None:
    for client in list(_all_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


class Client(BaseClient):
    """Scores responses over HTTP; thread-safe, picklable, and usable after a fork.

    Parameters
    ----------
    settings : ClientSettings or str or sequence of str, optional
        Complete settings, or what `base_url` accepts: `Client("http://host:8000")`.
    **arguments
        Fields of `ClientSettings`, with `base_url` (one URL, several in a list or separated by commas, or `local`) and
        `uds` (path of a Unix socket) in place of `addresses`. The environment supplies missing ones.

    Raises
    ------
    InvalidSetting
        If a setting does not exist or has an invalid value.
    TypeError
        If an address is not a string, or if arguments contradict each other.
    """

    def _start(self) -> None:
        super()._start()
        self._transport = Transport(self.settings.connect_timeout, Blocking())
        self._coalescer = SyncCoalescer(self.settings.window, self.settings.max_batch, self._settle_batch)

    def score(
        self,
        responses: Sequence[str],
        references: Sequence[Reference],
        reference_index: Sequence[int] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        include: Iterable[str] = ("components",),
        timeout: float | None = None,
        records: Sequence[object] | None = None,
        groups: Sequence[str | int] | None = None,
        task: str | Sequence[str] | None = None,
    ) -> Scores:
        """Score a batch of n responses in one request.

        Parameters
        ----------
        responses : sequence of str
            The n responses.
        references : sequence of str, mapping or bool
            Each a text, `{"steps": [...]}`, or `{"any_of": [...]}` with 1 to 16 of these, of which the best counts, or
            just their list. For other tasks, a text, a record, or a boolean if the task asks for one. An object may be
            its JSON text, and a label, `{"task": ..., "reference": ...}`.
        reference_index : sequence of int, optional
            The position of the reference of each response; optional if there is one reference or n.
        config : mapping, optional
            Settings of the reward that override the client's. With a list of tasks, options of other tasks than SCORE
            are under the task's name.
        include : iterable of str
            Columns to return besides the rewards: `components`, `advantages`, `steps`.
        timeout : float, optional
            Seconds until the call ends, in place of the client's own.
        records : sequence, optional
            n names that errors repeat, for responses with a reference each.
        groups : sequence of str or int, optional
            The query of each response: advantages are within a group. By default a group is the responses with the same
            reference index.
        task : str or sequence of str, optional
            One of `REWARD_TASKS` for all responses, or one for each; by default SCORE, or what labels name.

        Returns
        -------
        Scores
            Columns of n entries, in the order of the responses. The components are `COMPONENTS` if all responses are
            scored as SCORE, otherwise `TASK_COMPONENTS`, 0 where a task lacks one.

        Raises
        ------
        InvalidRequest
            If the request cannot be scored; also its subclasses InvalidReference, InvalidSetting and TooLarge.
        Unauthorized, Unavailable, ServiceError, BadReply
            If the service gives no valid scores.
        """
        options: dict[str, Any] = {"config": config, "include": include, "timeout": timeout, "records": records}
        return completed(self._score(responses, references, reference_index, groups=groups, task=task, **options))

    def score_one(
        self,
        response: str,
        reference: Reference,
        *,
        config: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        record: object = None,
        task: str | None = None,
        steps: bool = False,
    ) -> Score:
        """Score one response; concurrent calls of several threads share a request.

        `record` is a name that errors repeat; with `steps=True` the score has the steps of the response. The other
        arguments and the errors are as for `score`. Calls that name their task, also SCORE, have `TASK_COMPONENTS`, and
        share requests whatever their tasks.
        """
        task = named_task(reference) if task is None else task
        content = checked_reference(response, reference, task, record)  # its own errors do not fail the batch
        key = self._batch_key(config, task, timeout, steps)
        future: Future[Score] = Future()
        entry = PendingCall(response, content, completed(self._deadline(timeout)), record, future, task or SCORE)
        if self.settings.window > 0:
            self._coalescer.add(entry, key)
        else:
            completed(self._settle_batch([entry], key))
        try:
            return future.result(max(0.0, entry.deadline - time.monotonic()) + GRACE_SECONDS)
        except (FutureTimeoutError, TimeoutError):
            future.cancel()
            raise Unavailable("no reward: the batch of this call was not answered within its deadline") from None

    def request(
        self, route: str, body: Mapping[str, Any] | bytes | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Return the reply of any other route, as in `client.request("/v1/evaluate", {"task": …, "records": […]})`.

        body: an object, or JSON that holds one, to be sent by POST; without it, the request is a GET. Deadline, retries
        and errors are as for `score`; also raises BadReply if the reply is not a JSON object.
        """
        return completed(self._request(route, body, timeout=timeout))

    def config(self, timeout: float | None = None) -> dict[str, Any]:
        """Return the service's default configuration, its `config_id` and its limits (`GET /v1/config`)."""
        return completed(self._request("/v1/config", timeout=timeout))

    def wait_until_ready(self, timeout: float | None = None) -> None:
        """Wait until a service is ready to score; raise Unavailable. In mode "local", start it if needed."""
        completed(self._request("/readyz", timeout=timeout))

    def close(self) -> None:
        """Close idle connections and release a local service. The client can still be used afterwards."""
        self._close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class AsyncClient(BaseClient):
    """Asynchronous `Client`; usable in successive event loops, and in several at once.

    Parameters
    ----------
    settings, **arguments
        As for `Client`, as are the errors.
    """

    def _start(self) -> None:
        super()._start()
        self._transport = AsyncTransport(self.settings.connect_timeout, self.settings.max_connections)
        self._coalescer = AsyncCoalescer(self.settings.window, self.settings.max_batch, self._settle_batch)

    score = BaseClient._score
    request = BaseClient._request

    async def score_one(
        self,
        response: str,
        reference: Reference,
        *,
        config: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        record: object = None,
        task: str | None = None,
        steps: bool = False,
    ) -> Score:
        """Score one response; concurrent calls in one event loop share a request. See `Client.score_one`."""
        task = named_task(reference) if task is None else task
        content = checked_reference(response, reference, task, record)  # its own errors do not fail the batch
        key = self._batch_key(config, task, timeout, steps)
        future: asyncio.Future[Score] = asyncio.get_running_loop().create_future()
        entry = PendingCall(response, content, await self._deadline(timeout), record, future, task or SCORE)
        if self.settings.window > 0:
            self._coalescer.add(entry, key)
        else:
            await self._settle_batch([entry], key)
        return await future

    async def config(self, timeout: float | None = None) -> dict[str, Any]:
        """Return the service's default configuration, its `config_id` and its limits (`GET /v1/config`)."""
        return await self._request("/v1/config", timeout=timeout)

    async def wait_until_ready(self, timeout: float | None = None) -> None:
        """Wait until a service is ready to score; raise Unavailable. In mode "local", start it if needed."""
        await self._request("/readyz", timeout=timeout)

    async def close(self) -> None:
        """Close idle connections and release a local service. The client can still be used afterwards."""
        self._close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _acquire_local(self, seconds: float) -> None:
        await asyncio.to_thread(self._acquire_local_blocking, seconds)
