"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from .batches import Entry, settle_entries
from .coalescing import SyncCoalescer
from .errors import AssayError, Unavailable
from .exchange import GRACE_SECONDS, BaseClient, OutgoingRequest
from .replies import Reply, read_document, read_scores
from .requests import assemble_request, checked_reference, score_request
from .results import Score, Scores
from .retries import Send, Sleep, retry_steps
from .transport.http11 import Fault
from .transport.sync import SyncTransport

__all__ = ["Client"]


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
        return read_scores(
            self._call(OutgoingRequest("POST", "/v1/score", request.body), self._deadline(timeout)), request
        )

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
        return read_document(self._call(OutgoingRequest("GET", "/v1/config"), self._deadline(timeout)))

    def wait_until_ready(self, timeout: float | None = None) -> None:
        """Wait until a service is ready to score; raise Unavailable. In mode "local", start it if needed."""
        read_document(self._call(OutgoingRequest("GET", "/readyz"), self._deadline(timeout)))

    def close(self) -> None:
        """Close idle connections and release a local service. The client can still be used afterwards."""
        self._transport.close()
        self._release_local()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _deadline(self, timeout: float | None) -> float:
        """Return the deadline of a call that begins now; starting a local service does not count towards it."""
        if self._needs_local:
            self._acquire_local(self.settings.start_timeout)
        return time.monotonic() + (self.settings.timeout if timeout is None else timeout)

    def _call(self, outgoing: OutgoingRequest, deadline: float) -> Reply:
        """Send the request until a reply is final; raise Unavailable."""
        steps = retry_steps(self._endpoints, self.settings, deadline)
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
                self._acquire_local(deadline - time.monotonic())

    def _attempt(self, outgoing: OutgoingRequest, step: Send) -> Reply | Fault:
        head = outgoing.head(step.address, self.settings.api_key, step.seconds)
        try:
            reply = self._transport.exchange(step.address, head, outgoing.body, step.seconds)
            return outgoing.check(reply, step.address)
        except Fault as fault:
            return fault

    def _send_batch(self, entries: list[Entry], key: tuple[str, float | None]) -> None:
        """Settle every entry; `key` holds their settings of the reward and their timeout."""
        batches = settle_entries(entries)
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
        request = assemble_request(texts, references, None, config, ("components",))
        deadline = max(entry.deadline for entry in batch)
        return read_scores(self._call(OutgoingRequest("POST", "/v1/score", request.body), deadline), request)
