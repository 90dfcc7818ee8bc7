"""Reward function for TRL (GRPOTrainer, RLOOTrainer, AsyncGRPOTrainer) and for axolotl's `trl.reward_funcs`.

The whole local batch is one request; means of the components go to the trainer's log.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # loaded by its path: the package is around this file or next to it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from assay_client.adapters.common import (
    async_client,
    column_of,
    completion_text,
    means_of,
    none_on_failure,
    pairs_of,
    records_of,
    score_rows,
    sync_client,
)
from assay_client.errors import (
    AssayError,
    InvalidReference,
    Issue,
    LocalServiceError,
    Unavailable,
    issues_by_position,
)
from assay_client.exchange import BaseClient
from assay_client.results import Scores
from assay_client.transport.sync import completed

__all__ = ["async_score_reward", "score_reward"]

MAX_LOGGED = 100
"""Invalid references that one process logs."""

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
    """Return one reward per completion. The references are a column of the data set (see ASSAY_CLIENT_REFERENCE).

    A row whose reference is None belongs to another task and gets None, which this trainer leaves to its other reward
    functions. Raise AssayError if scoring fails for good. With ASSAY_CLIENT_ON_FAILURE=none, a row with an invalid
    reference gets None, as do all rows while the service does not answer; every other error is still raised.
    """
    return completed(rewards_of(sync_client(), completions, columns, none_if_failed, log_metric, log_extra))


async def async_score_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    log_metric: Callable[[str, float], None] | None = None,
    log_extra: Callable[[str, list[Any]], None] | None = None,
    *,
    none_if_failed: bool | None = None,
    **columns: Any,
) -> list[float | None]:
    """Return as `score_reward`, but asynchronously: several reward functions can run concurrently."""
    return await rewards_of(async_client(), completions, columns, none_if_failed, log_metric, log_extra)


async def rewards_of(
    client: BaseClient,
    completions: Sequence[Any],
    columns: Mapping[str, Any],
    none_if_failed: bool | None,
    log_metric: Callable[[str, float], None] | None,
    log_extra: Callable[[str, list[Any]], None] | None,
) -> list[float | None]:
    """Return the rewards of all rows, and log the means of their components and their reasons.

    Raise every error that is not tolerated.
    """
    texts, references = pairs_of(map(completion_text, completions), column_of(columns))
    records, n = records_of(columns, len(texts)), len(completions)
    rows, scores = await score_tolerantly(client, texts, references, records, none_on_failure(none_if_failed))
    if log_metric is not None and scores is not None:
        for name, mean in means_of(scores).items():
            log_metric(name, mean)
    if log_extra is not None:
        log_extra("score_reason", scatter(scores.reasons if scores else [], rows, n))
    return scatter(scores.rewards if scores else [], rows, n)


async def score_tolerantly(
    client: BaseClient, texts: list[str], references: list[Any], records: list[object] | None, tolerant: bool
) -> tuple[list[int], Scores | None]:
    """Return the rows that could be scored, of those with a reference, and their scores, or None without any."""
    rows = [k for k, reference in enumerate(references) if reference is not None]
    while rows:
        try:
            scores = await score_rows(client, texts, references, records, rows)
        except AssayError as error:  # noqa: PERF203
            if tolerant and isinstance(error, Unavailable) and not isinstance(error, LocalServiceError):
                log.unanswered(error)
                break
            named = issues_by_position(error, rows) if tolerant and isinstance(error, InvalidReference) else {}
            if not named:
                raise
            for row, issues in named.items():
                log.invalid_reference(issues[-1], references[row])
            rows = [row for row in rows if row not in named]
        else:
            log.answered()
            return rows, scores
    return [], None


class Log:
    """Log of the reasons why rewards are None: each is logged once per process or outage, not in every step."""

    def __init__(self) -> None:
        self._unanswered = False
        self._logged_references: set[Hashable] = set()

    def answered(self) -> None:
        """Note that the service answers: the next outage is logged again."""
        self._unanswered = False

    def unanswered(self, error: Unavailable) -> None:
        """Log that the service does not answer, once per outage."""
        if not self._unanswered:
            logger.warning("Rewards are None until the service answers (ASSAY_CLIENT_ON_FAILURE=none): %s", error)
        self._unanswered = True

    def invalid_reference(self, issue: Issue, reference: Any) -> None:
        """Log a record whose reference is invalid, once."""
        key = (repr(reference if issue.record is None else issue.record), issue.reason)
        if key in self._logged_references or len(self._logged_references) >= MAX_LOGGED:
            return
        self._logged_references.add(key)
        last = "; further ones are not logged" if len(self._logged_references) == MAX_LOGGED else ""
        logger.warning("Rewards are None for an invalid reference: %s%s", issue, last)


log = Log()


def scatter(values: Sequence[Any], rows: Sequence[int], n: int) -> list[Any]:
    """Return a list of n with the values at their rows and None elsewhere."""
    column: list[Any] = [None] * n
    for row, value in zip(rows, values, strict=True):
        column[row] = value
    return column
