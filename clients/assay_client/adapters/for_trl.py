"""Reward function for TRL (GRPOTrainer, RLOOTrainer, AsyncGRPOTrainer) and for axolotl's `trl.reward_funcs`.

The whole local batch is one request; means of the components go to the trainer's log. `score_format` and so on are
components as reward functions of their own, for `multi_objective_aggregation="normalize_then_sum"` (GDPO): all that a
trainer has, `score_reward` among them, share that request.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # loaded by its path: the package is around this file or next to it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

import logging
import re
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import nan
from typing import Any

from assay_client.adapters.common import (
    PASSED,
    REWARD,
    Batch,
    ComponentScores,
    SharedBatches,
    async_client,
    batch_of,
    none_on_failure,
    score_rows,
    step_of,
    sync_client,
)
from assay_client.adapters.metrics import batch_means, groups_of, mean_names
from assay_client.client import BaseClient
from assay_client.errors import (
    MAX_SHOWN,
    AssayError,
    InvalidReference,
    Issue,
    LocalServiceError,
    Unavailable,
    issues_by_position,
)
from assay_client.results import Scores
from assay_client.settings import ClientSettings
from assay_client.steps import Step
from assay_client.training_logs import chosen_means, log_means
from assay_client.transport.waiting import completed

GATHERS_NAMES = (1, 14)
"""The version of TRL since which the processes of a run may log different metrics."""

DOWN_SECONDS = 30.0
"""Time for which a service that has not answered is not asked again (ASSAY_CLIENT_ON_FAILURE=none)."""

PROBE_SECONDS = 2.0
"""Time in which it must then say that it is ready, before a batch is sent that may wait for the whole timeout."""

MAX_LOGGED = 100
logger = logging.getLogger("assay_client")

batches = SharedBatches()


def reward_function(component: str) -> Callable[..., list[float | None]]:
    """Return the reward function of a component; its name is the one that the component has in verl's samples."""

    def function(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        *,
        none_if_failed: bool | None = None,
        **columns: Any,
    ) -> list[float | None]:
        client, batch, tolerant = sync_client(), batch_of(completions, columns), none_on_failure(none_if_failed)

        def score() -> ComponentScores:
            return completed(outcome_of(client, prompts, batch, columns, tolerant, log_metric, log_extra))

        return batches.outcome(component, (client.settings, tolerant, *batch), score).rewards(component)

    function.__name__ = function.__qualname__ = f"score_{component}"
    function.__doc__ = f"""Return `{component}` of each completion, None for a row whose task does not have it.

    It has the arguments, columns and errors of `score_reward`, and shares its request for a batch.
    """
    return function


score_reward = reward_function(REWARD)
score_reward.__doc__ = """Return one reward per completion. The references are a column of the data set.

The column is ASSAY_CLIENT_REFERENCE, or one of the usual names. A row whose reference is None belongs to another task
and gets None, which this trainer leaves to its other reward functions. Raise AssayError if scoring fails for good. With
ASSAY_CLIENT_ON_FAILURE=none, a row with an invalid reference gets None, as do all rows while the service does not
answer; every other error is still raised.
"""
score_format = reward_function("format")
score_consistency = reward_function("consistency")
score_coverage = reward_function("coverage")
score_scale = reward_function("scale")
score_order = reward_function("order")
score_content = reward_function("content")
score_semantics = reward_function("semantics")
score_score = reward_function("score")
score_accuracy = reward_function("accuracy")
score_exact_match = reward_function("exact_match")
score_kendall_tau = reward_function("kendall_tau")
score_text_similarity = reward_function("text_similarity")
score_order_similarity = reward_function("order_similarity")
score_function_precision = reward_function("function_precision")
score_function_recall = reward_function("function_recall")
score_action_sequence_similarity = reward_function("action_sequence_similarity")
score_parameter_accuracy = reward_function("parameter_accuracy")
score_passed = reward_function(PASSED)
score_order_part = reward_function("order_part")
score_content_part = reward_function("content_part")
score_order_part.__doc__ = score_content_part.__doc__ = """Return one of two rewards whose sum is `score_reward`.

It has the arguments, columns and errors of `score_reward`, and shares its request for a batch.
"""


def score_steps(completions: Sequence[Any], **columns: Any) -> list[list[Step]]:
    """Return the steps of each completion, for credit of single tokens; an empty list for a row without a reference.

    It has the columns of `score_reward` and makes a request of its own. Positions are those of `completion_text`. Raise
    AssayError.
    """
    texts, references, records, tasks = batch_of(completions, columns)
    rows = [k for k, reference in enumerate(references) if reference is not None]
    steps: list[list[Step]] = [[] for _ in texts]
    if rows:
        scores = completed(score_rows(sync_client(), texts, references, records, rows, tasks, ["steps"]))
        for row, row_steps in zip(rows, scores.steps or (), strict=True):
            steps[row] = row_steps
    return steps


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
    batch, tolerant = batch_of(completions, columns), none_on_failure(none_if_failed)
    outcome = await outcome_of(async_client(), prompts, batch, columns, tolerant, log_metric, log_extra)
    return outcome.rewards(REWARD)


