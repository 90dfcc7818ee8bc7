"""Scoring in process: the one path that every face of Assay leads to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
from ..errors import InvalidReference, InvalidRequest, Issue
from ..settings import ScoreSettings
from .references import MAX_REFERENCE_BYTES, UNLIMITED, ReferenceReader, issues_of_all, parse_references
from .scores import Scores
from .shares import MIN_REFERENCES, Share, shares_of
from .text_columns import checked_texts, fresh_column, passing_column, reference_column, rows_of, shaped_references
from .threads import fill_all, fill_in_slices, usable_cores
from .workspaces import borrow_workspace_for

__all__ = ["Scorer", "resolve_reference_index"]

Cut = Callable[[int, int], TextColumn]
"""The texts [first, last) as a column that is read before the same thread asks for the next."""

Proof = Callable[[int, int], None]
"""Raises where the rows [first, last) of a column are no text."""

_SCALES = {"unit": 0, "raw": 1, "double": 2, "shift": 3}


class Scorer:
    """Exact SCORE rewards under one configuration. Immutable; threads and forked children may share one.

    >>> scores = Scorer(order="lcs").score(responses, references)   # doctest: +SKIP
    >>> scores.rewards, scores.reasons, scores.components["coverage"]   # doctest: +SKIP

    threads: how many may score one batch; all usable cores by default. Rewards do not depend on it.
    Raises InvalidSetting naming every unknown setting and every value out of range.
    """

    def __init__(
        self, settings: ScoreSettings | None = None, /, *, threads: int | None = None, **overrides: Any
    ) -> None:
        self.settings = ScoreSettings.checked(overrides, settings) if overrides or settings is None else settings
        self.threads = max(1, threads or usable_cores())
        self.config_id = self.settings.config_id
        self._rules = rules_of(self.settings)
        warmup()

    def with_overrides(self, overrides: Mapping[str, Any]) -> Scorer:
        """The scorer for this configuration with a request's `overrides`. Recent ones are remembered.

        Raises InvalidSetting, also for a limit above this configuration's own: see `ScoreSettings.overridden`.
        """
        if not overrides:
            return self
        try:
            key = orjson.dumps(overrides, option=orjson.OPT_SORT_KEYS)
        except TypeError:  # not JSON, so surely not settings: let the check say what is wrong
            return Scorer(self.settings.overridden(overrides), threads=self.threads)
        return _remembered(self.settings, self.threads, key)

    def score(
        self,
        responses: Sequence[str],
        references: Sequence[str | Mapping[str, Any]],
        reference_index: Sequence[int] | np.ndarray | None = None,
    ) -> Scores:
        """Score `responses` against `references`; response k against reference `reference_index[k]`.

        The index may be left out for one reference, or as many as responses. A reference is a whole answer, the
        lines of its key section, or {"steps": [...]}. Raises InvalidRequest or InvalidReference naming every offender.
        """
        plain = many_strings(references)
        expected, misshapen = shaped_references(references) if plain is None else (None, [])
        texts = checked_texts(responses)
        if expected is not None and misshapen:
            raise InvalidReference(issues_of_all(expected, misshapen, self.settings.max_steps))
        count = len(plain or ()) if expected is None else expected.rows
        index = resolve_reference_index(len(texts), count, reference_index)
        check_index(index, count)
        shares = None if plain is None else shares_of(index, count, self.threads)
        if plain is not None and shares is not None:
            cuts = (lambda a, b: passing_column(texts[a:b])), (lambda a, b: passing_column(plain[a:b]))
            return self._score_shares(shares, *cuts, index, MAX_REFERENCE_BYTES)
        column = reference_column(plain or []) if expected is None else expected
        return self.score_parsed(fresh_column(texts), self.parse(column), index)

    def _score_shares(
        self, shares: Sequence[Share], responses: Cut, references: Cut, reference_index: np.ndarray, most_bytes: int
    ) -> Scores:
        """Score share by share: a thread encodes or proves texts right before it reads them."""
        scores = self.blank(reference_index.shape[0], reference_index)
        reader = ReferenceReader(shares[-1].last, self.settings.max_steps, most_bytes)

        def fill(first: int, last: int, first_response: int, last_response: int) -> None:
            expected = seen(reader.read(references(first, last), first))
            if reader.failed:
                return  # there will be no scores
            part = self.blank(last_response - first_response, reference_index[first_response:last_response] - first)
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
        most_reference_bytes: int = MAX_REFERENCE_BYTES,
        prove_responses: Proof | None = None,
        prove_references: Proof | None = None,
    ) -> Scores:
        """Score columns of UTF-8 text; `reference_index` is int64 (n,). Raises as `score` does.

        Rows are proven right before they are read, on the thread that reads them, where that was not done before.
        """
        check_index(reference_index, references.rows)
        shares = shares_of(reference_index, references.rows, self.threads)
        if shares is None:
            for prove, rows in (prove_references, references.rows), (prove_responses, responses.rows):
                if prove is not None:
                    fill_in_slices(prove, rows, self.threads)
            return self.score_parsed(responses, self.parse(references, most_reference_bytes), reference_index)
        cuts = proven(responses, prove_responses), proven(references, prove_references)
        return self._score_shares(shares, *cuts, reference_index, most_reference_bytes)

    def parse(self, references: TextColumn, most_bytes: int = MAX_REFERENCE_BYTES) -> References:
        """Read references for `score_parsed`; raises InvalidReference naming every bad one."""
        return parse_references(references, self.settings.max_steps, most_bytes, self.threads)

    def score_parsed(self, responses: TextColumn, references: References, reference_index: np.ndarray) -> Scores:
        """Score responses against references that are parsed already."""
        scores = self.blank(responses.rows, reference_index)
        fill_in_slices(partial(self.fill, scores, responses, references), responses.rows, self.threads)
        return scores

    def blank(self, rows: int, reference_index: np.ndarray) -> Scores:
        """Columns for `rows` responses, to be filled slice by slice."""
        return Scores(
            np.empty(rows),
            np.empty(rows, np.uint8),
            np.empty((len(COMPONENTS), rows)),
            frozen(reference_index, np.int64),
            self.settings.advantage_ddof,
        )

    def fill(self, scores: Scores, responses: TextColumn, references: References, first: int, last: int) -> None:
        """Score the responses [first, last) into `scores`; threads may fill different slices of one batch at once."""
        texts = rows_of(responses, first, last)
        space = borrow_workspace_for(texts, self.settings.max_response_bytes, references.widest)
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
            space,
        )


def proven(column: TextColumn, prove: Proof | None) -> Cut:
    """Rows of `column`, each proven before it is cut out."""

    def cut(first: int, last: int) -> TextColumn:
        if prove is not None:
            prove(first, last)
        return rows_of(column, first, last)

    return cut


def many_strings(references: Any) -> list[str] | None:
    """The references in a list of our own, if all are strings, and so many that reading them by shares may be worth
    it.
    """
    held = list(references) if isinstance(references, list) else []
    return held if len(held) >= MIN_REFERENCES and set(map(type, held)) == {str} else None


def seen(references: References) -> References:
    """References that are still in the memory they were read in, as the types that kernels score with: read only."""
    return References(*(frozen(column, column.dtype.type) for column in references))


@lru_cache(maxsize=256)
def _remembered(settings: ScoreSettings, threads: int, overrides: bytes) -> Scorer:
    return Scorer(settings.overridden(orjson.loads(overrides)), threads=threads)


def rules_of(settings: ScoreSettings) -> Rules:
    """The settings as the numbers that kernels read."""
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
        position_decay=float(settings.position_decay),
        use_step_gap=settings.use_step_gap,
        use_length=settings.use_length,
        use_position=settings.use_position,
        use_order=settings.use_order,
        think_prefilled=settings.think_prefilled,
        max_response_bytes=min(settings.max_response_bytes, UNLIMITED),
        max_steps=min(settings.max_steps, UNLIMITED),
    )


def check_index(reference_index: np.ndarray, references: int) -> None:
    """Raise InvalidRequest naming every entry that names no reference."""
    outside = np.flatnonzero((reference_index < 0) | (reference_index >= references))
    if outside.size:
        detail = f"it is not an index of one of the {references} references"
        raise InvalidRequest(
            [Issue(f"reference_index[{row}]", "index_out_of_range", detail) for row in outside.tolist()]
        )


def resolve_reference_index(responses: int, references: int, given: Sequence[int] | np.ndarray | None) -> np.ndarray:
    """int64 (responses,): the given index, or its default for one reference or as many as responses.

    Raises InvalidRequest where there is no default, lengths do not fit, or an entry is not an integer.
    """
    if given is None:
        if references == responses:
            return np.arange(responses, dtype=np.int64)
        if references == 1:
            return np.zeros(responses, np.int64)
        detail = f"it is needed: there are {responses} responses and {references} references"
        raise InvalidRequest([Issue("reference_index", "missing", detail)])
    if isinstance(given, np.ndarray) and given.ndim == 1 and given.dtype.kind in "iu":
        index = given.astype(np.int64)
    else:
        index = _integers(given)
    if index.shape[0] != responses:
        detail = f"it has {index.shape[0]} entries for {responses} responses"
        raise InvalidRequest([Issue("reference_index", "wrong_length", detail)])
    return index


def _integers(given: Any) -> np.ndarray:
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise InvalidRequest([Issue("reference_index", "wrong_type", "a list of integers is needed")])
    if set(map(type, given)) == {int}:
        with suppress(OverflowError):
            return np.fromiter(given, np.int64, len(given))
    issues = [
        Issue(f"reference_index[{row}]", "wrong_type", "an integer is needed")
        for row, entry in enumerate(given)
        if not isinstance(entry, (int, np.integer)) or isinstance(entry, bool)
    ]
    if issues:
        raise InvalidRequest(issues)
    clipped = [entry if -1 <= entry < UNLIMITED else -1 for entry in given]
    return np.array(clipped, dtype=np.int64)
