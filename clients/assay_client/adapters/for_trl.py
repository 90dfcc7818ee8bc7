"""Reward function for TRL (GRPOTrainer, RLOOTrainer, AsyncGRPOTrainer) and for axolotl's `trl.reward_funcs`.

The whole local batch goes into one request; means of the components go to the trainer's log.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # this file was named by its path, and the package stands around it or beside it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

import logging
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from assay_client.adapters.common import (
    async_client,
    column_of,
    completion_text,
    in_rows_of_batch,
    means_of,
    none_on_failure,
    pairs_of,
    records_of,
    reference_place,
    sync_client,
)
from assay_client.errors import AssayError, InvalidReference, Issue, LocalServiceError, Unavailable
from assay_client.results import Scores

__all__ = ["async_score_reward", "score_reward"]

MAX_LOGGED = 100
"""Unreadable references that one process logs."""

logger = logging.getLogger("assay_client")


def score_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    log_metric: Callable[[str, float], None] | None = None,
    log_extra: Callable[[str, list[Any]], None] | None = None,
    *,
    none_if_failed: bool | None = None,
    **columns: Any,
) -> list[float | None]:
    """One reward a completion. The references are a column of the data set (see ASSAY_CLIENT_REFERENCE).

    A row whose reference is None belongs to another task and gets None, which this trainer leaves to its other reward
    functions. Raises AssayError when scoring fails for good. With ASSAY_CLIENT_ON_FAILURE=none, a row whose reference
    cannot be read gets None, and so do all rows while the service does not answer; every other error is still raised.
    """
    tolerant, rollouts, client = none_on_failure(none_if_failed), rollouts_of(completions, columns), sync_client()
    steps = scoring(rollouts, tolerant)
    outcome: Scores | AssayError | None = None
    while True:
        try:
            sent = steps.send(outcome)  # type: ignore[arg-type]
        except StopIteration as end:
            return rewards_of(end.value, len(completions), log_metric, log_extra)
        try:
            outcome = client.score(sent.texts, sent.references, records=sent.records)
        except AssayError as error:
            outcome = error


async def async_score_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    log_metric: Callable[[str, float], None] | None = None,
    log_extra: Callable[[str, list[Any]], None] | None = None,
    *,
    none_if_failed: bool | None = None,
    **columns: Any,
) -> list[float | None]:
    """`score_reward` for a trainer that awaits: several reward functions then run at the same time."""
    tolerant, rollouts, client = none_on_failure(none_if_failed), rollouts_of(completions, columns), async_client()
    steps = scoring(rollouts, tolerant)
    outcome: Scores | AssayError | None = None
    while True:
        try:
            sent = steps.send(outcome)  # type: ignore[arg-type]
        except StopIteration as end:
            return rewards_of(end.value, len(completions), log_metric, log_extra)
        try:
            outcome = await client.score(sent.texts, sent.references, records=sent.records)
        except AssayError as error:
            outcome = error


class Rollouts(NamedTuple):
    """Rows of a batch that are to be scored."""

    rows: list[int]
    texts: list[str]
    references: list[Any]
    records: list[object] | None

    def only(self, places: Sequence[int]) -> Rollouts:
        """Those at these places of the four lists."""
        records = None if self.records is None else [self.records[k] for k in places]
        rows, texts = [self.rows[k] for k in places], [self.texts[k] for k in places]
        return Rollouts(rows, texts, [self.references[k] for k in places], records)


class Scored(NamedTuple):
    """The scores of some rows of a batch."""

    rows: list[int]
    scores: Scores


def rollouts_of(completions: Sequence[Any], columns: Mapping[str, Any]) -> Rollouts:
    """The rows that have a reference."""
    texts, references = pairs_of(map(completion_text, completions), column_of(columns))
    every = Rollouts(list(range(len(texts))), texts, references, records_of(columns, len(texts)))
    return every.only([k for k, reference in enumerate(references) if reference is not None])


def scoring(rollouts: Rollouts, tolerant: bool) -> Generator[Rollouts, Scores | AssayError, Scored | None]:
    """Yields what to send, is sent the scores or the error, and returns the scores; None where there are none.

    Raises every error that is not tolerated.
    """
    while rollouts.rows:
        outcome = yield rollouts
        if isinstance(outcome, Scores):
            log.answered()
            return Scored(rollouts.rows, outcome)
        if tolerant and isinstance(outcome, Unavailable) and not isinstance(outcome, LocalServiceError):
            log.unanswered(outcome)
            return None
        unreadable = issues_by_place(outcome, len(rollouts.rows)) if tolerant else {}
        if not unreadable:
            raise in_rows_of_batch(outcome, rollouts.rows)
        for place, issue in unreadable.items():
            log.unreadable(issue, rollouts.references[place])
        rollouts = rollouts.only([k for k in range(len(rollouts.rows)) if k not in unreadable])
    return None


def issues_by_place(error: AssayError, n: int) -> dict[int, Issue]:
    """An issue of each reference that an error is about; empty where it is about anything else too."""
    named: dict[int, Issue] = {}
    for issue in error.issues if isinstance(error, InvalidReference) else ():
        place, rest = reference_place(issue)
        if not 0 <= place < n:
            return {}
        named[place] = issue._replace(path=f"reference{rest}")
    return named


class Log:
    """What this process has logged about rewards that became None: each thing once, in thousands of steps."""

    def __init__(self) -> None:
        self._unanswered = False
        self._unreadable: set[Hashable] = set()

    def answered(self) -> None:
        """Log the next failure to answer again."""
        self._unanswered = False

    def unanswered(self, error: Unavailable) -> None:
        """Log that the service does not answer, unless that was so the last time."""
        if not self._unanswered:
            logger.warning("Rewards are None until the service answers (ASSAY_CLIENT_ON_FAILURE=none): %s", error)
        self._unanswered = True

    def unreadable(self, issue: Issue, reference: Any) -> None:
        """Log a record whose reference cannot be read, unless it was logged before."""
        key = (repr(reference if issue.record is None else issue.record), issue.reason)
        if key in self._unreadable or len(self._unreadable) >= MAX_LOGGED:
            return
        self._unreadable.add(key)
        last = "; further ones are not logged" if len(self._unreadable) == MAX_LOGGED else ""
        logger.warning("Rewards are None for a reference that cannot be read: %s%s", issue, last)


log = Log()


def rewards_of(
    scored: Scored | None,
    n: int,
    log_metric: Callable[[str, float], None] | None,
    log_extra: Callable[[str, list[Any]], None] | None,
) -> list[float | None]:
    """The rewards of n rows, which the trainer's log gets with their components."""
    if log_metric is not None and scored is not None:
        for name, mean in means_of(scored.scores).items():
            log_metric(name, mean)
    if log_extra is not None:
        log_extra("score_reason", [None] * n if scored is None else spread(scored.scores.reasons, scored.rows, n))
    return [None] * n if scored is None else spread(scored.scores.rewards, scored.rows, n)


def spread(values: Sequence[Any], rows: Sequence[int], n: int) -> list[Any]:
    """The values at their rows of n, None elsewhere."""
    whole: list[Any] = [None] * n
    for row, value in zip(rows, values, strict=True):
        whole[row] = value
    return whole
