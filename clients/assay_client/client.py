"""The synchronous and the asynchronous client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from .coalescing import GRACE_SECONDS, AsyncCoalescer, Entry, SyncCoalescer
from .errors import Unavailable
from .exchange import BaseClient
from .requests import checked_reference
from .results import Score, Scores
from .transport.asynchronous import AsyncTransport
from .transport.sync import SyncTransport, completed

__all__ = ["AsyncClient", "Client"]


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

    _transport: SyncTransport

    def _start(self) -> None:
        super()._start()
        self._transport = SyncTransport(self.settings.connect_timeout)
        self._coalescer = SyncCoalescer(self.settings.window, self.settings.max_batch, self._settle_batch)

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
        return completed(self._score(responses, references, reference_index, config, include, timeout, records))

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
        key = self.settings.merged(config), timeout
        content = checked_reference(response, reference, record)  # its own errors do not fail the batch
        future: Future[Score] = Future()
        entry = Entry(response, content, completed(self._deadline(timeout)), record, future)
        if self.settings.window > 0:
            self._coalescer.add(entry, key)
        else:
            completed(self._settle_batch([entry], key))
        try:
            return future.result(max(0.0, entry.deadline - time.monotonic()) + GRACE_SECONDS)
        except (FutureTimeoutError, TimeoutError):
            future.cancel()
            raise Unavailable("no reward: the batch of this call was not answered within its deadline") from None

    def config(self, timeout: float | None = None) -> dict[str, Any]:
        """Return the service's default configuration, its `config_id` and its limits (`GET /v1/config`)."""
        return completed(self._document("/v1/config", timeout))

    def wait_until_ready(self, timeout: float | None = None) -> None:
        """Wait until a service is ready to score; raise Unavailable. In mode "local", start it if needed."""
        completed(self._document("/readyz", timeout))

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
    settings, **given
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
        references: Sequence[str | Mapping[str, Any]],
        reference_index: Sequence[int] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        include: Iterable[str] = ("components",),
        timeout: float | None = None,
        records: Sequence[object] | None = None,
    ) -> Scores:
        """Score a batch of n responses in one request; parameters, result and errors are those of `Client.score`."""
        return await self._score(responses, references, reference_index, config, include, timeout, records)

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
        key = self.settings.merged(config), timeout
        content = checked_reference(response, reference, record)  # its own errors do not fail the batch
        future: asyncio.Future[Score] = asyncio.get_running_loop().create_future()
        entry = Entry(response, content, await self._deadline(timeout), record, future)
        if self.settings.window > 0:
            self._coalescer.add(entry, key)
        else:
            await self._settle_batch([entry], key)
        return await future

    async def config(self, timeout: float | None = None) -> dict[str, Any]:
        """Return the service's default configuration, its `config_id` and its limits (`GET /v1/config`)."""
        return await self._document("/v1/config", timeout)

    async def wait_until_ready(self, timeout: float | None = None) -> None:
        """Wait until a service is ready to score; raise Unavailable. In mode "local", start it if needed."""
        await self._document("/readyz", timeout)

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
