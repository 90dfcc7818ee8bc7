"""Scoring of batches: every interface of Assay uses this path."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Unpack

import numpy as np
import orjson
from numpy.typing import NDArray

from ...kernels.column import TextColumn
from ...kernels.reading.references import References
from ...kernels.warmup import warmup
from ..errors import AssayError, InvalidSetting, Issue, ScoringError, row_of
from ..scoring.alternatives import NOT_OF_SCORE, Alternatives, alternatives_of
from ..scoring.column_scorer import Columns, ColumnScorer, Validate, overridden_by_each
from ..scoring.text_columns import MAX_REFERENCE_BYTES
from ..settings import ScoreSettings, SettingOverrides, usable_cores
from .batch import UNKNOWN, Batch, error_of, in_order, read_objects
from .labels import apply_labels, follow_labels, read_labels
from .registry import REWARDS, SCORE, reward_of, set_options, set_tasks, split_config
from .scores import Scores, Steps

NO_ROWS = np.empty(0, np.int64)

Outcome = Columns | ScoringError | None
"""The columns of a part, or an error with issues of its references and options; anything else for a part that is
`read_only` and has no such issue."""


class Scorer:
    """Exact SCORE rewards under one configuration. Immutable; threads and forked children may share one.

    Parameters
    ----------
    settings : ScoreSettings, optional
        The configuration; the paper's by default.
    threads : int, optional
        Threads that score one batch; all usable cores by default. Rewards do not depend on it.
    **overrides
        Settings that differ from `settings`, by name.

    Raises
    ------
    InvalidSetting
        Names every unknown setting and every value out of range.

    Examples
    --------
    >>> scores = Scorer(order="lcs").score(responses, references)   # doctest: +SKIP
    >>> scores.rewards, scores.reasons, scores.components["coverage"]   # doctest: +SKIP
    """

    def __init__(
        self,
        settings: ScoreSettings | None = None,
        /,
        *,
        threads: int | None = None,
        **overrides: Unpack[SettingOverrides],
    ) -> None:
        self.settings = ScoreSettings.checked(overrides, settings) if overrides or settings is None else settings
        self.threads = max(1, threads or usable_cores())
        self.columns = ColumnScorer([self.settings], self.threads)
        self.identity = self.columns.identity
        self.config_id, self.signature = self.identity["config_id"], self.identity["signature"]
        warmup()

    def __repr__(self) -> str:
        changed = self.settings.model_dump(exclude_defaults=True)
        return f"Scorer({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def with_overrides(self, overrides: Mapping[str, Any]) -> Scorer:
        """Return the scorer for this configuration with a request's `overrides`; recent ones are cached.

        Raises InvalidSetting, also for a limit above this configuration's own: see `ScoreSettings.overridden`.
        """
        if not overrides:
            return self
        try:
            key = orjson.dumps(overrides, option=orjson.OPT_SORT_KEYS)
        except TypeError:  # not JSON, so not valid settings either: the check reports what is wrong
            return Scorer(self.settings.overridden(overrides), threads=self.threads)
        return _cached_scorer(self.settings, self.threads, key)

    def score(
        self,
        responses: Sequence[str],
        references: Sequence[Any],
        reference_index: Sequence[int] | NDArray[np.integer[Any]] | None = None,
        groups: Sequence[str | int] | NDArray[Any] | None = None,
        task: str | Sequence[str] = "score",
        task_options: Mapping[str, Any] | None = None,
        steps: bool = False,
    ) -> Scores:
        """Score responses, each against its reference.

        Parameters
        ----------
        responses : sequence of str
            n responses of any content.
        references : sequence of str or mapping
            Each a whole answer, the lines of its key section, ``{"steps": [...]}``, or ``{"any_of": [...]}`` with 1 to
            16 of these, of which the best counts, or just their list; of other tasks, a record of their benchmark. An
            object may be its JSON text, and a label, ``{"task": ..., "reference": ...}``.
        reference_index : sequence of int or integer ndarray, shape (n,), optional
            The reference of each response. By default the only reference, or the one of the same position if there
            are n.
        groups : sequence of str or int, shape (n,), optional
            The group of each response, such as its prompt, for `Scores.advantages`; by default, its reference.
        task : str or sequence of str, shape (n,)
            The reward to compute, or the reward of each response (docs/metrics.md, Rewards). By default SCORE, or what
            the label of a reference names.
        task_options : mapping, optional
            Options of that task; where each response has a task, options by the name of the task.
        steps : bool, optional
            Whether `Scores.steps` and `Scores.alternative` are wanted.

        Returns
        -------
        Scores
            Columns of length n, in the order of the responses. Those of other tasks have the components of all tasks,
            0 where a task lacks one, and reasons that each task numbers for itself.

        Raises
        ------
        InvalidReference
            Names every reference that cannot be parsed, if nothing else is wrong.
        InvalidSetting
            Names every unknown option of a task and every value out of range, if nothing else is wrong.
        InvalidRequest
            Names these too, every response that is not a string, every unusable index or group, and every unknown task.
        """
        batch = read_objects(self.columns, responses, references, reference_index, groups)
        if set_tasks(batch, task):
            follow_labels(batch)
            set_options(batch, task_options or {})
        batch.steps = steps
        return score(batch)

    def score_configs(
        self,
        configs: Sequence[Mapping[str, Any]],
        responses: Sequence[str],
        references: Sequence[Any],
        reference_index: Sequence[int] | NDArray[np.integer[Any]] | None = None,
        groups: Sequence[str | int] | NDArray[Any] | None = None,
        steps: bool = False,
    ) -> list[Scores]:
        """Score responses under several configurations, reading the texts once.

        Parameters
        ----------
        configs : sequence of mapping, at least one
            Each has settings that override this scorer's own, as in `with_overrides`.
        responses, references, reference_index, groups, steps
            As in `score`.

        Returns
        -------
        list of Scores
            One for each of `configs`, in their order: bit for bit what ``with_overrides(config).score(…)`` returns.

        Raises
        ------
        InvalidSetting
            Names every invalid setting, as ``configs[2].order``.
        InvalidRequest, InvalidReference
            As `score` does. A reference that only some of the configurations refuse is named with those.
        """
        batch = read_objects(self.columns, responses, references, reference_index, groups)
        batch.steps = steps
        try:
            scorers = overridden_by_each(self.with_overrides, configs)
            batch.configurations = {f"configs[{k}]": scorer.columns for k, scorer in enumerate(scorers)}
        except InvalidSetting as error:
            batch.issues += error.issues
        first = score(batch)
        return [first, *first.configs]

    def score_columns(
        self,
        responses: TextColumn,
        references: TextColumn,
        reference_index: NDArray[np.int64],
        max_reference_bytes: int = MAX_REFERENCE_BYTES,
        validate: Validate | None = None,
        steps: bool = False,
    ) -> Scores:
        """Score columns of UTF-8 text; `reference_index` is int64 (n,). Raises as `score` does.

        validate: called with a column and the first and last of its rows right before they are read, on the thread that
        reads them.
        """
        batch = Batch(
            responses=responses,
            references=references,
            configurations={"config": self.columns},
            max_reference_bytes=max_reference_bytes,
            validate=validate,
            steps=steps,
        )
        batch.set_index(reference_index)
        return score(batch)

    def parse(self, references: TextColumn, max_bytes: int = MAX_REFERENCE_BYTES) -> References:
        """Parse references for `score_parsed`; raises InvalidReference naming every invalid one."""
        return self.columns.parse(references, max_bytes)

    def score_parsed(
        self,
        responses: TextColumn,
        references: References,
        reference_index: NDArray[np.int64],
        alternatives: Alternatives | None = None,
        steps: bool = False,
    ) -> Scores:
        """Score responses against parsed references; `reference_index` is int64 (n,)."""
        columns = self.columns.score_parsed(responses, references, reference_index, alternatives, steps)
        return scores_of(columns, 0, reference_index, self.settings)


@lru_cache(maxsize=256)
def _cached_scorer(settings: ScoreSettings, threads: int, overrides: bytes) -> Scorer:
    return Scorer(settings.overridden(orjson.loads(overrides)), threads=threads)


def score(batch: Batch) -> Scores:
    """Score a batch; raise ScoringError with every issue of the batch, in the order of `ISSUE_ORDER`."""
    parts = split(batch)
    outcomes = [score_here(part) for part in parts]
    if not batch.issues and not any(isinstance(outcome, ScoringError) for outcome in outcomes):
        for k, part in enumerate(parts):
            if not isinstance(outcomes[k], Columns):
                outcomes[k] = attempt(part, partial(reward_of(part.task).score, references=outcomes[k]))
    return merge(batch, parts, outcomes)


def score_here(part: Batch) -> Any:
    """Begin to score the rows of one reward, of which the references are only read if the part is `read_only`."""
    reward = reward_of(part.task)
    return attempt(part, reward.read_references if part.read_only else reward.begin)


def attempt(part: Batch, function: Callable[[Batch], Any]) -> Any:
    """Return what the function returns for a part, or the ScoringError that it raises."""
    try:
        return function(part)
    except ScoringError as error:
        part.check_texts()  # what is no text at all takes precedence over issues
        return error


def split(batch: Batch) -> list[Batch]:
    """Check a batch, and return the part of each reward by its number, but for rows whose task is unknown.

    Parts of a batch with issues are `read_only`; where it is not known which task a reference is of, it is in none.
    """
    read_labels(batch)
    batch.check()
    apply_labels(batch)
    if batch.issues or batch.task is None:
        batch.check_texts()
    parts = [part if part.task == SCORE else without_alternatives(batch, part) for part in parts_of(batch)]
    for part in (batch, *parts):
        part.read_only = bool(batch.issues)
    return parts


def parts_of(batch: Batch) -> list[Batch]:
    if batch.references is None:
        return []
    if batch.task is not None:
        return [batch]
    codes, index = batch.task_codes, batch.reference_index
    if codes is None or index is None:
        return []
    numbers = [number for number in np.unique(codes).tolist() if number != UNKNOWN]
    if len(numbers) == 1 and (codes == numbers[0]).all():
        return [replace(batch, task=REWARDS[numbers[0]].name)]
    parts = []
    for number in numbers:
        rows = np.flatnonzero(codes == number)
        references, local = np.unique(index[rows], return_inverse=True)
        part = batch.at(rows, references, local.astype(np.int64))
        part.task = REWARDS[number].name
        parts.append(part)
    return parts


def without_alternatives(batch: Batch, part: Batch) -> Batch:
    """Return a part of another task than SCORE without references that have alternatives, each of them an issue."""
    if part.alternatives is not None:
        is_list = part.alternatives.is_list
    else:
        references = part.references if isinstance(part.references, list) else []
        is_list = np.array([alternatives_of(reference) is not None for reference in references], bool)
    if not is_list.any():
        return part
    issues = [Issue(f"references[{row}]", "bad_reference", NOT_OF_SCORE) for row in np.flatnonzero(is_list).tolist()]
    batch.issues += [in_batch(batch, part, issue) for issue in issues]
    kept = np.flatnonzero(~is_list)
    rest = part.at(NO_ROWS, kept, NO_ROWS)
    rest.reference_numbers = kept if part.reference_numbers is None else part.reference_numbers[kept]
    return rest


def merge(batch: Batch, parts: Sequence[Batch], outcomes: Sequence[Outcome]) -> Scores:
    """Return the scores of a batch from the outcomes of its parts; raise ScoringError with every issue."""
    issues = [*batch.issues]
    for part, outcome in zip(parts, outcomes, strict=True):
        if isinstance(outcome, ScoringError):
            issues += [in_batch(batch, part, issue) for issue in outcome.advice]
    if issues:
        raise error_of(in_order(issues))
    index, settings = batch.reference_index, batch.scorer.settings
    assert index is not None
    if batch.task == SCORE:
        (columns,) = outcomes
        assert isinstance(columns, Columns)
        scorers = batch.configurations.values()
        scores, *configs = [
            scores_of(columns, k, index, scorer.settings, batch.groups) for k, scorer in enumerate(scorers)
        ]
        scores.configs = configs
        return scores
    codes = batch.task_codes if batch.task is None else np.full(batch.size, reward_of(batch.task).number, np.uint8)
    assert codes is not None
    scores = Scores.zeros(codes, index, settings.advantage_ddof, batch.groups, batch.steps)
    for part, columns in zip(parts, outcomes, strict=True):
        assert isinstance(columns, Columns)
        scores.put(reward_of(part.task), slice(None) if part.rows is None else part.rows, columns)
    return scores


def in_batch(batch: Batch, part: Batch, issue: Issue) -> Issue:
    """Return an issue of a part with the number of its reference in the batch, and its task if rows have several."""
    if part.reference_numbers is not None and issue.path.startswith("references["):
        row = row_of(issue)
        issue = issue._replace(path=issue.path.replace(f"[{row}]", f"[{part.reference_numbers[row]}]", 1))
    if batch.task is not None:
        return issue
    if issue.path.startswith("config."):
        return issue._replace(path=issue.path.replace("config", f"config.{part.task}", 1))
    return issue._replace(detail=f"{part.task}: {issue.detail}")


def scores_of(
    columns: Columns,
    number: int,
    reference_index: np.ndarray,
    settings: ScoreSettings,
    groups: np.ndarray | None = None,
) -> Scores:
    """Return SCORE under the configuration of this number."""
    measured = columns.rewards[number], columns.reason_codes[number], columns.measures[number]
    steps = Steps(columns.steps[number]) if columns.steps else None
    return Scores(*measured, reference_index, advantage_ddof=settings.advantage_ddof, groups=groups, steps=steps)


def set_config(batch: Batch, scorer: Scorer, config: Mapping[str, Any]) -> None:
    """Set the configuration of a batch from elsewhere: settings that override the scorer's, and options of tasks."""
    settings, options = split_config(config, batch.task)
    batch.configurations = {"config": scorer.columns}
    try:
        batch.configurations["config"] = scorer.with_overrides(settings).columns
    except InvalidSetting as error:
        batch.issues += error.issues
    set_options(batch, options, remote=True)


