"""The asynchronous client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .batches import Entry, deliver
from .coalescing import AsyncGatherer
from .errors import AssayError, Unavailable
from .exchange import GRACE, BaseClient, Outgoing
from .replies import Reply, read_document, read_scores
from .requests import assembled, score_request, sendable_reference
from .results import Score, Scores
from .retries import Send, Sleep, converse
from .transport.asynchronous import AsyncTransport
from .transport.http11 import Fault

__all__ = ["AsyncClient"]


class AsyncClient(BaseClient):
    """`Client` for event loops: the same settings, methods and errors, to be awaited.

    One object may be used in one event loop after another, and in several at once: nothing of it is bound to a loop
    for longer than that loop lives.
    """

    def _start(self) -> None:
        super()._start()
        self._transport = AsyncTransport(self.settings.connect_timeout, self.settings.max_connections)
        self._gatherer = AsyncGatherer(self.settings.window, self.settings.max_batch, self._send_batch)

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
        """Score a batch in one request; see `Client.score`."""
        request = score_request(responses, references, reference_index, self.settings.merged(config), include, records)
        outgoing = Outgoing("POST", "/v1/score", request.body)
        return read_scores(await self._call(outgoing, await self._end(timeout)), request)

    async def score_one(
        self,
        response: str,
        reference: str | Mapping[str, Any],
        *,
        config: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        record: object = None,
    ) -> Score:
        """Score one response; calls at the same time share a request. See `Client.score_one`."""
        key = self.settings.merged(config)
        content = sendable_reference(response, reference, record)  # a fault of its own stays its own
        future: asyncio.Future[Score] = asyncio.get_running_loop().create_future()
        entry = Entry(response, content, await self._end(timeout), record, future)
        if self.settings.window > 0:
            self._gatherer.add(entry, key)  # which also minds the deadline
        else:
            await self._send_batch([entry], key)
        return await future

    async def config(self, timeout: float | None = None) -> dict[str, Any]:
        """The service's effective default configuration, its `config_id` and its limits (`GET /v1/config`)."""
        return read_document(await self._call(Outgoing("GET", "/v1/config"), await self._end(timeout)))

    async def wait_until_ready(self, timeout: float | None = None) -> None:
        """Return once a service is ready to score; raises Unavailable. In mode "local", this starts it."""
        read_document(await self._call(Outgoing("GET", "/readyz"), await self._end(timeout)))

    async def close(self) -> None:
        """Close idle connections and let go of a local service. The client can be used again all the same."""
        self._transport.close()
        self._release_local()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _end(self, timeout: float | None) -> float:
        """The moment by which a call must end. A first start of a local service is not part of the call's time."""
        if self._needs_local:
            await asyncio.to_thread(self._hold_local, self.settings.start_timeout)
        return time.monotonic() + (self.settings.timeout if timeout is None else timeout)

    async def _call(self, outgoing: Outgoing, deadline: float) -> Reply:
        """The reply to keep; raises Unavailable."""
        try:
            # Attempts keep their own time; this is for a call that waits for a connection all along.
            return await asyncio.wait_for(self._drive(outgoing, deadline), deadline - time.monotonic() + GRACE / 2)
        except asyncio.TimeoutError:
            raise Unavailable("no reward: there was no free connection within the deadline") from None

    async def _drive(self, outgoing: Outgoing, deadline: float) -> Reply:
        steps = converse(self._endpoints, self.settings, deadline)
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
                await asyncio.to_thread(self._hold_local, deadline - time.monotonic())

    async def _attempt(self, outgoing: Outgoing, step: Send) -> Reply | Fault:
        head = outgoing.head(step.address, self.settings.api_key, step.seconds)
        try:
            reply = await self._transport.exchange(step.address, head, outgoing.body, step.seconds)
            return outgoing.check(reply, step.address)
        except Fault as fault:
            return fault

    async def _send_batch(self, entries: list[Entry], config: str) -> None:
        """Settle every entry of these settings of the reward."""
        batches = deliver(entries)
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
        request = assembled(texts, references, None, config, ("components",))
        deadline = max(entry.deadline for entry in batch)
        return read_scores(await self._call(Outgoing("POST", "/v1/score", request.body), deadline), request)
