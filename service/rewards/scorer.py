"""The public scorer, and the self-test of a service before it is ready."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Unpack

import numpy as np
import orjson
from numpy.typing import NDArray

from ...kernels.column import TextColumn
from ...kernels.warmup import warmup
from ..errors import AssayError, InvalidSetting
from ..scoring.column_scorer import ColumnScorer
from ..scoring.configurations import overridden_by_each
from ..scoring.references import MAX_REFERENCE_BYTES, ReferenceTexts
from ..scoring.shares import Validate
from ..settings import ScoreSettings, SettingOverrides, usable_cores
from .batch import Batch, read_objects
from .batch_tasks import follow_labels, set_options, set_tasks, split_config
from .scores import Scores
from .scoring import score, scores_of


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

        validate: for columns that may be invalid; called with each of them if one is.
        """
        batch = Batch(
            responses=responses,
            references=ReferenceTexts(references),
            configurations={"config": self.columns},
            max_reference_bytes=max_reference_bytes,
            validate=validate,
            steps=steps,
        )
        batch.set_index(reference_index)
        return score(batch)

    def score_texts(
        self,
        responses: TextColumn,
        references: ReferenceTexts,
        reference_index: NDArray[np.int64],
        max_bytes: int = MAX_REFERENCE_BYTES,
        steps: bool = False,
    ) -> Scores:
        """Score responses against references of SCORE; `reference_index` is int64 (n,), each a valid index."""
        columns = self.columns.score(responses, references, reference_index, max_bytes, steps=steps)
        return scores_of(columns, 0, reference_index, self.settings)


@lru_cache(maxsize=256)
def _cached_scorer(settings: ScoreSettings, threads: int, overrides: bytes) -> Scorer:
    return Scorer(settings.overridden(orjson.loads(overrides)), threads=threads)


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