ADD = '{"action": "add", "objects": ["lysis buffer"], "parameters": ["5 ml"]}'
SPIN = '{"action": "centrifuge", "objects": ["lysate"], "parameters": ["300 × g", "5 min"]}'
REFERENCE = f"Step 1: {ADD}\nStep 2: {SPIN}"

ADD_PROSE = "Add 5 milliliters of Lysis Buffer."
SPIN_PROSE = "Centrifuge the lysate at 300×g for 5min."


def answer(first: str, second: str, first_prose: str, second_prose: str) -> str:
    return (
        f"<think>…</think><key>\nStep 1: {first}\nStep 2: {second}\n</key>"
        f"<orc>\nStep 1: {first_prose}\nStep 2: {second_prose}\n</orc><note>-</note>"
    )


EXPECTED = (
    # the reference itself: SCORE 2.5, the maximum
    (answer(ADD, SPIN, ADD_PROSE, SPIN_PROSE), 1.0, "ok"),
    # swapped: order 0; one anchor (1, 2) with m = 1 - (1/2)^1.5, Obj = Par = 1
    (answer(SPIN, ADD, SPIN_PROSE, ADD_PROSE), 1.5 * (1 - 0.5**1.5) / 2.5, "ok"),
    # the second step's prose leaves out its words
    (answer(ADD, SPIN, ADD_PROSE, "Spin it down."), 0.0, "low_coverage"),
    ("Add buffer, then spin.", 0.0, "missing_sections"),
)
"""Responses with their rewards under the default settings, derived by hand from docs/rules.md, and their reasons."""


class SelfTestFailed(AssayError):
    """Scoring gave other rewards than the known ones, or a body did not decode to what was sent."""


def run_self_test() -> None:
    """Score the example; raises SelfTestFailed naming the first response whose result differs."""
    scores = Scorer(ScoreSettings()).score([response for response, _, _ in EXPECTED], [REFERENCE])
    results = zip(scores.rewards.tolist(), scores.reasons, strict=True)
    for k, ((reward, reason), (_, expected, why)) in enumerate(zip(results, EXPECTED, strict=True)):
        if not math.isclose(reward, expected, rel_tol=0, abs_tol=1e-9) or str(reason) != why:
            raise SelfTestFailed(f"self-test response {k}: {reward!r} {reason}, but {expected!r} {why} is right")
