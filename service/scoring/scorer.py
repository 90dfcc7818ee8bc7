"""Scoring in process: every interface of Assay uses this path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import orjson

from ...kernels.column import TextColumn, frozen
from ...kernels.reading.references import References
from ...kernels.rules import Rules
from ...kernels.score import COMPONENTS, score_slice
from ...kernels.text.unicode_tables import tables
from ...kernels.warmup import warmup
from ..errors import InvalidReference
from ..settings import ScoreSettings
from .reference_index import check_index, group_numbers, resolve_reference_index
from .references import MAX_REFERENCE_BYTES, UNLIMITED, ReferenceReader, issues_of_all, parse_references
from .scores import Scores
from .text_columns import borrowed_column, checked_texts, owned_column, reference_column, references_as_column, rows_of
from .threads import MIN_REFERENCES, MIN_ROWS, Share, fill_all, fill_in_slices, shares_of, usable_cores
from .workspaces import borrow_workspace_for

__all__ = ["Scorer", "rules_of"]

ColumnSlice = Callable[[int, int], TextColumn]
"""Returns the texts [first, last) as a column that is valid until the same thread asks for the next."""

RowValidator = Callable[[int, int], None]
"""Raises if one of the rows [first, last) of a column is not valid UTF-8."""

_SCALES = {"unit": 0, "raw": 1, "double": 2, "shift": 3}


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
        self, settings: ScoreSettings | None = None, /, *, threads: int | None = None, **overrides: Any
    ) -> None:
        self.settings = ScoreSettings.checked(overrides, settings) if overrides or settings is None else settings
        self.threads = max(1, threads or usable_cores())
        self.config_id = self.settings.config_id
        self.signature = self.settings.signature
        self.identity = {"config_id": self.config_id, "signature": self.signature}
        self._rules = rules_of(self.settings)
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
        reference_index: Sequence[int] | np.ndarray | None = None,
        groups: Sequence[str | int] | np.ndarray | None = None,
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
        strings = as_string_list(references)
        expected, malformed = references_as_column(references) if strings is None else (None, [])
        texts = checked_texts(responses)
        if expected is not None and malformed:
            raise InvalidReference(issues_of_all(expected, malformed, self.settings.max_steps))
        count = len(strings or ()) if expected is None else expected.rows
        index = resolve_reference_index(len(texts), count, reference_index)
        check_index(index, count)
        numbers = group_numbers(groups, len(texts))
        scores = self._score_texts(texts, strings, expected, index)
        scores.groups = numbers
        return scores

    def _score_texts(
        self, texts: list[str], strings: list[str] | None, expected: TextColumn | None, index: np.ndarray
    ) -> Scores:
        """Score strings against references that are strings, or else a column."""
        count = len(strings or ()) if expected is None else expected.rows
        shares = None if strings is None else shares_of(index, count, self.threads)
        if strings is not None and shares is not None:
            slices = (lambda a, b: borrowed_column(texts[a:b])), (lambda a, b: borrowed_column(strings[a:b]))
            return self._score_shares(shares, *slices, index, MAX_REFERENCE_BYTES)
        column = reference_column(strings or []) if expected is None else expected
        return self._score_whole(owned_column(texts), column, index, MAX_REFERENCE_BYTES)

    def _score_whole(
        self, responses: TextColumn, references: TextColumn, reference_index: np.ndarray, max_reference_bytes: int
    ) -> Scores:
        """Read all references, then score; few are read by this thread and scored against where they were read."""
        if references.rows > MIN_ROWS:
            return self.score_parsed(responses, self.parse(references, max_reference_bytes), reference_index)
        reader = ReferenceReader(references.rows, self.settings.max_steps, max_reference_bytes)
        expected = as_kernel_views(reader.read(references, 0))
        reader.check()
        return self.score_parsed(responses, expected, reference_index)

    def _score_shares(
        self,
        shares: Sequence[Share],
        responses: ColumnSlice,
        references: ColumnSlice,
        reference_index: np.ndarray,
        max_reference_bytes: int,
    ) -> Scores:
        """Score share by share: a thread encodes or validates texts right before it reads them."""
        scores = self.empty(reference_index.shape[0], reference_index)
        reader = ReferenceReader(shares[-1].last, self.settings.max_steps, max_reference_bytes)

        def fill(first: int, last: int, first_response: int, last_response: int) -> None:
            expected = as_kernel_views(reader.read(references(first, last), first))
            if reader.failed:
                return  # `check` will raise
            part = self.empty(last_response - first_response, reference_index[first_response:last_response] - first)
            self.fill(part, responses(first_response, last_response), expected, 0, len(part))
            scores.put(first_response, part)

        fill_all(fill, shares, self.threads)
        reader.check()
        return scores

    def score_columns(
        self,
        responses: TextColumn,
        references: TextColumn,
        reference_index: np.ndarray,
        max_reference_bytes: int = MAX_REFERENCE_BYTES,
        validate_responses: RowValidator | None = None,
        validate_references: RowValidator | None = None,
    ) -> Scores:
        """Score columns of UTF-8 text; `reference_index` is int64 (n,). Raises as `score` does.

        Rows with a validator are validated right before they are read, on the thread that reads them.
        """
        check_index(reference_index, references.rows)
        shares = shares_of(reference_index, references.rows, self.threads)
        if shares is None:
            for validate, rows in (validate_references, references.rows), (validate_responses, responses.rows):
                if validate is not None:
                    fill_in_slices(validate, rows, self.threads)
            return self._score_whole(responses, references, reference_index, max_reference_bytes)
        slices = validated_slices(responses, validate_responses), validated_slices(references, validate_references)
        return self._score_shares(shares, *slices, reference_index, max_reference_bytes)

    def parse(self, references: TextColumn, max_bytes: int = MAX_REFERENCE_BYTES) -> References:
        """Parse references for `score_parsed`; raises InvalidReference naming every invalid one."""
        return parse_references(references, self.settings.max_steps, max_bytes, self.threads)

    def score_parsed(self, responses: TextColumn, references: References, reference_index: np.ndarray) -> Scores:
        """Score responses against parsed references; `reference_index` is int64 (n,)."""
        scores = self.empty(responses.rows, reference_index)
        fill_in_slices(partial(self.fill, scores, responses, references), responses.rows, self.threads)
        return scores

    def empty(self, rows: int, reference_index: np.ndarray) -> Scores:
        """Return uninitialised columns for `rows` responses, to be filled slice by slice."""
        return Scores(
            np.empty(rows),
            np.empty(rows, np.uint8),
            np.empty((len(COMPONENTS), rows)),
            frozen(reference_index, np.int64),
            self.settings.advantage_ddof,
        )

    def fill(self, scores: Scores, responses: TextColumn, references: References, first: int, last: int) -> None:
        """Score the responses [first, last) into `scores`; threads may fill different slices concurrently."""
        texts = rows_of(responses, first, last)
        workspace = borrow_workspace_for(texts, self.settings.max_response_bytes, references.widest)
        score_slice(
            scores.rewards,
            scores.reason_codes,
            scores.measures,
            first,
            last,
            *responses,
            scores.reference_index,
            references,
            self._rules,
            tables(),
            workspace,
        )


def validated_slices(column: TextColumn, validate: RowValidator | None) -> ColumnSlice:
    """Return a function of `first` and `last` that validates these rows of `column` and slices them out."""

    def validated(first: int, last: int) -> TextColumn:
        if validate is not None:
            validate(first, last)
        return rows_of(column, first, last)

    return validated


def as_string_list(references: Any) -> list[str] | None:
    """Copy the references into a list if all are strings and there are enough to read share by share, else None."""
    copied = list(references) if isinstance(references, list) else []
    return copied if len(copied) >= MIN_REFERENCES and set(map(type, copied)) == {str} else None


def as_kernel_views(references: References) -> References:
    """Return read-only views of references in their working memory, in the types that kernels expect."""
    views = References(*(column.view() for column in references))
    for view in views:
        view.setflags(write=False)
    return views


@lru_cache(maxsize=256)
def _cached_scorer(settings: ScoreSettings, threads: int, overrides: bytes) -> Scorer:
    return Scorer(settings.overridden(orjson.loads(overrides)), threads=threads)


def rules_of(settings: ScoreSettings) -> Rules:
    """Return the settings as the numbers that kernels read."""
    return Rules(
        lcs_order=settings.order == "lcs",
        product_semantics=settings.semantics == "product",
        sum_total=settings.total == "sum",
        max_len_content=settings.content_denominator == "max_len",
        relative_length=settings.length_penalty == "relative",
        reward_scale=_SCALES[settings.reward_scale],
        largest_score=settings.largest_score,
        min_coverage=float(settings.min_coverage),
        max_mean_words=float(settings.max_mean_words),
        max_object_similarity=settings.object_similarity == "max",
        position_decay=float(settings.position_decay),
        use_step_gap=settings.use_step_gap,
        use_length=settings.use_length,
        use_position=settings.use_position,
        use_order=settings.use_order,
        think_prefilled=settings.think_prefilled,
        max_response_bytes=min(settings.max_response_bytes, UNLIMITED),
        max_steps=min(settings.max_steps, UNLIMITED),
    )
