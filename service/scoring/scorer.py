"""Scoring in process: every interface of Assay uses this path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Unpack

import numpy as np
import orjson
from numpy.typing import NDArray

from ...kernels.column import TextColumn
from ...kernels.reading.references import References
from ...kernels.warmup import warmup
from ..settings import ScoreSettings, SettingOverrides
from .column_scorer import ColumnScorer, RowValidator
from .configurations import overridden_by_each, score_together
from .references import MAX_REFERENCE_BYTES
from .request import checked_request
from .scores import Scores
from .threads import usable_cores

__all__ = ["Scorer"]


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
        self.config_id = self.settings.config_id
        self.signature = self.settings.signature
        self.identity = {"config_id": self.config_id, "signature": self.signature}
        self._columns = ColumnScorer([self.settings], self.threads)
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
    ) -> Scores:
        """Score responses, each against its reference.

        Parameters
        ----------
        responses : sequence of str
            n responses of any content.
        references : sequence of str or mapping
            Each a whole answer, the lines of its key section, or ``{"steps": [...]}``; of other tasks, a record of
            their benchmark.
        reference_index : sequence of int or integer ndarray, shape (n,), optional
            The reference of each response. By default the only reference, or the one of the same position if there
            are n.
        groups : sequence of str or int, shape (n,), optional
            The group of each response, such as its prompt, for `Scores.advantages`; by default, its reference.
        task : str or sequence of str, shape (n,)
            The reward to compute, or that of each response (docs/metrics.md, Rewards).
        task_options : mapping, optional
            Options of that task; where each response has a task, options by the name of the task.

        Returns
        -------
        Scores
            Columns of length n, in the order of the responses. Those of other tasks have the components of all tasks,
            0 where a task lacks one, and reasons that each task numbers for itself.

        Raises
        ------
        InvalidRequest
            Names every response that is not a string, every unusable index or group, and every unknown task.
        InvalidReference
            Names every reference that cannot be parsed.
        InvalidSetting
            Names every unknown option of a task and every value out of range.
        """
        if task_options or not isinstance(task, str) or task != "score":
            from ..evaluate.mixed import score_tasks  # only here: a room above this one

            return score_tasks(self, responses, references, reference_index, groups, task, task_options)
        return self._columns.score_request(checked_request(responses, references, reference_index, groups))[0]

    def score_configs(
        self,
        configs: Sequence[Mapping[str, Any]],
        responses: Sequence[str],
        references: Sequence[Any],
        reference_index: Sequence[int] | NDArray[np.integer[Any]] | None = None,
        groups: Sequence[str | int] | NDArray[Any] | None = None,
    ) -> list[Scores]:
        """Score responses under several configurations, reading the texts once.

        Parameters
        ----------
        configs : sequence of mapping, at least one
            Each has settings that override this scorer's own, as in `with_overrides`.
        responses, references, reference_index, groups
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
            As `score` does. A reference that only some of the configurations refuse (`max_steps`) is named with those.
        """
        scorers = overridden_by_each(self.with_overrides, configs)
        request = checked_request(responses, references, reference_index, groups)
        settings = [scorer.settings for scorer in scorers]
        return score_together(settings, self.threads, lambda columns: columns.score_request(request))

    def score_columns(
        self,
        responses: TextColumn,
        references: TextColumn,
        reference_index: NDArray[np.int64],
        max_reference_bytes: int = MAX_REFERENCE_BYTES,
        validate_responses: RowValidator | None = None,
        validate_references: RowValidator | None = None,
    ) -> Scores:
        """Score columns of UTF-8 text; `reference_index` is int64 (n,). Raises as `score` does.

        Rows with a validator are validated right before they are read, on the thread that reads them.
        """
        validators = validate_responses, validate_references
        return self._columns.score_columns(responses, references, reference_index, max_reference_bytes, *validators)[0]

    def parse(self, references: TextColumn, max_bytes: int = MAX_REFERENCE_BYTES) -> References:
        """Parse references for `score_parsed`; raises InvalidReference naming every invalid one."""
        return self._columns.parse(references, max_bytes)

    def score_parsed(self, responses: TextColumn, references: References, reference_index: NDArray[np.int64]) -> Scores:
        """Score responses against parsed references; `reference_index` is int64 (n,)."""
        return self._columns.score_parsed(responses, references, reference_index)[0]


@lru_cache(maxsize=256)
def _cached_scorer(settings: ScoreSettings, threads: int, overrides: bytes) -> Scorer:
    return Scorer(settings.overridden(orjson.loads(overrides)), threads=threads)