async def outcome_of(
    client: BaseClient,
    prompts: Sequence[Any],
    batch: Batch,
    columns: Mapping[str, Any],
    tolerant: bool,
    log_metric: Callable[[str, float], None] | None,
    log_extra: Callable[[str, list[Any]], None] | None,
) -> ComponentScores:
    """Return the scores of all rows that have one, and log their means; raise every error that is not tolerated."""
    n = len(batch[0])
    rows, scores = await score_tolerantly(client, batch, tolerant)
    groups = groups_of(n, prompts)
    of_rows, responses = groups and [groups[k] for k in rows], [batch[0][k] for k in rows]
    if log_metric is not None:
        means = {} if scores is None else batch_means(scores, of_rows, responses)
        if not names_may_differ(log_metric):
            means = {name: means.get(name, nan) for name in mean_names(is_mixed=batch[3] is not None)}
        for name, mean in chosen_means(means).items():
            log_metric(name, mean)
    elif scores is not None:  # an older version of TRL
        log_means(lambda: batch_means(scores, of_rows, responses), step_of(columns.get("trainer_state")))
    if log_extra is not None:
        log_extra("score_reason", scatter(scores.reasons if scores else [], rows, n))
    return ComponentScores(n, rows, scores)


def names_may_differ(log_metric: Callable[[str, float], None]) -> bool:
    """Return whether this process may log other names than the other processes of its run.

    It may if there are no others, or if TRL gathers the names from all of them, as 1.14 does. Earlier versions gather a
    value for each name that a process has, and wait forever for a process that lacks one.
    """
    accelerator = getattr(getattr(log_metric, "__self__", None), "accelerator", None)
    if getattr(accelerator, "num_processes", None) == 1:
        return True
    version = re.match(r"([0-9]+)\.([0-9]+)", getattr(sys.modules.get("trl"), "__version__", ""))
    return version is not None and (int(version[1]), int(version[2])) >= GATHERS_NAMES


async def score_tolerantly(client: BaseClient, batch: Batch, tolerant: bool) -> tuple[list[int], Scores | None]:
    texts, references, records, tasks = batch
    rows = [k for k, reference in enumerate(references) if reference is not None]
    if rows and tolerant and (pause := await outages.pause(client)):
        log.unanswered(rows, records, f"no request was made, because {pause}")
        return [], None
    while rows:
        try:
            scores = await score_rows(client, texts, references, records, rows, tasks)
        except AssayError as error:  # noqa: PERF203
            if tolerant and isinstance(error, Unavailable) and not isinstance(error, LocalServiceError):
                outages.begin(client)
                log.unanswered(rows, records, str(error))
                break
            named = issues_by_position(error, rows) if tolerant and isinstance(error, InvalidReference) else {}
            if not named:
                raise
            for row, issues in named.items():
                log.invalid_reference(issues[-1], references[row], row)
            rows = [row for row in rows if row not in named]
        else:
            return rows, scores
    return [], None


class Outages:
    """Services that have not answered: for a while their batches get None without paying the timeout each time."""

    def __init__(self) -> None:
        self._until: dict[ClientSettings, float] = {}

    def begin(self, client: BaseClient) -> None:
        self._until[client.settings] = time.monotonic() + DOWN_SECONDS

    async def pause(self, client: BaseClient) -> str:
        """Return why a batch is not sent, or nothing if it is: a service is asked again once the time is over."""
        until = self._until.get(client.settings)
        if until is None:
            return ""
        left = until - time.monotonic()
        if left > 0:
            return f"the service did not answer; it is asked again in {left:.0f} s"
        try:
            await client._request("/readyz", timeout=min(PROBE_SECONDS, client.settings.timeout))
        except LocalServiceError:
            raise
        except Unavailable as error:
            self.begin(client)
            return f"the service is not ready; it is asked again in {DOWN_SECONDS:.0f} s. {error}"
        except AssayError:
            pass  # it answers: the request of the batch raises what is wrong
        self._until.pop(client.settings, None)
        return ""


class Log:
    def __init__(self) -> None:
        self._logged_references: set[Hashable] = set()

    def unanswered(self, rows: Sequence[int], records: Sequence[object] | None, reason: str) -> None:
        names = [f"{row}" if records is None else f"{records[row]}" for row in rows[:MAX_SHOWN]]
        more = f" and {len(rows) - MAX_SHOWN} more" if len(rows) > MAX_SHOWN else ""
        kind = "rows" if records is None else "records"
        listed = f"{kind} {', '.join(names)}{more}"
        logger.warning("Rewards are None (ASSAY_CLIENT_ON_FAILURE=none) for %s: %s", listed, reason)

    def invalid_reference(self, issue: Issue, reference: Any, row: int) -> None:
        key = (repr(reference if issue.record is None else issue.record), issue.reason)
        if key in self._logged_references or len(self._logged_references) >= MAX_LOGGED:
            return
        self._logged_references.add(key)
        last = "; further ones are not logged" if len(self._logged_references) == MAX_LOGGED else ""
        where = f"row {row}: " if issue.record is None else ""
        logger.warning("Rewards are None for an invalid reference: %s%s%s", where, issue, last)


log = Log()
outages = Outages()


def scatter(values: Sequence[Any], rows: Sequence[int], n: int) -> list[Any]:
    column: list[Any] = [None] * n
    for row, value in zip(rows, values, strict=True):
        column[row] = value
    return column
