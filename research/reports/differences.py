"""Pairs of records of two files, and the differences of their metrics.

Intervals are percentiles of the paired bootstrap (Efron and Tibshirani 1993, chapters 13 and 16). The rows of every
resample are those that `scipy.stats.bootstrap` draws for one sample from the same seed, so the intervals of mean
differences are its intervals. p-values are those of a sign-flip test; of a value that is not a mean of records, they
are from the bootstrap. Several answers to one question are not independent: then questions can be drawn and exchanged
instead, each with all its rows (Davison and Hinkley 1997, section 3.8).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import orjson

from ...service.records.rows.answers import record_id
from ...service.tasks.scirecipe_records import PROMPT_FIELDS
from ...service.tasks.task import Evaluation, Task, mean_of
from .inference import Interval, bootstrap_p, exchange_p, exchange_p_of_means, interval_of

HOW = {
    "id": "by their ids",
    "question": "by equal references and prompts",
    "position": "by position: they have neither ids nor questions in common",
}

NOT_OF_THE_QUESTION = {
    *("id", "type", "level", "action_new"),
    *("prediction_code", "prediction_functions", "responses", "score_token_logprobs", "LLM_judge"),
}
"""Fields of the tasks' records that label a question, or that come from the model or from its judge."""

SHARED_BY_MANY = {"answer", "choices", "is_correct", "criterion"}
"""Fields that do not tell questions apart: without others, it is unknown which record answers which question."""

Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Pairs of a file's records with the baseline's, in the order of the baseline.

    rows, baseline_rows: int64 (pairs,), the first record of each id. unpaired, baseline_unpaired: the other rows, in
    order.
    """

    by: str  # `id`, `question`, `position`; empty if nothing could be paired
    rows: np.ndarray
    baseline_rows: np.ndarray
    unpaired: list[int]
    baseline_unpaired: list[int]
    questions: np.ndarray  # int64 (pairs,): the number of the question of each pair, its own if it is unknown
    contradictory: list[int]  # pairs of equal ids whose references or prompts differ
    samples: tuple[list[np.ndarray], list[np.ndarray]] | None = None  # all int64 rows of each pair, if ids repeat

    @property
    def records(self) -> tuple[int, int]:
        if self.samples is None:
            return len(self.rows), len(self.rows)
        of_file, of_baseline = (sum(map(len, rows)) for rows in self.samples)
        return of_file, of_baseline

    @property
    def how(self) -> str:
        return HOW[self.by]


def pair_records(task: Task, records: Records, baseline: Records) -> Pairing:
    """Pair by id if all records have one, else by reference and prompt, else by position if the numbers are equal.

    Several records with the same id are one pair, because they are not independent. Several of the same question are
    paired in their order.
    """
    questions = [[question_of(task, record) for record in some] for some in (records, baseline)]
    ids = [[record_id(record) for record in some] for some in (records, baseline)]
    are_repeated = all(all(some) for some in ids) and any(len(set(some)) < len(some) for some in ids)
    if are_repeated and (pairing := pairs_of_ids(questions, *map(rows_by_key, ids))):
        return pairing
    candidates: dict[str, Sequence[Sequence[Any]]] = {"id": ids} if all(all(some) for some in ids) else {}
    if all(question.tells_apart for some in questions for question in some):
        candidates["question"] = questions
    if len(records) == len(baseline):
        candidates["position"] = [list(range(len(records)))] * 2
    matched = ((by, list(matches(keys, baseline_keys))) for by, (keys, baseline_keys) in candidates.items())
    by, pairs = next(((by, pairs) for by, pairs in matched if pairs), ("", []))
    rows, baseline_rows = np.array(pairs, np.int64).reshape(-1, 2).T
    return Pairing(
        by=by,
        rows=rows,
        baseline_rows=baseline_rows,
        unpaired=sorted(set(range(len(records))).difference(rows.tolist())),
        baseline_unpaired=sorted(set(range(len(baseline))).difference(baseline_rows.tolist())),
        questions=numbers_of_questions(questions[1], baseline_rows.tolist()),
        contradictory=[
            k for k, (row, other) in enumerate(pairs) if by == "id" and questions[0][row] != questions[1][other]
        ],
    )


def rows_by_key(keys: Sequence[str]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, []).append(row)
    return rows


def pairs_of_ids(
    questions: Sequence[Sequence[QuestionKey]], rows: Mapping[str, list[int]], baseline_rows: Mapping[str, list[int]]
) -> Pairing | None:
    """Return a pair for each id that both files have, with all records of this id; None without such an id."""
    shared = [key for key in baseline_rows if key in rows]
    if not shared:
        return None
    asked = [
        {questions[0][row] for row in rows[key]} | {questions[1][row] for row in baseline_rows[key]} for key in shared
    ]
    first = [baseline_rows[key][0] for key in shared]
    samples = tuple([np.array(some[key], np.int64) for key in shared] for some in (rows, baseline_rows))
    return Pairing(
        by="id",
        rows=np.array([rows[key][0] for key in shared], np.int64),
        baseline_rows=np.array(first, np.int64),
        unpaired=sorted(row for key, several in rows.items() if key not in baseline_rows for row in several),
        baseline_unpaired=sorted(row for key, several in baseline_rows.items() if key not in rows for row in several),
        questions=numbers_of_questions(questions[1], first),
        contradictory=[k for k, several in enumerate(asked) if len(several) > 1],
        samples=samples,  # type: ignore[arg-type]
    )


class QuestionKey(NamedTuple):
    """A value that records of different models share, and whether it tells questions apart."""

    digest: bytes  # digest of its fields, whose texts are long
    tells_apart: bool


def question_of(task: Task, record: Mapping[str, Any]) -> QuestionKey:
    names = sorted({*task.record.model_fields, *PROMPT_FIELDS} - {task.response, *NOT_OF_THE_QUESTION})
    fields = {name: value for name in names if (value := record.get(name)) is not None}
    option = orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY
    text = orjson.dumps(fields, default=repr, option=option)
    return QuestionKey(blake2b(text, digest_size=16).digest(), not fields.keys() <= SHARED_BY_MANY)


def numbers_of_questions(questions: Sequence[QuestionKey], rows: Sequence[int]) -> np.ndarray:
    """Return the number of the question of each row, in the order of their first rows; unknown ones all differ."""
    numbers: dict[Any, int] = {}
    keys = [questions[row] if questions[row].tells_apart else row for row in rows]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def matches(keys: Sequence[Any], baseline_keys: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of rows with equal keys, the first with the first and so on, in the order of the baseline."""
    rows: dict[Any, list[int]] = {}
    for row in reversed(range(len(keys))):
        rows.setdefault(keys[row], []).append(row)
    for baseline_row, key in enumerate(baseline_keys):
        if rows.get(key):
            yield rows[key].pop(), baseline_row


