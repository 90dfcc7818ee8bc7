"""Helpers shared by the adapters: per-process clients, the tasks of rows, and conversion of trainer arguments."""

from __future__ import annotations

import copy
import os
import threading
from collections import deque
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from ..client import AsyncClient, BaseClient, Client
from ..errors import AssayError, InvalidRequest, Issue, TooLarge, Unavailable, invalid, invalid_setting
from ..messages import message_text
from ..requests import checked_sequence, object_in
from ..results import Scores
from ..settings import MAX_RUN, VARIABLES
from ..tasks import OWN_COMPONENTS, REWARD_TASKS, SCORE, SCORE_SETTINGS, TASK_COMPONENTS
from ..training_logs import run_name
from .metrics import PARTS, reward_parts

C = TypeVar("C", bound=BaseClient)
REFERENCE_COLUMNS = ("reference", "ground_truth", "solution", "answer", "label")
"""Columns of a data set that may hold the reference, unless ASSAY_CLIENT_REFERENCE names one."""

FORMS = ("steps", "any_of")
"""Members of a reference of SCORE that is an object; it has one of them."""

Batch = tuple[list[str], list[Any], "list[object] | None", "list[str] | None"]
"""Responses, references, records and tasks of all rows."""

RECORD_COLUMNS = ("id", "index", "uid", "query_id")
MISSING = object()
_clients: dict[Hashable, BaseClient] = {}
_filled_columns: set[str] = set()
"""Columns in which this process has seen references."""


def sync_client(run: Any = None, **settings: Any) -> Client:
    """Return this process's client; `run` is the trainer's name of the run, after ASSAY_CLIENT_RUN and a logger's."""
    return shared_client(Client, run, settings)


def async_client(run: Any = None, **settings: Any) -> AsyncClient:
    return shared_client(AsyncClient, run, settings)


def shared_client(kind: type[C], run: Any, settings: dict[str, Any]) -> C:
    """Return a cached client, looked up by unparsed variables: parsing them for every sample would be slow."""
    if not os.environ.get("ASSAY_CLIENT_RUN"):
        settings["run"] = valid_run(run_name() or run)
    key = (kind, tuple(map(os.environ.get, VARIABLES)), tuple(settings.items()))
    client = _clients.get(key)
    if client is None:
        client = _clients.setdefault(key, kind(**settings))
    return client  # type: ignore[return-value]


def valid_run(name: Any) -> str | None:
    """Return the name of a run in printable ASCII characters, with any others escaped; None if there is no name."""
    if name is None:
        return None
    return str(name).encode("unicode_escape").decode()[:MAX_RUN].strip() or None


def task_of(*rows: Any, record: object = None) -> str | None:
    """Return the task that the first of these with such a field names, SCORE if null; raise InvalidRequest.

    None if they have no such field, unless ASSAY_CLIENT_TASK names it: the run is one of SCORE alone then.
    """
    name, is_named = task_field()
    for row in rows:
        task = field_of(row, name)
        if task is not MISSING:
            return checked_task(task, "task", record)
    return SCORE if is_named else None


def tasks_of(columns: Mapping[str, Any], references: Sequence[Any], records: Sequence[object] | None) -> Any:
    """Return the tasks of rows as `task_of` does, or None without a column; rows without a reference may name any."""
    name, is_named = task_field()
    head = name if name in columns else name.partition(".")[0]
    if columns.get(head) is None:
        return [SCORE] * len(references) if is_named else None
    column = checked_sequence(to_builtin(columns[head]), head)
    if len(column) != len(references):
        raise invalid([Issue(head, "length_mismatch", f"{len(column)} for {len(references)} references")])
    tasks = []
    for k, (value, reference) in enumerate(zip(column, references, strict=True)):
        task = None if reference is None else field_of({head: value}, name)
        task_name = None if task is MISSING else task
        tasks.append(checked_task(task_name, f"task[{k}]", records and records[k]))
    return tasks


def task_field() -> tuple[str, bool]:
    """Return the field of a row that names its task, maybe with a path as in `metadata.task`, and whether it is set."""
    field = os.environ.get("ASSAY_CLIENT_TASK")
    return field or "task", bool(field)


def field_of(row: Any, path: str) -> Any:
    if not isinstance(row, Mapping):
        return MISSING
    if path in row:
        return row[path]
    head, _, tail = path.partition(".")
    return field_of(row.get(head), tail) if tail else MISSING


def checked_task(task: Any, path: str, record: object) -> str:
    if task is None:
        return SCORE
    if task not in REWARD_TASKS:
        names = ", ".join(REWARD_TASKS)
        detail = f"must be null or one of: {names}; ASSAY_CLIENT_TASK names another field of the rows"
        raise invalid([Issue(path, "unknown_task", detail)], record=record)
    return str(task)


