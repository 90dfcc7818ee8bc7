"""The asynchronous client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .batches import Entry, settle_entries
from .coalescing import AsyncCoalescer
from .errors import AssayError, Unavailable
from .exchange import GRACE_SECONDS, BaseClient, OutgoingRequest
from .replies import Reply, read_document, read_scores
from .requests import assemble_request, checked_reference, score_request
from .results import Score, Scores
from .retries import Send, Sleep, retry_steps
from .transport.asynchronous import AsyncTransport
from .transport.http11 import Fault

__all__ = ["AsyncClient"]


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

    def _after_fork(self) -> None:
        self._transport.abandon()
        super()._after_fork()

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
        outgoing = OutgoingRequest("POST", "/v1/score", request.body)
        return read_scores(await self._call(outgoing, await self._deadline(timeout)), request)

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
        return read_document(await self._call(OutgoingRequest("GET", "/v1/config"), await self._deadline(timeout)))

    async def wait_until_ready(self, timeout: float | None = None) -> None:
        """Wait until a service is ready to score; raise Unavailable. In mode "local", start it if needed."""
        read_document(await self._call(OutgoingRequest("GET", "/readyz"), await self._deadline(timeout)))

    async def close(self) -> None:
        """Close idle connections and release a local service. The client can still be used afterwards."""
        self._transport.close()
        self._release_local()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _deadline(self, timeout: float | None) -> float:
        """Return the deadline of a call that begins now; starting a local service does not count towards it."""
        if self._needs_local:
            await asyncio.to_thread(self._acquire_local, self.settings.start_timeout)
        return time.monotonic() + (self.settings.timeout if timeout is None else timeout)

    async def _call(self, outgoing: OutgoingRequest, deadline: float) -> Reply:
        """Send the request until a reply is final; raise Unavailable."""
        try:
            # Attempts have their own timeouts; this one ends a call that only waits for a connection.
            return await asyncio.wait_for(
                self._retry(outgoing, deadline), deadline - time.monotonic() + GRACE_SECONDS / 2
            )
        except asyncio.TimeoutError:
            raise Unavailable("no reward: no connection was free within the deadline") from None

    async def _retry(self, outgoing: OutgoingRequest, deadline: float) -> Reply:
        steps = retry_steps(self._endpoints, self.settings, deadline)
        outcome: Reply | Fault | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value
            if isinstance(step, Sleep):
                await asyncio.sleep(step.seconds)
                outcome = None
                continue
            outcome = await self._attempt(outgoing, step)
            if isinstance(outcome, Fault) and self._local is not None:
                await asyncio.to_thread(self._acquire_local, deadline - time.monotonic())

    async def _attempt(self, outgoing: OutgoingRequest, step: Send) -> Reply | Fault:
        head = outgoing.head(step.address, self.settings.api_key, step.seconds)
        try:
            reply = await self._transport.exchange(step.address, head, outgoing.body, step.seconds)
            return outgoing.check(reply, step.address)
        except Fault as fault:
            return fault

    async def _send_batch(self, entries: list[Entry], config: str) -> None:
        """Settle every entry; `config` holds their settings of the reward."""
        batches = settle_entries(entries)
        outcome: Scores | AssayError | None = None
        while True:
            try:
                batch = batches.send(outcome)  # type: ignore[arg-type]
            except StopIteration:
                return
            try:
                outcome = await self._score_entries(batch, config)
            except AssayError as error:
                outcome = error

    async def _score_entries(self, batch: list[Entry], config: str) -> Scores:
        texts, references = [entry.response for entry in batch], [entry.reference for entry in batch]
        request = assemble_request(texts, references, None, config, ("components",))
        deadline = max(entry.deadline for entry in batch)
        return read_scores(await self._call(OutgoingRequest("POST", "/v1/score", request.body), deadline), request)
