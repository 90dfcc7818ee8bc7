"""The synchronous and the asynchronous client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from .base_client import BaseClient, Reference
from .coalescing import GRACE_SECONDS, AsyncCoalescer, Entry, SyncCoalescer
from .errors import Unavailable
from .requests import checked_reference
from .results import Score, Scores
from .tasks import SCORE
from .transport.asynchronous import AsyncTransport
from .transport.sync import SyncTransport, completed

__all__ = ["AsyncClient", "Client"]


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

    _transport: SyncTransport

    def _start(self) -> None:
        super()._start()
        self._transport = SyncTransport(self.settings.connect_timeout)
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
            Each a text or `{"steps": [...]}`; for other tasks, also a record, or a boolean if the task asks for one.
        reference_index : sequence of int, optional
            The position of the reference of each response; optional if there is one reference or n.
        config : mapping, optional
            Settings of the reward that override the client's. With a list of tasks, options of other tasks than SCORE
            are under the task's name.
        include : iterable of str
            Columns to return besides the rewards: `components`, `advantages`.
        timeout : float, optional
            Seconds until the call ends, in place of the client's own.
        records : sequence, optional
            n names that errors repeat, for responses with a reference each.
        groups : sequence of str or int, optional
            The query of each response: advantages are within a group. By default a group is the responses with the same
            reference index.
        task : str or sequence of str, optional
            One of `REWARD_TASKS` for all responses, or one for each; SCORE by default.

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
        return completed(
            self._score(responses, references, reference_index, config, include, timeout, records, groups, task)
        )

    def score_one(
        self,
        response: str,
        reference: Reference,
        *,
        config: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        record: object = None,
        task: str | None = None,
    ) -> Score:
        """Score one response; concurrent calls of several threads share a request.

        `record` is a name that errors repeat. The other arguments and the errors are as for `score`. Calls that name
        their task, also SCORE, have `TASK_COMPONENTS`, and share requests whatever their tasks.
        """
        content = checked_reference(response, reference, task, record)  # its own errors do not fail the batch
        key = self._batch_key(config, task, timeout)
        future: Future[Score] = Future()
        entry = Entry(response, content, completed(self._deadline(timeout)), record, future, task or SCORE)
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
        return completed(self._request(route, body, timeout))

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

    _transport: AsyncTransport

    def _start(self) -> None:
        super()._start()
        self._transport = AsyncTransport(self.settings.connect_timeout, self.settings.max_connections)
        self._coalescer = AsyncCoalescer(self.settings.window, self.settings.max_batch, self._settle_batch)

    async def score(
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
        return await self._score(
            responses, references, reference_index, config, include, timeout, records, groups, task
        )

    async def score_one(
        self,
        response: str,
        reference: Reference,
        *,
        config: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        record: object = None,
        task: str | None = None,
    ) -> Score:
        """Score one response; concurrent calls in one event loop share a request. See `Client.score_one`."""
        content = checked_reference(response, reference, task, record)  # its own errors do not fail the batch
        key = self._batch_key(config, task, timeout)
        future: asyncio.Future[Score] = asyncio.get_running_loop().create_future()
        entry = Entry(response, content, await self._deadline(timeout), record, future, task or SCORE)
        if self.settings.window > 0:
            self._coalescer.add(entry, key)
        else:
            await self._settle_batch([entry], key)
        return await future

    async def request(
        self, route: str, body: Mapping[str, Any] | bytes | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Return the reply of any other route. See `Client.request`."""
        return await self._request(route, body, timeout)

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
