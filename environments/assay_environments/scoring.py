"""Prepared rows, and scores, explanations and evaluations of their answers by a service.

A failure raises AssayError and is never a reward. Errors name rows by their `id`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from assay_client import AsyncClient, Score
from assay_client.adapters.common import async_client, sync_client
from assay_client.errors import InvalidRequest
from assay_client.requests import dumps
from assay_client.results import Scores
from assay_client.settings import MIXED
from assay_client.tasks import OWN_COMPONENTS, SCORE

ROWS_VARIABLE = "ASSAY_ROWS"
"""Environment variable with the path of the rows, where a framework passes none."""

COLUMNS = ("group", "level", "type", "split")


@dataclass(frozen=True)
class PreparedRow:
    prompt: list[dict[str, str]]
    reference: str
    """Key lines for SCORE, else the record of the task as JSON."""
    task: str = "score"
    id: str = ""
    columns: dict[str, Any] = field(default_factory=dict)


def read_rows(
    path: str | os.PathLike[str] | None = None, split: str = "test", **where: object | None
) -> list[PreparedRow]:
    """Return the rows of a file of JSON lines, or of a split in the folder that `assay prepare` wrote.

    Parameters
    ----------
    path : path, optional
        By default the path in the environment variable ASSAY_ROWS.
    split : str, optional
        Name of the file in a folder, without its suffix.
    **where
        Values that the task or columns must have, as in `type="planning", level=2, task="score"`; None is any value.

    Raises
    ------
    ValueError
        If no path is given, if `where` names no column, if a line is not a row (the message names it), or if no row has
        the values.
    FileNotFoundError
        If there is no such file, or no such split as JSON lines in the folder.
    """
    unknown = set(where) - {"task", *COLUMNS}
    if unknown:
        raise ValueError(f"rows have no column {', '.join(sorted(unknown))}: they have task, {', '.join(COLUMNS)}")
    location = path or os.environ.get(ROWS_VARIABLE)
    if not location:
        raise ValueError(f"no path of prepared rows: pass it, or set {ROWS_VARIABLE}")
    criteria = {name: str(value) for name, value in where.items() if value is not None}
    file = _file_of(Path(location), split)
    with file.open(encoding="utf-8") as lines:
        rows = list(_rows_of(lines, file))
    chosen = [row for row in rows if all(_text(row, name) == criteria[name] for name in criteria)]
    if not chosen:
        there = "; ".join(f"{name}: {', '.join(sorted({_text(row, name) for row in rows}))}" for name in criteria)
        raise ValueError(f"{file} has no row" + (f" with {criteria}; it has {there}" if criteria else ""))
    return chosen


def _file_of(path: Path, split: str) -> Path:
    file = path / f"{split}.jsonl" if path.is_dir() else path
    if file.suffix == ".parquet" or (not file.exists() and file.with_suffix(".parquet").exists()):
        raise ValueError(f"{path} has rows as Parquet; write JSON lines: assay prepare --trainer trl")
    if not file.exists():
        raise FileNotFoundError(f"no prepared rows at {file}")
    return file


def _text(row: PreparedRow, name: str) -> str:
    return row.task if name == "task" else str(row.columns.get(name))


def _rows_of(lines: Iterable[str], file: Path) -> Iterator[PreparedRow]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _row_of(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{file}:{number}: not a row of assay prepare: {error}") from None


def _row_of(record: Any) -> PreparedRow:
    """Return a row as TRL reads it, or as prime-rl does, where all but prompt and answer is in `info`."""
    if not isinstance(record, dict):
        raise ValueError("it is no object")
    info = record.get("info") or {}
    if not isinstance(info, dict):
        raise ValueError("its info must be an object")
    about = {**record, **info}
    prompt = record.get("prompt")
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not (isinstance(messages, list) and messages and all(map(_is_message, messages))):
        raise ValueError("its prompt must be a text, or a list of messages with role and content")
    reference = about.get("reference", about.get("answer"))
    if isinstance(reference, list):  # of alternatives, as their object in text
        reference = json.dumps({"any_of": reference}, ensure_ascii=False)
    if not isinstance(reference, str):
        raise ValueError("its reference (or answer) must be a text, or a list of alternatives")
    columns = {name: about[name] for name in COLUMNS if about.get(name) not in (None, "")}
    name = about.get("id")
    return PreparedRow(messages, reference, about.get("task") or "score", "" if name is None else str(name), columns)


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("role", "content"))


Scored = Score
"""The client's score of one response, with only the components that its task has."""

Config = Mapping[str, Any]
"""Settings of the reward that override the client's: SCORE's by name, another task's under its name."""