def labelled(label: Any, metadata: Any = None, record: object = None) -> tuple[Any, str | None]:
    """Return the reference and the task of a label that may be an object, or its JSON text, with a member for the task.

    The reference is the member `reference`, else SCORE's `steps` or `any_of`, else the label without its task; the
    whole label if metadata have the task. Members that are null count as missing, as in a column of objects.
    """
    row, (field, _) = object_in(label), task_field()
    task = task_of(metadata, row, record=record)
    if task is None or row is None or field_of(metadata, field) is not MISSING:
        return label, task
    members = {name: value for name, value in row.items() if value is not None and name != field}
    if "reference" in members:
        return members["reference"], task
    forms = {name: members[name] for name in FORMS if name in members} if task == SCORE else {}
    return forms or members, task


def reference_of(reference: Any, task: str | None = None) -> Any:
    """Convert a reference to text, steps or a record of built-in types, also arrays of NumPy and the like.

    An array for SCORE holds alternatives if one of its elements is a text or has steps of its own, else steps. Members
    that are null count as missing where rows name their task, and beside steps or alternatives: objects of a column all
    have the same members. Return anything else unchanged: the client reports it.
    """
    if isinstance(reference, str):
        return reference
    if isinstance(reference, Mapping):
        members = to_builtin(reference)
        has_forms = any(members.get(name) is not None for name in FORMS)
        dropped = members.keys() if task is not None else FORMS if has_forms else ()
        return {name: value for name, value in members.items() if value is not None or name not in dropped}
    if task not in (None, SCORE):
        return to_builtin(reference)
    if isinstance(reference, (list, tuple)) or hasattr(reference, "tolist"):
        elements = to_builtin(reference)
        if isinstance(elements, list):
            return {"any_of" if any(map(is_alternative, elements)) else "steps": elements}
        return elements
    return reference


def is_alternative(element: Any) -> bool:
    return isinstance(element, str) or (isinstance(element, Mapping) and "steps" in element)


def to_builtin(value: Any) -> Any:
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy, Arrow and PyTorch
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): to_builtin(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_builtin(inner) for inner in value]
    return value


def completion_text(completion: Any) -> str:
    """Return a completion's text, of chat the last assistant's, with separated reasoning between <think> tags."""
    if isinstance(completion, str):
        return completion
    messages = [completion] if isinstance(completion, Mapping) else list(completion)
    replies = [message for message in messages if message.get("role", "assistant") == "assistant"]
    if not replies:
        return ""
    text, content = message_text(replies[-1]), replies[-1].get("content")
    if text is None and content and not (isinstance(content, (list, tuple)) and is_completion(content)):
        raise TypeError("the content of a chat message must be text or a list of its parts")
    return text or ""


COMPLETION = 'must be text or a list of chat messages, such as [{"role": "assistant", "content": "…"}]'


def texts_of(completions: Any, records: Sequence[object] | None = None, name: str = "completions") -> list[str]:
    """Return the text of each completion; raise InvalidRequest, which names those that are neither text nor chat."""
    texts: list[Any] = []
    issues = []
    for k, completion in enumerate(checked_sequence(completions, name)):
        try:
            texts.append(completion_text(completion) if is_completion(completion) else None)
        except (AttributeError, TypeError):
            texts.append(None)
        if not isinstance(texts[k], str):
            record = records[k] if records and k < len(records) else None
            detail = f"{COMPLETION}, not {kind_of(completion)}"
            issues.append(Issue(f"{name}[{k}]", "wrong_type", detail, record))
    if issues:
        raise invalid(issues)
    return texts


def is_completion(value: Any) -> bool:
    messages = value if isinstance(value, (list, tuple)) else [value]
    return isinstance(value, str) or all(isinstance(message, Mapping) for message in messages)


def kind_of(value: Any) -> str:
    """Return the type of a value in a few words that quote nothing of it."""
    if isinstance(value, (list, tuple)):
        return f"a list of {', '.join(sorted({type(element).__name__ for element in value}))}"
    return type(value).__name__


def checked_lengths(n: int, **columns: Any) -> None:
    """Raise InvalidRequest for a column that is not a list of one entry for each of n responses."""
    for name, column in columns.items():
        length = len(checked_sequence(column, name))
        if length != n:
            raise invalid([Issue(name, "length_mismatch", f"{length} for {n} responses")])


