"""What the adapters share: clients of this process, and what trainers hand over, read."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from ..async_client import AsyncClient
from ..batches import PLACE
from ..client import Client
from ..errors import AssayError, InvalidReference, InvalidRequest, InvalidSetting, Issue, TooLarge, invalid
from ..exchange import BaseClient
from ..results import COMPONENTS, Score, Scores, reason_code
from ..settings import VARIABLES

__all__ = [
    "FREQUENT_REASONS",
    "METRICS",
    "async_client",
    "column_of",
    "completion_text",
    "in_rows_of_batch",
    "means_of",
    "metrics_of",
    "none_on_failure",
    "pairs_of",
    "record_of",
    "records_of",
    "reference_of",
    "reference_place",
    "required",
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
"""Reasons with a number of their own, 1 or 0: trainers average numbers, and the mean of these is a share."""

REASON_METRICS = ("score_reason_code", "score_readable", *(f"score_reason_{name}" for name in FREQUENT_REASONS))
COMPONENT_METRICS = tuple(f"score_{name}" for name in COMPONENTS)
METRICS = REASON_METRICS + COMPONENT_METRICS
"""Names of the numbers beside the reward; the prefix keeps them apart from a trainer's own."""

REFERENCE_COLUMNS = ("reference", "ground_truth", "solution", "answer", "label")
"""Columns of a data set in which the reference is looked for, unless ASSAY_CLIENT_REFERENCE names one."""

RECORD_COLUMNS = ("id", "index", "uid", "query_id")
"""Columns of a data set by which an error names a record."""

_clients: dict[Hashable, BaseClient] = {}


def sync_client(**given: Any) -> Client:
    """This process's client for the settings in the environment now, with `given` laid over them."""
    return shared(Client, given)


def async_client(**given: Any) -> AsyncClient:
    """As `sync_client`."""
    return shared(AsyncClient, given)


def shared(kind: type[C], given: dict[str, Any]) -> C:
    """Found by the text of the variables: reading them anew for each of thousands of samples would show."""
    key = (kind, tuple(map(os.environ.get, VARIABLES)), tuple(given.items()))
    client = _clients.get(key)
    if client is None:
        client = _clients.setdefault(key, kind(**given))
    return client  # type: ignore[return-value]


def metrics_of(score: Score) -> dict[str, float]:
    """The numbers beside the reward, always the same names: trainers crash on keys that differ between samples."""
    numbers = numbers_of_reason(score.reason).copy()
    numbers.update(zip(COMPONENT_METRICS, map(score.components.__getitem__, COMPONENTS), strict=True))
    return numbers


@lru_cache(maxsize=64)
def numbers_of_reason(reason: str) -> dict[str, float]:
    """The REASON_METRICS of a reason; the caller changes a copy."""
    numbers = [reason_code(reason), *(reason == name for name in ("ok", *FREQUENT_REASONS))]
    return dict(zip(REASON_METRICS, map(float, numbers), strict=True))


def means_of(scores: Scores) -> dict[str, float]:
    """The mean of every component, the share of readable responses, and those of the frequent reasons.

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
    """A reference as the client takes it: text, or steps whose arrays may be NumPy's or anybody's.

    What cannot be one is given back as it is, for the client to name it.
    """
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        return plain(given)
    if isinstance(given, (list, tuple)) or hasattr(given, "tolist"):
        steps = plain(given)
        return {"steps": steps} if isinstance(steps, list) else steps
    return given


def plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy, Arrow and PyTorch
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def completion_text(completion: Any) -> str:
    """The text of a completion, given as text or as chat messages, of which the last assistant's counts.

    Where a parser has taken the reasoning out of the text, it is put back between <think> and </think>.
    """
    if isinstance(completion, str):
        return completion
    messages = [completion] if isinstance(completion, Mapping) else list(completion)
    spoken = [message for message in messages if message.get("role", "assistant") == "assistant"]
    if not spoken:
        return ""
    message = spoken[-1]
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)
    reasoning = message.get("reasoning_content") or message.get("thinking")
    return f"<think>{reasoning}</think>{text}" if reasoning and "<think>" not in text else text


def column_of(columns: Mapping[str, Any], name: str | None = None) -> Any:
    """The references among a row's or a batch's columns; raises InvalidReference where there are none."""
    wanted = name or os.environ.get("ASSAY_CLIENT_REFERENCE")
    names: Iterable[str] = (wanted,) if wanted else REFERENCE_COLUMNS
    for candidate in names:
        if columns.get(candidate) is not None:
            return columns[candidate]
    detail = f"looked for {', '.join(names)} among {', '.join(sorted(columns)) or 'no columns'}"
    raise invalid([Issue("reference", "missing_column", f"{detail}; ASSAY_CLIENT_REFERENCE names another")])


def none_on_failure(given: bool | None) -> bool:
    """Whether a trainer that knows None shall get it in place of an exception; the default is to raise."""
    if given is not None:
        return given
    chosen = os.environ.get("ASSAY_CLIENT_ON_FAILURE", "raise")
    if chosen not in ("raise", "none"):
        issue = Issue("ASSAY_CLIENT_ON_FAILURE", "invalid_setting", "must be one of: raise, none")
        raise InvalidSetting(f"{issue.path}: {issue.detail}", issues=[issue])
    return chosen == "none"


def pairs_of(responses: Iterable[str], references: Sequence[Any]) -> tuple[list[str], list[Any]]:
    """Both as the client takes them, and as many of one as of the other: a trainer never means one for all."""
    texts, read = list(responses), [reference_of(reference) for reference in references]
    if len(texts) != len(read):
        raise invalid([Issue("references", "length_mismatch", f"{len(read)} for {len(texts)} responses")])
    return texts, read


def record_of(row: Any) -> object:
    """A row's own name or number in its data set, where it has one."""
    given = (row.get(name) for name in RECORD_COLUMNS) if isinstance(row, Mapping) else ()
    return next((plain(name) for name in given if name is not None), None)


def records_of(columns: Mapping[str, Any], n: int) -> list[object] | None:
    """The names of n rows, where one of the batch's columns holds them."""
    for name in RECORD_COLUMNS:
        given = plain(columns.get(name))
        if isinstance(given, list) and len(given) == n:
            return given
    return None


def reference_place(issue: Issue) -> tuple[int, str]:
    """The number of the reference that an issue names, -1 if it names none, and the rest of its path."""
    found = PLACE.fullmatch(issue.path)
    return (int(found[2]), found[3]) if found and found[1] == "references" else (-1, issue.path)


def in_rows_of_batch(error: AssayError, rows: Sequence[int]) -> AssayError:
    """The error of a request that held some rows of a batch, with the numbers of rows as the batch has them."""
    if not isinstance(error, InvalidRequest) or isinstance(error, TooLarge):
        return error
    issues = [in_row_of_batch(issue, rows) for issue in error.issues]
    if issues == list(error.issues):
        return error
    return invalid(issues, status=error.status, request_id=error.request_id)


def in_row_of_batch(issue: Issue, rows: Sequence[int]) -> Issue:
    found = PLACE.fullmatch(issue.path)
    if found is None or int(found[2]) >= len(rows):
        return issue
    return issue._replace(path=f"{found[1]}[{rows[int(found[2])]}]{found[3]}")


def required(reference: Any, record: object = None) -> Any:
    """The reference; raises InvalidReference for a missing one."""
    if reference is None:
        error = invalid([Issue("reference", "wrong_type", "there is none")], record=record)
        assert isinstance(error, InvalidReference)
        raise error
    return reference_of(reference)