MAX_CELLS = 1 << 17  # rows of all resamples that are drawn at once: bounds the memory, and fits the cache


def weights(questions: np.ndarray, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield float64 (some, n), `resamples` rows in all: how often each resample holds each of the n rows.

    questions: int64 (n,), the number of each row's question, which is drawn with all its rows. If all differ, rows are
    drawn.
    """
    _, of_row = np.unique(questions, return_inverse=True)
    drawn = int(of_row.max()) + 1
    generator = np.random.default_rng(seed)
    some = max(1, MAX_CELLS // len(questions))
    for first in range(0, resamples, some):
        rows = generator.integers(0, drawn, (min(some, resamples - first), drawn))
        offsets = drawn * np.arange(len(rows))[:, None]
        counts = np.bincount((rows + offsets).ravel(), minlength=rows.size).reshape(rows.shape).astype(np.float64)
        yield counts if drawn == len(questions) else counts[:, of_row]


def means_of_differences(differences: np.ndarray, questions: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return float64 (resamples, k): the means of differences (n, k) without NaN, n at least 1, over each resample."""
    drawn = weights(questions, resamples, seed)
    return np.vstack([some @ differences / some.sum(axis=1, keepdims=True) for some in drawn])


def means_of_means(columns: Sequence[np.ndarray], questions: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return float64 (resamples,): the mean of the means of columns (n,) without NaN; NaN if a column has no value."""
    values = np.column_stack(columns)
    present = ~np.isnan(values)
    filled, present = np.where(present, values, 0.0), present.astype(np.float64)
    with np.errstate(invalid="ignore"):
        means = [(some @ filled) / (some @ present) for some in weights(questions, resamples, seed)]
    return np.asarray(np.vstack(means).mean(axis=1))


def statistics(
    statistic: Callable[[np.ndarray], Sequence[float]], questions: np.ndarray, resamples: int, seed: int
) -> np.ndarray:
    """Return float64 (resamples, k): any statistic of int64 rows below n over each resample."""
    rows = np.arange(len(questions))
    counts = (times.astype(np.int64) for some in weights(questions, resamples, seed) for times in some)
    return np.array([statistic(np.repeat(rows, times)) for times in counts], np.float64)


Column = tuple[np.ndarray, np.ndarray]  # the values of the model and of the baseline for each pair


class PairedSide(NamedTuple):
    """One model's side of the pairs: its evaluation, and the int64 rows of its records.

    samples: all rows of each pair, int64, if a pair has several; then its value is the mean over them.
    """

    evaluation: Evaluation
    rows: np.ndarray
    samples: Sequence[np.ndarray] | None = None

    def records(self, pairs: np.ndarray | None = None) -> np.ndarray:
        """Return the rows of all records, or of the records of some pairs, which may be named repeatedly."""
        if self.samples is None:
            return self.rows if pairs is None else self.rows[pairs]
        numbers = range(len(self.samples)) if pairs is None else pairs.tolist()
        return np.concatenate([self.samples[number] for number in numbers])

    def values(self, column: np.ndarray) -> np.ndarray:
        """Return the value of each pair: the mean of a column over its records that have a value."""
        if self.samples is None:
            values: np.ndarray = column[self.rows]
            return values
        means = [mean_of(column[rows]) for rows in self.samples]
        return np.array([math.nan if mean is None else mean for mean in means])

    def corpus(self, rows: np.ndarray) -> Mapping[str, float | None]:
        return self.evaluation.corpus(rows) if self.evaluation.corpus is not None else {}

    def value(self, name: str) -> float | None:
        if self.samples is not None and self.is_mean_of_means(name):
            means = [mean_of(self.values(column)) for column in self.evaluation.over[name]]
            return None if None in means else sum(mean for mean in means if mean is not None) / len(means)
        corpus = self.corpus(self.records())
        column = self.evaluation.columns.get(name)
        return corpus[name] if name in corpus else None if column is None else mean_of(self.values(column))

    def count(self, name: str) -> int:
        """Return the number of records that a value is based on; if it has several columns, the shortest counts."""
        columns = self.evaluation.over.get(name) or [self.evaluation.columns[name]]
        return min(int((~np.isnan(self.values(column))).sum()) for column in columns)

    def column(self, name: str) -> np.ndarray | None:
        """Return the column whose mean a metric is, over the pairs; None if it is not a mean over records."""
        columns = (
            [self.evaluation.columns[name]] if name in self.evaluation.columns else self.evaluation.over.get(name, [])
        )
        return self.values(columns[0]) if len(columns) == 1 and self._is_mean_of(name, columns) else None

    def is_mean_of_means(self, name: str) -> bool:
        return bool(self.evaluation.over.get(name)) and self._is_mean_of(name, self.evaluation.over[name])

    def _is_mean_of(self, name: str, columns: Sequence[np.ndarray]) -> bool:
        """Compare over all pairs and over parts of them, where values that are equal by chance differ."""
        every = self.records()
        for rows in (every, every[::2], every[: len(every) // 2]):
            corpus = self.corpus(rows)
            means = [mean for column in columns if (mean := mean_of(column[rows])) is not None]
            if name in corpus and len(means) == len(columns) and not same(corpus[name], sum(means) / len(means)):
                return False
        return True


class Draws(NamedTuple):
    questions: np.ndarray
    resamples: int
    seed: int


class Difference(NamedTuple):
    """A model's value less the baseline's over n pairs. `units` are independent: pairs or questions.

    interval, p: None if there are too few units or values, or only equal ones.
    """

    metric: str
    n: int
    difference: float
    units: int
    interval: Interval | None
    p: float | None

    def document(self) -> dict[str, Any]:
        low, high = self.interval or (None, None)
        return {
            "metric": self.metric,
            "n": self.n,
            "difference": self.difference,
            "low": low,
            "high": high,
            "p": self.p,
        }


def differences(names: Iterable[str], model: PairedSide, baseline: PairedSide, draws: Draws) -> Iterator[Difference]:
    """Yield the difference of each metric that both have over the pairs, in the order of the names.

    A mean over records is compared over the pairs where both records have a value. Any other value is computed for
    both over all pairs, and again over each resample.
    """
    names = [name for name in names if model.value(name) is not None and baseline.value(name) is not None]
    means: dict[str, Column] = {}
    averages, recomputed = [], []
    for name in names:
        column, baseline_column = model.column(name), baseline.column(name)
        if column is not None and baseline_column is not None:
            means[name] = column, baseline_column
        elif model.is_mean_of_means(name) and baseline.is_mean_of_means(name):
            averages.append(name)
        else:
            recomputed.append(name)
    by_name = {difference.metric: difference for difference in of_means(means, draws)}
    by_name |= {name: of_mean_of_means(name, model, baseline, draws) for name in averages}
    by_name |= {difference.metric: difference for difference in of_any(recomputed, model, baseline, draws)}
    return (by_name[name] for name in names if name in by_name)


def of_means(columns: Mapping[str, Column], draws: Draws) -> Iterator[Difference]:
    """Yield the mean differences; metrics with values for the same pairs share the resamples."""
    questions, resamples, seed = draws
    by_pairs: dict[bytes, list[tuple[str, np.ndarray]]] = {}
    for name, (values, baseline) in columns.items():
        paired = ~(np.isnan(values) | np.isnan(baseline))
        if paired.any():
            by_pairs.setdefault(paired.tobytes(), []).append((name, (values - baseline)[paired]))
    for both, several in by_pairs.items():
        drawn_from = questions[np.frombuffer(both, bool)]
        matrix = np.column_stack([column for _, column in several])
        n, units = len(matrix), number_of(drawn_from)
        drawn = means_of_differences(matrix, drawn_from, resamples, seed) if units > 1 else None
        p = exchange_p(sums_of_units(matrix, drawn_from), resamples, seed) if units > 1 else None
        for k, (name, column) in enumerate(several):
            interval = None if drawn is None else interval_of(drawn[:, k], units)
            yield Difference(name, n, float(column.mean()), units, interval, None if p is None else float(p[k]))


def of_mean_of_means(name: str, model: PairedSide, baseline: PairedSide, draws: Draws) -> Difference:
    n, units = min(model.count(name), baseline.count(name)), number_of(draws.questions)
    columns = [[sample.values(column) for column in sample.evaluation.over[name]] for sample in (model, baseline)]
    interval = p = None
    if units > 1:
        drawn = [means_of_means(of_side, *draws) for of_side in columns]
        interval = interval_of(drawn[0] - drawn[1], units)
        of_model, of_baseline = (sums_and_counts(of_side, draws.questions) for of_side in columns)
        p = exchange_p_of_means(of_model, of_baseline, draws.resamples, draws.seed)
    return Difference(name, n, difference_of(model.value(name), baseline.value(name)), units, interval, p)


def of_any(names: list[str], model: PairedSide, baseline: PairedSide, draws: Draws) -> Iterator[Difference]:

    def statistic(rows: np.ndarray) -> list[float]:
        values, baseline_values = model.corpus(model.records(rows)), baseline.corpus(baseline.records(rows))
        return [difference_of(values[name], baseline_values[name]) for name in names]

    units = number_of(draws.questions)
    drawn = statistics(statistic, *draws) if names and units > 1 else None
    for k, name in enumerate(names):
        n = min(model.count(name), baseline.count(name))
        interval = None if drawn is None else interval_of(drawn[:, k], units)
        p = None if drawn is None else bootstrap_p(drawn[:, k], units)
        yield Difference(name, n, difference_of(model.value(name), baseline.value(name)), units, interval, p)


def difference_of(value: float | None, baseline: float | None) -> float:
    return math.nan if value is None or baseline is None else value - baseline


def number_of(questions: np.ndarray) -> int:
    """Return how many questions there are, int64 (n,); a question may have several rows."""
    return len(np.unique(questions))


def sums_of_units(columns: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """Return float64 (units, k): the sums of columns (n, k) over the rows of each question."""
    _, of_row = np.unique(questions, return_inverse=True)
    return np.column_stack([np.bincount(of_row, column) for column in columns.T])


def sums_and_counts(columns: Sequence[np.ndarray], questions: np.ndarray) -> np.ndarray:
    """Return float64 (units, columns, 2): the sum and the number of the values of each column over each question."""
    pairs = (np.column_stack([np.nan_to_num(column), ~np.isnan(column)]) for column in columns)
    return np.stack([sums_of_units(pair, questions) for pair in pairs], axis=1)


def same(value: float | None, other: float | None) -> bool:
    """Return whether two values are equal but for rounding, which depends on the order of summation."""
    if value is None or other is None:
        return value is other
    return math.isclose(value, other, rel_tol=1e-12, abs_tol=1e-15)