def check_options(options: Mapping[str, Any], where: str, place: str, known: Container[str] | None = None) -> None:
    """Raise InvalidSetting for a setting of the reward in the wrong place, and for any name that is not in `known`.

    Settings of the reward belong to `place`; the names of options stand after `where`.
    """
    issues = []
    for name in options:
        if name in SCORE_SETTINGS or name in REWARD_TASKS:
            detail = f"a setting of the reward belongs in {place}"
            issues.append(Issue(f"{where}{name}", "misplaced_setting", detail))
        elif known is not None and name not in known:
            detail = f"no such setting; those of the reward belong in {place}"
            issues.append(Issue(f"{where}{name}", "unknown_setting", detail))
    if issues:
        raise invalid(issues)


def check_columns(columns: Mapping[str, Any], n: int) -> None:
    """Raise InvalidSetting for a setting of the reward among the columns of n rows, where no function looks for it."""
    alone = {name: value for name, value in columns.items() if not is_column(value, n)}
    check_options(alone, "", "ASSAY_CLIENT_CONFIG")
    if "config" in alone:
        raise invalid_setting("config", "settings of the reward belong in ASSAY_CLIENT_CONFIG")


def is_column(value: Any, n: int) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, Mapping)) and len(value) == n


def references_of(columns: Mapping[str, Any]) -> Sequence[Any]:
    """Return the column of references of a batch; raise InvalidRequest.

    A usual name is a guess. If the column has no reference in this batch and had none in any, another one that has some
    may be meant: that is an error, except for the column `reference`, whose name leaves no doubt.
    """
    if os.environ.get("ASSAY_CLIENT_REFERENCE"):
        return checked_sequence(column_of(columns), "references")
    filled = {name: has_values(columns.get(name)) for name in REFERENCE_COLUMNS if columns.get(name) is not None}
    first = next(iter(filled), None)
    if first is not None and not filled[first] and first not in _filled_columns:
        other = next((name for name in filled if filled[name]), None)
        if other is not None and first != REFERENCE_COLUMNS[0]:
            detail = f"no row has a reference in this column, but the column {other} is filled"
            raise invalid([Issue(first, "empty_column", f"{detail}: set ASSAY_CLIENT_REFERENCE to {other} or {first}")])
    _filled_columns.update(name for name in filled if filled[name])
    return checked_sequence(column_of(columns), "references")


def has_values(column: Any) -> bool:
    return hasattr(column, "__len__") and any(value is not None for value in column)


def column_of(columns: Mapping[str, Any], name: str | None = None) -> Any:
    chosen = name or os.environ.get("ASSAY_CLIENT_REFERENCE")
    names: Iterable[str] = (chosen,) if chosen else REFERENCE_COLUMNS
    for candidate in names:
        if columns.get(candidate) is not None:
            return columns[candidate]
    detail = f"looked for {', '.join(names)} among {', '.join(sorted(columns)) or 'no columns'}"
    raise invalid([Issue("reference", "missing_column", f"{detail}; set ASSAY_CLIENT_REFERENCE to another name")])


def step_of(trainer_state: Any) -> int | None:
    """Return the step for which a trainer of Hugging Face's kind asks for rewards, None without its state."""
    step = getattr(trainer_state, "global_step", None)
    return None if step is None else int(step) + 1


def none_on_failure(argument: bool | None) -> bool:
    """Return whether a trainer that supports None gets it instead of an exception (default: no)."""
    if argument is not None:
        return argument
    chosen = os.environ.get("ASSAY_CLIENT_ON_FAILURE", "raise")
    if chosen not in ("raise", "none"):
        raise invalid_setting("ASSAY_CLIENT_ON_FAILURE", "must be one of: raise, none")
    return chosen == "none"


def pairs_of(
    responses: Iterable[str], references: Sequence[Any], tasks: Sequence[str] | None = None
) -> tuple[list[str], list[Any]]:
    """Convert responses and references, and require equally many: trainers give every response a reference."""
    texts = list(responses)
    if len(texts) != len(references):
        raise invalid([Issue("references", "length_mismatch", f"{len(references)} for {len(texts)} responses")])
    kinds = [None] * len(texts) if tasks is None else tasks
    return texts, [reference_of(reference, task) for reference, task in zip(references, kinds, strict=True)]


def batch_of(completions: Sequence[Any], columns: Mapping[str, Any]) -> Batch:
    """Return the batch of completions with the columns of their rows."""
    records = records_of(columns, len(checked_sequence(completions, "completions")))
    texts = texts_of(completions, records)
    check_columns(columns, len(texts))
    references = references_of(columns)
    tasks = tasks_of(columns, references, records)
    return (*pairs_of(texts, references, tasks), records, tasks)


def record_of(row: Any) -> object:
    names = (row.get(name) for name in RECORD_COLUMNS) if isinstance(row, Mapping) else ()
    return next((to_builtin(name) for name in names if name is not None), None)