def score_responses(
    rows: Sequence[PreparedRow], responses: Sequence[str], config: Config | None = None
) -> list[Scored]:
    """Return the scores of the response to each row, from one request."""
    scores = sync_client().score(responses, [row.reference for row in rows], **_arguments(rows, config))
    return _scored(scores)


async def score_responses_async(
    rows: Sequence[PreparedRow], responses: Sequence[str], config: Config | None = None
) -> list[Scored]:
    scores = await async_client().score(responses, [row.reference for row in rows], **_arguments(rows, config))
    return _scored(scores)


async def score_response_async(row: PreparedRow, response: str, config: Config | None = None) -> Scored:
    """Return the score of the response to one row; concurrent calls share requests, whatever their tasks."""
    client = async_client()
    if config:  # as the client's own settings: with settings of a call, requests would hold one task each
        client = async_client(config=client.settings.merged(config, MIXED))
    return _with_own_components(await client.score_one(response, row.reference, record=row.id or None, task=row.task))


def _arguments(rows: Sequence[PreparedRow], config: Config | None) -> dict[str, Any]:
    return {
        "records": [row.id or number for number, row in enumerate(rows)],
        "task": [row.task for row in rows],
        "config": config,
    }


def _scored(scores: Scores) -> list[Scored]:
    return list(map(_with_own_components, scores.rows()))


def _with_own_components(score: Score) -> Scored:
    """Remove the components of other tasks, which are 0 in a mixed batch: they would distort means."""
    return score._replace(components={name: score.components[name] for name in OWN_COMPONENTS[score.task]})


def metrics_of(score: Scored) -> dict[str, float]:
    shares = {"score_passed": score.passed, "score_readable": float(score.reason == "ok")}
    return shares | {f"score_{name}": value for name, value in score.components.items()}


_reasons: WeakKeyDictionary[AsyncClient, dict[str, dict[str, str]]] = WeakKeyDictionary()


async def explanation(row: PreparedRow, response: str, score: Scored) -> str:
    client = async_client()
    if row.task == SCORE:
        try:
            return await _explained(client, row, response)
        except InvalidRequest:  # the response is longer than what the service explains, and has a reason all the same
            pass
    if client not in _reasons:
        about = await client.request("/v1/tasks")
        _reasons[client] = {task["name"]: task["reward"]["reasons"] for task in about["tasks"] if task["reward"]}
    parts = ", ".join(f"{name} {value:.4f}" for name, value in score.components.items())
    return f"Reward {score.reward:.4f} ({parts}): {_reasons[client][row.task][score.reason]}"


async def _explained(client: AsyncClient, row: PreparedRow, response: str) -> str:
    config = json.loads(client.settings.merged(None))
    asked = {"response": response, "reference": row.reference, "config": config, "suggestions": 0}
    reply = await client.request("/v1/explain", asked)
    failure, headline = reply["failure"], str(reply["headline"])
    return headline if failure is None else f"Fails the {failure['gate']} gate ({failure['reason']}). {headline}"


METRICS = {
    SCORE: ("semantic_a", "order_lcs", "order_s", "order_tau", "step_m"),
    "bioprobench.pqa": ("accuracy", "brier", "failed", "accuracy_over_all"),
    "bioprobench.ord": ("exact_match", "kendall_tau", "kendall_tau_macro", "failed", "exact_match_over_all"),
    "bioprobench.err": ("accuracy", "precision", "recall", "f1", "failed", "accuracy_over_all"),
}


def record_of(row: PreparedRow, response: str) -> bytes:
    if row.task == SCORE:
        return dumps({"reference": row.reference, "response": response})
    return dumps({**_benchmark_record(row), "generated_response": response})


def _benchmark_record(row: PreparedRow) -> dict[str, Any]:
    try:
        record = json.loads(row.reference)
    except ValueError:
        record = None
    if isinstance(record, dict):
        return record
    if row.task == "bioprobench.err":
        return {"is_correct": row.reference.strip().lower() == "true"}
    return {"answer": row.reference}


def evaluate(task: str, records: Sequence[bytes]) -> dict[str, Any]:
    """Return the service's evaluation of records of one task: `aggregate` and `per_record`, a value each or None."""
    client = sync_client()
    options = json.loads(client.settings.merged(None, task))
    if task == SCORE:  # settings of the reward: one is an option of the evaluation too
        options = {name: value for name, value in options.items() if name == "think_prefilled"}
    about = dumps({"task": task, "options": {**options, "metrics": METRICS[task]}})
    return client.request("/v1/evaluate", about[:-1] + b',"records":[' + b",".join(records) + b"]}")
