"""Which records of two files of answers belong together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import orjson

from ..evaluate.scirecipe_records import PROMPT_FIELDS
from ..evaluate.task import Task
from ..records.answers import record_id

__all__ = ["Pairing", "pair_records"]

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
    """Pairs of records of a file with those of the baseline, in the order of the baseline.

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
    questions: Sequence[Sequence[Question]], rows: Mapping[str, list[int]], baseline_rows: Mapping[str, list[int]]
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


class Question(NamedTuple):
    """What a record has in common with those of other models, and whether that tells questions apart."""

    digest: bytes  # digest of its fields, whose texts are long
    tells_apart: bool


def question_of(task: Task, record: Mapping[str, Any]) -> Question:
    names = sorted({*task.record.model_fields, *PROMPT_FIELDS} - {task.response, *NOT_OF_THE_QUESTION})
    fields = {name: value for name in names if (value := record.get(name)) is not None}
    option = orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY
    text = orjson.dumps(fields, default=repr, option=option)
    return Question(blake2b(text, digest_size=16).digest(), not fields.keys() <= SHARED_BY_MANY)


def numbers_of_questions(questions: Sequence[Question], rows: Sequence[int]) -> np.ndarray:
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