def records_of(columns: Mapping[str, Any], n: int) -> list[object] | None:
    for name in RECORD_COLUMNS:
        names = to_builtin(columns.get(name))
        if isinstance(names, list) and len(names) == n:
            return names
    return None


async def score_rows(
    client: BaseClient,
    texts: Sequence[str],
    references: Sequence[Any],
    records: Sequence[object] | None,
    rows: Sequence[int],
    tasks: Sequence[str] | None = None,
    include: Sequence[str] = ("components",),
) -> Scores:
    """Return the scores of some rows of a batch; errors have positions in the whole batch."""
    pairs = [texts[k] for k in rows], [references[k] for k in rows]
    named = None if tasks is None else [tasks[k] for k in rows]
    try:
        of_rows = records and [records[k] for k in rows]
        return await client._score(*pairs, records=of_rows, task=named, include=include)
    except InvalidRequest as error:
        issues = []
        for issue in error.issues:
            column, k, suffix = issue.element
            issues.append(issue._replace(path=f"{column}[{rows[k]}]{suffix}") if 0 <= k < len(rows) else issue)
        if isinstance(error, TooLarge) or issues == list(error.issues):
            raise
        raise invalid(issues, status=error.status, request_id=error.request_id) from None


def required(reference: Any, record: object = None, task: str | None = None) -> Any:
    if reference is None:
        raise invalid([Issue("reference", "wrong_type", "the reference is missing")], record=record)
    return reference_of(reference, task)


REWARD = "reward"
PASSED = "passed"
NO_REWARDS = {"step_gap", "mean_words", "anchors", "quantity_errors", "brier", "confidence", "called_erroneous"}
"""The components where more is not better: they describe a response, or are a loss, such as `brier`."""

REWARD_COMPONENTS = tuple(name for name in TASK_COMPONENTS if name not in NO_REWARDS)

MAX_BATCHES = 64
"""Batches whose outcome some reward function may still ask for."""


class ComponentScores(NamedTuple):
    n: int
    rows: list[int]
    scores: Scores | None

    def rewards(self, name: str) -> list[float | None]:
        """Return REWARD, PASSED, a part or a component of each response; None without score or if its task lacks it."""
        rewards: list[float | None] = [None] * self.n
        if self.scores is None:
            return rewards
        if name == REWARD:
            column = self.scores.rewards
        elif name == PASSED:
            column = self.scores.passed
        elif name in PARTS:
            column = [reward_parts(score)[name] for score in self.scores.rows()]
        else:
            column = (self.scores.components or {}).get(name, [0.0] * len(self.rows))
        for row, value, task in zip(self.rows, column, self.scores.tasks, strict=True):
            if name in (REWARD, PASSED, *PARTS, *OWN_COMPONENTS[task]):
                rewards[row] = value
        return rewards


@dataclass(eq=False)
class SharedBatch:
    """A batch that is being scored or has been, and the names of the reward functions that have asked for it."""

    key: Any
    names: set[Hashable] = field(default_factory=set)
    outcome: Future[ComponentScores] = field(default_factory=Future)


class SharedBatches:
    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)  # another thread of the parent may have held the lock

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._batches: deque[SharedBatch] = deque(maxlen=MAX_BATCHES)
        self._names: set[Hashable] = set()

    def outcome(self, name: Hashable, key: Any, score: Callable[[], ComponentScores]) -> ComponentScores:
        """Return the outcome of the batch with this key, for which another function may have asked already.

        A function that asks twice asks for a new batch, even if it is equal. Raise as `score`, which is called for the
        first function: the others that are waiting raise the same error, and later ones call it again.
        """
        with self._lock:
            batches = (batch for batch in self._batches if name not in batch.names and batch.key == key)
            batch = next(batches, None)
            is_first = batch is None
            if batch is None:
                for complete in [old for old in self._batches if old.outcome.done() and old.names == self._names]:
                    self._batches.remove(complete)
                batch = SharedBatch(key)
                self._batches.append(batch)
            self._names.add(name)
            batch.names.add(name)
        if is_first:
            try:
                batch.outcome.set_result(score())
            except BaseException as error:  # for example Ctrl-C: do not leave the others waiting
                ended = Unavailable(f"no reward: the request of this batch ended with {type(error).__name__}")
                # A copy, because the traceback of the error holds the connections that it ended with.
                batch.outcome.set_exception(copy.copy(error) if isinstance(error, AssayError) else ended)
                with self._lock:
                    if batch in self._batches:
                        self._batches.remove(batch)
                raise
        return batch.outcome.result()
