"""Where a body is answered, and the answer that still lacks what other processes score.

| body                        | path                | where                                       |
|-----------------------------|---------------------|---------------------------------------------|
| short JSON, common form     | fast path           | event loop, two kernel calls                |
| short JSON, any other form  | general path        | event loop                                  |
| short JSON, more work       | general path        | worker thread                               |
| long, compressed, or Arrow  | general path        | worker thread, kernels on all threads       |
| short rows of other tasks   | rewards of the task | event loop (`rewards/scoring.py`)           |
| other rows of other tasks   | rewards of the task | separate process                            |

More work are many rows, `configs`, and alternatives; see `wire/work.py`, which also says what is short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from ...errors import Issue, ScoringError
from ...rewards.batch import Batch
from ...rewards.scorer import Scorer
from ...rewards.scores import Scores
from ...rewards.scoring import Outcome, Scoring
from ...wire.fast_path import FastPath
from ...wire.json_codec import Answer, RequestLimits
from ...wire.parts import UnlistedError
from ...wire.problems import invalid_request
from ...wire.stage_times import StageTimes
from .exchange import Exchange
from .readiness import Readiness
from .worker_threads import WorkerThreads

T = TypeVar("T")


class Paths:
    """The scorer of the default configuration, and the threads that it runs on."""

    def __init__(self, limits: RequestLimits, readiness: Readiness, workers: WorkerThreads) -> None:
        self.limits = limits
        self._readiness = readiness
        self._workers = workers
        self._scorer: Scorer | None = None
        self.fast_path: FastPath
        """For the event loop's thread; set once the service is ready."""

    @property
    def scorer(self) -> Scorer:
        """The scorer of the default configuration; raises Problem `not-ready` until it is available."""
        self._readiness.check()
        assert self._scorer is not None
        return self._scorer

    def open(self, scorer: Scorer, inline_bytes: int) -> None:
        """Set the scorer, and score bodies below `inline_bytes` on the event loop."""
        self.fast_path = FastPath(scorer, inline_bytes, self.limits)
        self._scorer = scorer

    async def answer(self, exchange: Exchange, inline: Callable[[], T | None], general: Callable[[], T]) -> T:
        """Answer a light body with `inline`, on the event loop, and any other with `general`, in a thread.

        inline: returns None for a request that turns out to be more work than the event loop should do.
        """
        result = inline() if exchange.request_body.inline else None
        return await self._workers.run(general, exchange) if result is None else result


def refused(issues: Sequence[Issue], unlisted: int) -> Exception:
    return invalid_request(issues, len(issues) + unlisted)


class PendingAnswer(NamedTuple):
    """A request whose rows of SCORE are scored; `complete` it with the outcomes of the parts that are left."""

    scoring: Scoring
    encode: Callable[[Scores], bytes]
    times: StageTimes
    refuse: Callable[[Sequence[Issue], int], Exception]
    """Makes the error of a bad batch from its issues and the number of issues that are not listed."""
    reserve: Callable[[], None]
    """Waits until the reply may be computed."""

    def complete(self, outcomes: Sequence[Outcome] = ()) -> Answer:
        """Return the answer; raise the error of the request with every issue."""
        self.times.start()
        try:
            scores = self.scoring.complete(outcomes)
        except ScoringError as error:
            unlisted = sum(outcome.unlisted for outcome in outcomes if isinstance(outcome, UnlistedError))
            raise self.refuse(error.issues, unlisted) from None
        if self.scoring.left:
            self.reserve()
        reply = self.encode(scores)
        self.times.encoded()
        return Answer(reply, scores, self.scoring.count_cut_off(scores))


def begin(
    batch: Batch,
    encode: Callable[[Scores], bytes],
    times: StageTimes,
    refuse: Callable[[Sequence[Issue], int], Exception] = refused,
    reserve: Callable[[], None] = lambda: None,
) -> PendingAnswer | Answer:
    """Score the rows that kernels score; return the answer, or what is left of it."""
    scoring = Scoring(batch)
    if not scoring.left:
        reserve()
    scoring.start()
    if not scoring.failed:
        times.scored()
    pending = PendingAnswer(scoring, encode, times, refuse, reserve)
    return pending if scoring.left else pending.complete()
