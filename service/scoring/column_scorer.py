"""Scoring of text columns under configurations that read texts alike: every interface of Assay uses this path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ...kernels.column import TextColumn, frozen
from ...kernels.reading.references import References
from ...kernels.rules import Rules
from ...kernels.score import COMPONENTS, score_slice
from ...kernels.text.unicode_tables import tables
from ..errors import InvalidReference
from ..settings import ScoreSettings
from .reference_index import check_index
from .references import MAX_REFERENCE_BYTES, UNLIMITED, ReferenceReader, issues_of_all, parse_references
from .request import Request
from .scores import Scores
from .text_columns import borrowed_column, owned_column, reference_column, rows_of
from .threads import MIN_ROWS, Share, fill_all, fill_in_slices, shares_of
from .workspaces import borrow_workspace_for

__all__ = ["READING", "ColumnScorer", "configurations_of", "rules_of"]

ColumnSlice = Callable[[int, int], TextColumn]
"""Returns the texts [first, last) as a column that is valid until the same thread asks for the next."""

RowValidator = Callable[[int, int], None]
"""Raises if one of the rows [first, last) of a column is not valid UTF-8."""

READING = ("think_prefilled", "max_response_bytes", "max_steps")
"""The settings that decide what a text contains: configurations that agree in them share one reading."""

_SCALES = {"unit": 0, "raw": 1, "double": 2, "shift": 3}


class Outputs(NamedTuple):
    """The columns of n responses under k configurations, filled slice by slice."""

    rewards: np.ndarray  # float64 (k, n)
    reason_codes: np.ndarray  # uint8 (k, n)
    measures: np.ndarray  # float64 (k, 11, n)
    reference_index: np.ndarray  # int64 (n,), read only

    def put(self, first: int, part: Outputs) -> None:
        """Copy the rows of `part` to those from `first` on."""
        last = first + part.rewards.shape[1]
        self.rewards[:, first:last] = part.rewards
        self.reason_codes[:, first:last] = part.reason_codes
        self.measures[:, :, first:last] = part.measures


class ColumnScorer:
    """Scores columns under k configurations that agree in `READING`; each method returns k `Scores`, in their order.

    Immutable. Configurations whose content agrees are fastest side by side.
    """

    def __init__(self, settings: Sequence[ScoreSettings], threads: int) -> None:
        """Score one batch on up to `threads` threads; kernels must be compiled."""
        self._configurations = configurations_of([rules_of(each) for each in settings])
        self._ddofs = [each.advantage_ddof for each in settings]
        self._max_steps, self._max_response_bytes = settings[0].max_steps, settings[0].max_response_bytes
        self._threads = threads

    def score_request(self, request: Request) -> list[Scores]:
        """Score strings; raises InvalidReference naming every invalid reference."""
        column, strings, index = request.column, request.strings, request.reference_index
        if column is not None and request.malformed:
            raise InvalidReference(issues_of_all(column, request.malformed, self._max_steps))
        texts = request.responses
        shares = None if strings is None else shares_of(index, len(strings), self._threads)
        if strings is not None and shares is not None:
            slices = (lambda a, b: borrowed_column(texts[a:b])), (lambda a, b: borrowed_column(strings[a:b]))
            scores = self._score_shares(shares, *slices, index, MAX_REFERENCE_BYTES)
        else:
            column = reference_column(strings or []) if column is None else column
            scores = self._score_whole(owned_column(texts), column, index, MAX_REFERENCE_BYTES)
        for each in scores:
            each.groups = request.groups
        return scores

    def score_columns(
        self,
        responses: TextColumn,
        references: TextColumn,
        reference_index: np.ndarray,
        max_reference_bytes: int = MAX_REFERENCE_BYTES,
        validate_responses: RowValidator | None = None,
        validate_references: RowValidator | None = None,
    ) -> list[Scores]:
        """Score columns of UTF-8 text; `reference_index` is int64 (n,).

        Rows with a validator are validated right before they are read, on the thread that reads them. Raises
        InvalidRequest naming every index without a reference, and InvalidReference.
        """
        check_index(reference_index, references.rows)
        shares = shares_of(reference_index, references.rows, self._threads)
        if shares is None:
            for validate, rows in (validate_references, references.rows), (validate_responses, responses.rows):
                if validate is not None:
                    fill_in_slices(validate, rows, self._threads)
            return self._score_whole(responses, references, reference_index, max_reference_bytes)
        slices = validated_slices(responses, validate_responses), validated_slices(references, validate_references)
        return self._score_shares(shares, *slices, reference_index, max_reference_bytes)

    def parse(self, references: TextColumn, max_bytes: int = MAX_REFERENCE_BYTES) -> References:
        """Parse references for `score_parsed`; raises InvalidReference naming every invalid one."""
        return parse_references(references, self._max_steps, max_bytes, self._threads)

    def score_parsed(self, responses: TextColumn, references: References, reference_index: np.ndarray) -> list[Scores]:
        """Score responses against parsed references; `reference_index` is int64 (n,)."""
        outputs = self.empty(responses.rows, reference_index)
        fill_in_slices(partial(self.fill, outputs, responses, references), responses.rows, self._threads)
        return self.scores(outputs)

    def _score_whole(
        self, responses: TextColumn, references: TextColumn, reference_index: np.ndarray, max_reference_bytes: int
    ) -> list[Scores]:
        """Read all references, then score; few are read by this thread and scored against where they were read."""
        if references.rows > MIN_ROWS:
            return self.score_parsed(responses, self.parse(references, max_reference_bytes), reference_index)
        reader = ReferenceReader(references.rows, self._max_steps, max_reference_bytes)
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
    ) -> list[Scores]:
        """Score share by share: a thread encodes or validates texts right before it reads them."""
        outputs = self.empty(reference_index.shape[0], reference_index)
        reader = ReferenceReader(shares[-1].last, self._max_steps, max_reference_bytes)

        def fill(first: int, last: int, first_response: int, last_response: int) -> None:
            expected = as_kernel_views(reader.read(references(first, last), first))
            if reader.failed:
                return  # `check` will raise
            rows = last_response - first_response
            part = self.empty(rows, reference_index[first_response:last_response] - first)
            self.fill(part, responses(first_response, last_response), expected, 0, rows)
            outputs.put(first_response, part)

        fill_all(fill, shares, self._threads)
        reader.check()
        return self.scores(outputs)

    def empty(self, rows: int, reference_index: np.ndarray) -> Outputs:
        """Return uninitialised columns for `rows` responses, to be filled slice by slice."""
        shape = len(self._ddofs), rows
        measures = np.empty((shape[0], len(COMPONENTS), rows))
        return Outputs(np.empty(shape), np.empty(shape, np.uint8), measures, frozen(reference_index, np.int64))

    def fill(self, outputs: Outputs, responses: TextColumn, references: References, first: int, last: int) -> None:
        """Score the responses [first, last) into `outputs`; threads may fill different slices concurrently."""
        texts = rows_of(responses, first, last)
        workspace = borrow_workspace_for(texts, self._max_response_bytes, references.widest)
        score_slice(
            outputs.rewards,
            outputs.reason_codes,
            outputs.measures,
            first,
            last,
            *responses,
            outputs.reference_index,
            references,
            self._configurations,
            tables(),
            workspace,
        )

    def scores(self, outputs: Outputs) -> list[Scores]:
        """Return the columns of each configuration."""
        rewards, codes, measures, index = outputs
        return [Scores(rewards[k], codes[k], measures[k], index, ddof) for k, ddof in enumerate(self._ddofs)]


def validated_slices(column: TextColumn, validate: RowValidator | None) -> ColumnSlice:
    """Return a function of `first` and `last` that validates these rows of `column` and slices them out."""

    def validated(first: int, last: int) -> TextColumn:
        if validate is not None:
            validate(first, last)
        return rows_of(column, first, last)

    return validated


def as_kernel_views(references: References) -> References:
    """Return read-only views of references in their working memory, in the types that kernels expect."""
    views = References(*(column.view() for column in references))
    for view in views:
        view.setflags(write=False)
    return views


def configurations_of(rules: Sequence[Rules]) -> np.ndarray:
    """Return configurations as the rows that `score_slice` takes, float64 (k, 18), read only."""
    return frozen(np.array(rules, np.float64), np.float64)


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
