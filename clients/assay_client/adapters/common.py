"""Helpers shared by the adapters: per-process clients and conversion of trainer arguments."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from ..client import AsyncClient, Client
from ..errors import InvalidRequest, Issue, TooLarge, invalid, invalid_setting
from ..exchange import BaseClient
from ..results import COMPONENTS, Score, Scores, reason_code
from ..settings import VARIABLES

__all__ = [
    "FREQUENT_REASONS",
    "METRICS",
    "async_client",
    "column_of",
    "completion_text",
    "means_of",
    "metrics_of",
    "none_on_failure",
    "pairs_of",
    "record_of",
    "records_of",
    "reference_of",
    "required",
    "score_rows",
    "sync_client",
]

C = TypeVar("C", bound=BaseClient)

FREQUENT_REASONS = (
    "think_not_opened",
    "missing_sections",
    "bad_step_line",
    "bad_step_json",
    "bad_step_schema",
    "step_count",
    "low_coverage",
)
"""Reasons with a separate metric, 1 or 0: trainers average metrics, and its mean is the share of the reason."""

REASON_METRICS = ("score_reason_code", "score_readable", *(f"score_reason_{name}" for name in FREQUENT_REASONS))
COMPONENT_METRICS = tuple(f"score_{name}" for name in COMPONENTS)
METRICS = REASON_METRICS + COMPONENT_METRICS
"""Names of the metrics besides the reward; the prefix distinguishes them from a trainer's own."""

REFERENCE_COLUMNS = ("reference", "ground_truth", "solution", "answer", "label")
"""Columns of a data set that may hold the reference, unless ASSAY_CLIENT_REFERENCE names one."""

RECORD_COLUMNS = ("id", "index", "uid", "query_id")
"""Columns of a data set that may hold the name of a record."""

_clients: dict[Hashable, BaseClient] = {}


def sync_client(**given: Any) -> Client:
    """Return this process's client for the current environment, with the settings `given`."""
    return shared_client(Client, given)


def async_client(**given: Any) -> AsyncClient:
    """Return the asynchronous client for the same settings as `sync_client`."""
    return shared_client(AsyncClient, given)


def shared_client(kind: type[C], given: dict[str, Any]) -> C:
    """Return a cached client, looked up by unparsed variables: parsing them for every sample would be slow."""
    key = (kind, tuple(map(os.environ.get, VARIABLES)), tuple(given.items()))
    client = _clients.get(key)
    if client is None:
        client = _clients.setdefault(key, kind(**given))
    return client  # type: ignore[return-value]


def metrics_of(score: Score) -> dict[str, float]:
    """Return the metrics besides the reward, always with the same names: trainers fail if samples differ in them."""
    metrics = reason_metrics(score.reason).copy()
    metrics.update(zip(COMPONENT_METRICS, map(score.components.__getitem__, COMPONENTS), strict=True))
    return metrics


@lru_cache(maxsize=64)
def reason_metrics(reason: str) -> dict[str, float]:
    """Return the REASON_METRICS of a reason. Do not modify the cached result."""
    numbers = [reason_code(reason), *(reason == name for name in ("ok", *FREQUENT_REASONS))]
    return dict(zip(REASON_METRICS, map(float, numbers), strict=True))


def means_of(scores: Scores) -> dict[str, float]:
    """Return the means of the components and the shares of readable responses and of the frequent reasons.

    Empty for an empty batch.
    """
    n = len(scores)
    if not n:
        return {}
    components = scores.components or {}
    means = {f"score/{name}": sum(components[name]) / n for name in COMPONENTS}
    means["score/readable"] = scores.reasons.count("ok") / n
    return means | {f"score/reason_{name}": scores.reasons.count(name) / n for name in FREQUENT_REASONS}


def reference_of(given: Any) -> Any:
    """Convert a reference to text or steps of built-in types; arrays may be those of NumPy and the like.

    Return anything else unchanged: the client reports it.
    """
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        return to_builtin(given)
    if isinstance(given, (list, tuple)) or hasattr(given, "tolist"):
        steps = to_builtin(given)
        return {"steps": steps} if isinstance(steps, list) else steps
    return given


