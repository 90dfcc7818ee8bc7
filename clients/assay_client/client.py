"""The synchronous and the asynchronous client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from .coalescing import GRACE_SECONDS, AsyncCoalescer, Entry, SyncCoalescer
from .errors import Unavailable
from .exchange import AcquireLocal, BaseClient
from .requests import checked_reference, score_request
from .results import Score, Scores
from .retries import Sleep, Steps
from .transport.asynchronous import AsyncTransport
from .transport.http11 import Exchange
from .transport.sync import SyncTransport

__all__ = ["AsyncClient", "Client"]

T = TypeVar("T")


class Client(BaseClient):
    """Scores responses over HTTP; thread-safe, picklable, and usable after a fork.

    Parameters
    ----------
    settings : ClientSettings or str or sequence of str, optional
        Complete settings, or what `base_url` accepts: `Client("http://host:8000")`.
    **given
        Fields of `ClientSettings`, with `base_url` (one URL, several in a list or separated by commas, or `local`) and
        `uds` (path of a Unix socket) in place of `addresses`. The environment supplies those that are not given.

    Raises
    ------
    InvalidSetting
        If a setting does not exist or has an invalid value.
    TypeError
        If an address is not a string, or if arguments contradict each other.
    """

    def _start(self) -> None:
        super()._start()
        self._transport = SyncTransport(self.settings.connect_timeout)
        self._coalescer = SyncCoalescer(self.settings.window, self.settings.max_batch, self._send_batch)

    def score(
        self,
        responses: Sequence[str],
        references: Sequence[str | Mapping[str, Any]],
        reference_index: Sequence[int] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        include: Iterable[str] = ("components",),
        timeout: float | None = None,
        records: Sequence[object] | None = None,
    ) -> Scores:
        """Score a batch of n responses in one request.

        Parameters
        ----------
        responses : sequence of str
            The n responses.
        references : sequence of str or mapping
            Each a text or `{"steps": [...]}`.
        reference_index : sequence of int, optional
            The position of the reference of each response; optional if there is one reference or n.
        config : mapping, optional
            Settings of the reward that override those of the client.
        include : iterable of str
            Columns to return besides the rewards: `components`, `advantages`.
        timeout : float, optional
            Seconds until the call ends, in place of the client's own.
        records : sequence, optional
            n names that errors repeat, for responses with a reference each.

        Returns
        -------
        Scores
            Columns of n entries, in the order of the responses.

        Raises
        ------
        InvalidRequest
            If the request cannot be scored; also its subclasses InvalidReference, InvalidSetting and TooLarge.
        Unauthorized, Unavailable, ServiceError, BadReply
            If the service gives no valid scores.
        """
        request = score_request(responses, references, reference_index, self.settings.merged(config), include, records)
        return self._run(self._score_steps(request, self._deadline(timeout)))

    def score_one(
        self,
        response: str,
        reference: str | Mapping[str, Any],
        *,
        config: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        record: object = None,
    ) -> Score:
        """Score one response; concurrent calls of several threads share a request.

        `record` is a name that errors repeat. The other arguments and the errors are those of `score`.
        """
        key = self.settings.merged(config)
        content = checked_reference(response, reference, record)  # its own errors do not fail the batch
        future: Future[Score] = Future()
        entry = Entry(response, content, self._deadline(timeout), record, future)
        if self.settings.window > 0:
            self._coalescer.add(entry, (key, timeout))  # the first call waits for the others: their timeouts must agree
        else:
            self._send_batch([entry], (key, timeout))
        try:
            return future.result(max(0.0, entry.deadline - time.monotonic()) + GRACE_SECONDS)
        except (FutureTimeoutError, TimeoutError):
            future.cancel()
            raise Unavailable("no reward: the batch of this call was not answered within its deadline") from None

    def config(self, timeout: float | None = None) -> dict[str, Any]:
        """Return the service's default configuration, its `config_id` and its limits (`GET /v1/config`)."""
        return self._run(self._document_steps("/v1/config", self._deadline(timeout)))

    def wait_until_ready(self, timeout: float | None = None) -> None:
        """Wait until a service is ready to score; raise Unavailable. In mode "local", start it if needed."""
        self._run(self._document_steps("/readyz", self._deadline(timeout)))

    def close(self) -> None:
        """Close idle connections and release a local service. The client can still be used afterwards."""
        self._close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _deadline(self, timeout: float | None) -> float:
        """Return the deadline of a call that begins now; starting a local service does not count towards it."""
        if self._needs_local:
            self._acquire_local(self.settings.start_timeout)
        return time.monotonic() + (self.settings.timeout if timeout is None else timeout)

    def _send_batch(self, entries: list[Entry], key: tuple[str, float | None]) -> None:
        """Settle every entry; `key` holds their settings of the reward and their timeout."""
        self._run(self._batch_steps(entries, key[0]))

    def _run(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                try:
                    outcome = self._perform(step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(outcome)
        except StopIteration as end:
            return end.value

    def _perform(self, step: Exchange | Sleep | AcquireLocal) -> Any:
        if isinstance(step, Exchange):
            return self._transport.exchange(step)
        if isinstance(step, Sleep):
            return time.sleep(step.seconds)
        return self._acquire_local(step.seconds)


class AsyncClient(BaseClient):
    """Asynchronous `Client`; usable in successive event loops, and in several at once.

    Parameters
    ----------
    settings, **given
        As for `Client`, as are the errors.
    """

    def _start(self) -> None:
        super()._start()
        self._transport = AsyncTransport(self.settings.connect_timeout, self.settings.max_connections)
        self._coalescer = AsyncCoalescer(self.settings.window, self.settings.max_batch, self._send_batch)

    async def score(
        self,
        responses: Sequence[str],
        references: Sequence[str | Mapping[str, Any]],
        reference_index: Sequence[int] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        include: Iterable[str] = ("components",),
        timeout: float | None = None,
        records: Sequence[object] | None = None,
    ) -> Scores:
        """Score a batch of n responses in one request.

        Parameters and errors are those of `Client.score`.

        Returns
        -------
        Scores
            Columns of n entries, in the order of the responses.
        """
        request = score_request(responses, references, reference_index, self.settings.merged(config), include, records)
        return await self._run(self._score_steps(request, await self._deadline(timeout)))

    async def score_one(
        self,
        response: str,
        reference: str | Mapping[str, Any],
        *,
        config: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        record: object = None,
    ) -> Score:
        """Score one response; concurrent calls in one event loop share a request. See `Client.score_one`."""
        key = self.settings.merged(config)
        content = checked_reference(response, reference, record)  # its own errors do not fail the batch
        future: asyncio.Future[Score] = asyncio.get_running_loop().create_future()
        entry = Entry(response, content, await self._deadline(timeout), record, future)
        if self.settings.window > 0:
            self._coalescer.add(entry, key)  # which also enforces the deadline
        else:
            await self._send_batch([entry], key)
        return await future

    async def config(self, timeout: float | None = None) -> dict[str, Any]:
        """Return the service's default configuration, its `config_id` and its limits (`GET /v1/config`)."""
        return await self._run(self._document_steps("/v1/config", await self._deadline(timeout)))

    async def wait_until_ready(self, timeout: float | None = None) -> None:
        """Wait until a service is ready to score; raise Unavailable. In mode "local", start it if needed."""
        await self._run(self._document_steps("/readyz", await self._deadline(timeout)))

    async def close(self) -> None:
        """Close idle connections and release a local service. The client can still be used afterwards."""
        self._close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _deadline(self, timeout: float | None) -> float:
        """Return the deadline of a call that begins now; starting a local service does not count towards it."""
        if self._needs_local:
            await asyncio.to_thread(self._acquire_local, self.settings.start_timeout)
        return time.monotonic() + (self.settings.timeout if timeout is None else timeout)

    async def _send_batch(self, entries: list[Entry], config: str) -> None:
        """Settle every entry; `config` holds their settings of the reward."""
        await self._run(self._batch_steps(entries, config))

    async def _run(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                try:
                    outcome = await self._perform(step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(outcome)
        except StopIteration as end:
            return end.value

    async def _perform(self, step: Exchange | Sleep | AcquireLocal) -> Any:
        if isinstance(step, Exchange):
            return await self._transport.exchange(step)
        if isinstance(step, Sleep):
            return await asyncio.sleep(step.seconds)
        return await asyncio.to_thread(self._acquire_local, step.seconds)
