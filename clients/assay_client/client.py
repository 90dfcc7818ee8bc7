"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from .batches import Entry, deliver
from .coalescing import SyncGatherer
from .errors import AssayError, Unavailable
from .exchange import GRACE, BaseClient, Outgoing
from .replies import Reply, read_document, read_scores
from .requests import assembled, score_request, sendable_reference
from .results import Score, Scores
from .retries import Send, Sleep, converse
from .transport.http11 import Fault
from .transport.sync import SyncTransport

__all__ = ["Client"]


class Client(BaseClient):
    """Scores responses over HTTP. Any thread may use it; it can be pickled, and used on in a forked child.

    `Client()` reads its settings from the environment; every field of `ClientSettings` is an argument as well, with
    `base_url` (one, several in a list or separated by commas, or `local`) and `uds` (a Unix socket's path) in place of
    `addresses`. `Client("http://host:8000")` is short for `Client(base_url="http://host:8000")`.
    """

    def _start(self) -> None:
        super()._start()
        self._transport = SyncTransport(self.settings.connect_timeout)
        self._gatherer = SyncGatherer(self.settings.window, self.settings.max_batch, self._send_batch)

    def _after_fork(self) -> None:
        self._transport.abandon()
        super()._after_fork()

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
        """Score a batch in one request, by default with its components.

        `reference_index[k]` names the reference of response k; it may be left out for one reference, or as many as
        responses. A reference is text or `{"steps": [...]}`. `config` overrides settings of the reward, `include`
        names `components` and `advantages`, `timeout` is in seconds. `records` are the caller's names for responses
        with a reference each, which errors will repeat.
        Raises InvalidRequest and its kinds, Unauthorized, Unavailable, ServiceError, BadReply.
        """
        request = score_request(responses, references, reference_index, self.settings.merged(config), include, records)
        return read_scores(self._call(Outgoing("POST", "/v1/score", request.body), self._end(timeout)), request)

    def score_one(
        self,
        response: str,
        reference: str | Mapping[str, Any],
        *,
        config: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        record: object = None,
    ) -> Score:
        """Score one response; calls of several threads at the same time share a request.

        `record` is the caller's name for it, which an error will repeat. Raises as `score`.
        """
        key = self.settings.merged(config)
        content = sendable_reference(response, reference, record)  # a fault of its own stays its own
        future: Future[Score] = Future()
        entry = Entry(response, content, self._end(timeout), record, future)
        if self.settings.window > 0:
            self._gatherer.add(entry, (key, timeout))  # who sends for all waits for all: they must have the same time
        else:
            self._send_batch([entry], (key, timeout))
        try:
            return future.result(max(0.0, entry.deadline - time.monotonic()) + GRACE)
        except (FutureTimeoutError, TimeoutError):
            future.cancel()
            raise Unavailable("no reward: the batch of this call was not answered within its deadline") from None

    def config(self, timeout: float | None = None) -> dict[str, Any]:
        """The service's effective default configuration, its `config_id` and its limits (`GET /v1/config`)."""
        return read_document(self._call(Outgoing("GET", "/v1/config"), self._end(timeout)))

    def wait_until_ready(self, timeout: float | None = None) -> None:
        """Return once a service is ready to score; raises Unavailable. In mode "local", this starts it."""
        read_document(self._call(Outgoing("GET", "/readyz"), self._end(timeout)))

    def close(self) -> None:
        """Close idle connections and let go of a local service. The client can be used again all the same."""
        self._transport.close()
        self._release_local()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _end(self, timeout: float | None) -> float:
        """The moment by which a call must end. A first start of a local service is not part of the call's time."""
        if self._needs_local:
            self._hold_local(self.settings.start_timeout)
        return time.monotonic() + (self.settings.timeout if timeout is None else timeout)

    def _call(self, outgoing: Outgoing, deadline: float) -> Reply:
        """The reply to keep; raises Unavailable."""
        steps = converse(self._endpoints, self.settings, deadline)
        outcome: Reply | Fault | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value
            if isinstance(step, Sleep):
                time.sleep(step.seconds)
                outcome = None
                continue
            outcome = self._attempt(outgoing, step)
            if isinstance(outcome, Fault) and self._local is not None:
                self._hold_local(deadline - time.monotonic())

    def _attempt(self, outgoing: Outgoing, step: Send) -> Reply | Fault:
        head = outgoing.head(step.address, self.settings.api_key, step.seconds)
        try:
            reply = self._transport.exchange(step.address, head, outgoing.body, step.seconds)
            return outgoing.check(reply, step.address)
        except Fault as fault:
            return fault

    def _send_batch(self, entries: list[Entry], key: tuple[str, float | None]) -> None:
        """Settle every entry; the key holds their settings of the reward, and their timeout."""
        batches = deliver(entries)
        outcome: Scores | AssayError | None = None
        while True:
            try:
                batch = batches.send(outcome)  # type: ignore[arg-type]
            except StopIteration:
                return
            try:
                outcome = self._score_entries(batch, key[0])
            except AssayError as error:
                outcome = error

    def _score_entries(self, batch: list[Entry], config: str) -> Scores:
        texts, references = [entry.response for entry in batch], [entry.reference for entry in batch]
        request = assembled(texts, references, None, config, ("components",))
        deadline = max(entry.deadline for entry in batch)
        return read_scores(self._call(Outgoing("POST", "/v1/score", request.body), deadline), request)