def to_builtin(value: Any) -> Any:
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy, Arrow and PyTorch
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): to_builtin(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_builtin(inner) for inner in value]
    return value


def completion_text(completion: Any) -> str:
    """Return the text of a completion; of chat messages, that of the last assistant message.

    Reasoning that a parser has separated from the text is put back between <think> and </think>.
    """
    if isinstance(completion, str):
        return completion
    messages = [completion] if isinstance(completion, Mapping) else list(completion)
    replies = [message for message in messages if message.get("role", "assistant") == "assistant"]
    if not replies:
        return ""
    message = replies[-1]
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)
    reasoning = message.get("reasoning_content") or message.get("thinking")
    return f"<think>{reasoning}</think>{text}" if reasoning and "<think>" not in text else text


def column_of(columns: Mapping[str, Any], name: str | None = None) -> Any:
    """Return the reference column of a row or a batch; raise InvalidReference if missing."""
    chosen = name or os.environ.get("ASSAY_CLIENT_REFERENCE")
    names: Iterable[str] = (chosen,) if chosen else REFERENCE_COLUMNS
    for candidate in names:
        if columns.get(candidate) is not None:
            return columns[candidate]
    detail = f"looked for {', '.join(names)} among {', '.join(sorted(columns)) or 'no columns'}"
    raise invalid([Issue("reference", "missing_column", f"{detail}; set ASSAY_CLIENT_REFERENCE to another name")])


def none_on_failure(given: bool | None) -> bool:
    """Return whether a trainer that supports None gets it instead of an exception (default: no)."""
    if given is not None:
        return given
    chosen = os.environ.get("ASSAY_CLIENT_ON_FAILURE", "raise")
    if chosen not in ("raise", "none"):
        raise invalid_setting("ASSAY_CLIENT_ON_FAILURE", "must be one of: raise, none")
    return chosen == "none"


def pairs_of(responses: Iterable[str], references: Sequence[Any]) -> tuple[list[str], list[Any]]:
    """Convert responses and references, and require equally many: trainers give every response a reference."""
    texts, converted = list(responses), [reference_of(reference) for reference in references]
    if len(texts) != len(converted):
        raise invalid([Issue("references", "length_mismatch", f"{len(converted)} for {len(texts)} responses")])
    return texts, converted


def record_of(row: Any) -> object:
    """Return the name or number of a row in its data set, or None."""
    given = (row.get(name) for name in RECORD_COLUMNS) if isinstance(row, Mapping) else ()
    return next((to_builtin(name) for name in given if name is not None), None)


def records_of(columns: Mapping[str, Any], n: int) -> list[object] | None:
    """Return the names of n rows from the first column that has them, or None."""
    for name in RECORD_COLUMNS:
        given = to_builtin(columns.get(name))
        if isinstance(given, list) and len(given) == n:
            return given
    return None


async def score_rows(
    client: BaseClient,
    texts: Sequence[str],
    references: Sequence[Any],
    records: Sequence[object] | None,
    rows: Sequence[int],
    config: Mapping[str, Any] | None = None,
) -> Scores:
    """Return the scores of some rows of a batch; errors have positions in the whole batch."""
    pairs = [texts[k] for k in rows], [references[k] for k in rows]
    try:
        return await client._score(*pairs, config=config, records=records and [records[k] for k in rows])
    except InvalidRequest as error:
        issues = []
        for issue in error.issues:
            column, k, rest = issue.element
            issues.append(issue._replace(path=f"{column}[{rows[k]}]{rest}") if 0 <= k < len(rows) else issue)
        if isinstance(error, TooLarge) or issues == list(error.issues):
            raise
        raise invalid(issues, status=error.status, request_id=error.request_id) from None


def required(reference: Any, record: object = None) -> Any:
    """Return the converted reference; raise InvalidReference if it is None."""
    if reference is None:
        raise invalid([Issue("reference", "wrong_type", "the reference is missing")], record=record)
    return reference_of(reference)
