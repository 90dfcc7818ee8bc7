"""Builds the body of `POST /v1/score`, with each distinct reference of a task once."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .errors import Issue, invalid
from .tasks import REWARD_TASKS, SCORE

try:
    import orjson
except ImportError:  # an optional extra
    orjson = None  # type: ignore[assignment]

SURROGATES = re.compile("[\ud800-\udfff]")


def dumps(value: Any) -> bytes:
    """Return JSON in UTF-8, with lone surrogates replaced by U+FFFD; raise TypeError or ValueError."""
    if orjson is not None:
        try:
            return orjson.dumps(value)
        except TypeError:  # a lone surrogate, or not JSON: json.dumps decides
            pass
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return SURROGATES.sub("\ufffd", text).encode()


def loads(body: bytes | bytearray) -> Any:
    """Return the value of a JSON text; raise ValueError, also for NaN, the infinities and too deep nesting."""
    if orjson is not None:
        return orjson.loads(body)
    try:
        return json.loads(body.decode(), parse_constant=reject_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


INCLUDES = ("components", "advantages", "steps")
NO_REFERENCE = Issue("reference", "wrong_type", 'a string, {"steps": [...]}, {"any_of": [...]} or their list is needed')
NO_TASK_REFERENCE = Issue("reference", "wrong_type", "a string, a record or a boolean is needed")
NO_RESPONSE = Issue("response", "wrong_type", "a string is needed")
NO_GROUP = Issue("groups", "wrong_type", "a string or an integer is needed")
NO_TASK = Issue("task", "unknown_task", f"must be one of: {', '.join(REWARD_TASKS)}")


@dataclass(frozen=True, kw_only=True)
class EncodedRequest:
    """The body of a request, and what is needed to read its reply."""

    body: bytes
    texts: Sequence[str]
    references: Sequence[str | bytes]
    index: list[int] | None
    """The position of the reference of each response; None if there is one reference or one for each."""
    config: str
    include: tuple[str, ...]
    groups: list[str | int] | None
    task: str | tuple[str, ...]
    caller_positions: tuple[tuple[int, ...], ...] | None
    """The positions in the caller's list of each reference sent; None if the lists are equal."""
    records: tuple[object, ...] | None = None
    """The caller's names for the responses, if each has a separate reference."""
    rows: tuple[int, ...] | None = None
    """The caller's position of each response; None if all are sent."""

    @property
    def responses(self) -> int:
        return len(self.texts)

    @property
    def reference_index(self) -> list[int]:
        if self.index is not None:
            return self.index
        return [0] * self.responses if len(self.references) == 1 else list(range(self.responses))

    @property
    def tasks(self) -> list[str]:
        return [self.task] * self.responses if isinstance(self.task, str) else list(self.task)

    def in_caller_terms(self, issues: Sequence[Issue]) -> list[Issue]:
        """Return issues with the caller's positions of references and its names for the records."""
        renamed = []
        for issue in issues:
            column, k, suffix = issue.element
            if column == "references" and self.caller_positions is not None and k < len(self.caller_positions):
                renamed += [issue._replace(path=f"references[{j}]{suffix}") for j in self.caller_positions[k]]
            elif column not in ("", "references") and self.rows is not None and k < len(self.rows):
                renamed.append(issue._replace(path=f"{column}[{self.rows[k]}]{suffix}"))
            else:
                renamed.append(issue)
        return with_records(renamed, self.records)

    def part(self, rows: Sequence[int]) -> EncodedRequest:
        """Return a request of some of these responses; its issues have the positions in the whole batch."""
        index = self.reference_index
        sent = sorted({index[k] for k in rows})
        position = {j: i for i, j in enumerate(sent)}
        request = assemble_request(
            [self.texts[k] for k in rows],
            [self.references[j] for j in sent],
            [position[index[k]] for k in rows],
            self.config,
            self.include,
            self.records,
            None if self.groups is None else [self.groups[k] for k in rows],
            self.task if isinstance(self.task, str) else tuple(self.task[k] for k in rows),
        )
        positions = self.caller_positions or [(j,) for j in range(len(self.references))]
        return replace(request, caller_positions=tuple(positions[j] for j in sent), rows=tuple(rows))

    def members_of_groups(self, rows: Sequence[int]) -> Sequence[int]:
        """Return the responses in the groups of `rows` if advantages are requested, which need them; else `rows`."""
        if "advantages" not in self.include:
            return rows
        groups = self.reference_index if self.groups is None else self.groups
        affected = {groups[k] for k in rows}
        return [k for k, group in enumerate(groups) if group in affected]


def score_request(
    responses: Sequence[str],
    references: Sequence[Any],
    reference_index: Sequence[int] | None,
    config: str,
    include: Iterable[str],
    records: Sequence[object] | None = None,
    groups: Sequence[Any] | None = None,
    task: str | Sequence[str] = SCORE,
) -> EncodedRequest:
    """Check and encode a batch; raise InvalidRequest for responses, references, groups and tasks that are invalid.

    `config` is JSON; `records` are names of the responses for errors. Equal references of a task are sent once, unless
    group advantages are requested without `groups`: these are the responses with the same `reference_index` then.
    """
    if isinstance(include, str) or not isinstance(include, Iterable):
        raise TypeError(f"include= must be a list of {', '.join(INCLUDES)}, not {type(include).__name__}")
    if records is not None and not hasattr(records, "__len__"):
        raise TypeError(f"records= must be a list, not {type(records).__name__}")
    columns = tuple(include)
    texts, entries = checked_sequence(responses, "responses"), checked_sequence(references, "references")
    tasks = task if isinstance(task, str) else tuple(checked_sequence(task, "task"))
    each = [tasks] * len(texts) if isinstance(tasks, str) else tasks
    is_paired = reference_index is None and len(entries) == len(texts) == len(each)
    # In a batch of several tasks, the service checks references that are not paired with a task.
    kinds = each if is_paired else [SCORE if all(name == SCORE for name in each) else ""] * len(entries)
    contents = [reference_content(reference, kind) for reference, kind in zip(entries, kinds, strict=True)]
    issues = [
        (NO_REFERENCE if kinds[k] == SCORE else NO_TASK_REFERENCE)._replace(path=f"references[{k}]")
        for k, content in enumerate(contents)
        if content is None
    ]
    issues += [
        NO_RESPONSE._replace(path=f"responses[{k}]") for k, text in enumerate(texts) if not isinstance(text, str)
    ]
    labels, wrong = read_groups(groups, len(texts))
    issues += wrong + task_issues(tasks, len(texts))
    issues += [Issue("include", "unknown_column", f"{name!r}") for name in columns if name not in INCLUDES]
    names = tuple(records) if records is not None and is_paired and len(records) == len(texts) else None
    if issues:
        raise invalid(with_records(issues, names))
    try:
        index = None if reference_index is None else [operator.index(k) for k in reference_index]
    except TypeError as error:
        raise TypeError(f"reference_index= must be a list of integers ({error})") from None
    encodable = [content for content in contents if content is not None]
    return assemble_request(texts, encodable, index, config, columns, names, labels, tasks)


def read_groups(groups: Any, n: int) -> tuple[list[str | int] | None, list[Issue]]:
    if groups is None:
        return None, []
    values = [value.item() if hasattr(value, "item") else value for value in checked_sequence(groups, "groups")]
    if len(values) != n:
        return None, [Issue("groups", "length_mismatch", f"{len(values)} for {n} responses")]
    wrong = [k for k, value in enumerate(values) if isinstance(value, bool) or not isinstance(value, (str, int))]
    return values, [NO_GROUP._replace(path=f"groups[{k}]") for k in wrong]


def task_issues(task: str | tuple[Any, ...], n: int) -> list[Issue]:
    if isinstance(task, str):
        return [] if task in REWARD_TASKS else [NO_TASK]
    if len(task) != n:
        return [Issue("task", "length_mismatch", f"{len(task)} for {n} responses")]
    return [NO_TASK._replace(path=f"task[{k}]") for k, name in enumerate(task) if name not in REWARD_TASKS]


def with_records(issues: Sequence[Issue], records: Sequence[object] | None) -> list[Issue]:
    names = records or ()
    return [
        issue._replace(record=names[issue.element[1]]) if 0 <= issue.element[1] < len(names) else issue
        for issue in issues
    ]


def checked_reference(response: Any, reference: Any, task: str | None, record: object) -> str | bytes:
    kind = SCORE if task is None else task
    content = reference_content(reference, kind)
    if content is not None and isinstance(response, str) and kind in REWARD_TASKS:
        return content
    issues = [] if content is not None else [NO_REFERENCE if kind == SCORE else NO_TASK_REFERENCE]
    issues += [] if isinstance(response, str) else [NO_RESPONSE]
    issues += [] if kind in REWARD_TASKS else [NO_TASK]
    raise invalid(issues, record=record)


def assemble_request(
    responses: Sequence[str],
    references: Sequence[str | bytes],
    index: list[int] | None,
    config: str,
    columns: tuple[str, ...],
    records: tuple[object, ...] | None = None,
    groups: list[str | int] | None = None,
    task: str | tuple[str, ...] = SCORE,
) -> EncodedRequest:
    caller_positions = None
    grouped_by_index = "advantages" in columns and groups is None
    if index is None and len(references) == len(responses) and not grouped_by_index:
        references, index, caller_positions = deduplicate(references, task)
    encoded = [dumps(content) if isinstance(content, str) else content for content in references]
    parts = [b'{"references":[', b",".join(encoded), b'],"responses":', dumps(list(responses))]
    if index is not None:
        parts += [b',"reference_index":', dumps(index)]
    if groups is not None:
        parts += [b',"groups":', dumps(groups)]
    if task != SCORE:
        parts += [b',"task":', dumps(task)]
    if config != "{}":
        parts += [b',"config":', config.encode()]
    if columns:
        parts += [b',"include":', dumps(list(columns))]
    return EncodedRequest(
        body=b"".join([*parts, b"}"]),
        texts=responses,
        references=references,
        index=index,
        config=config,
        include=columns,
        groups=groups,
        task=task,
        caller_positions=caller_positions,
        records=records,
    )


def checked_sequence(argument: Any, name: str) -> Sequence[Any]:
    if isinstance(argument, (str, bytes, Mapping)) or not hasattr(argument, "__len__"):
        raise invalid([Issue(name, "wrong_type", "a list is needed")])
    return list(argument)


def reference_content(reference: Any, task: str) -> str | bytes | None:
    """Return text unchanged, and steps, alternatives, a record or another task's boolean as JSON; else None."""
    if isinstance(reference, str):
        return reference
    if isinstance(reference, bool) and task != SCORE:
        return dumps(reference)
    if not isinstance(reference, (Mapping, list, tuple)):
        return None
    try:
        return dumps(dict(reference) if isinstance(reference, Mapping) else list(reference))
    except (TypeError, ValueError):
        return None


def deduplicate(
    contents: Sequence[str | bytes], task: str | tuple[str, ...]
) -> tuple[list[str | bytes], list[int] | None, tuple[tuple[int, ...], ...] | None]:
    """Return (references, index, caller_positions); index and caller_positions are None if all references differ."""
    positions: dict[object, list[int]] = {}
    for k, key in enumerate(contents if isinstance(task, str) else zip(task, contents, strict=True)):
        positions.setdefault(key, []).append(k)
    if len(positions) == len(contents):
        return list(contents), None, None
    index = [0] * len(contents)
    for j, owned in enumerate(positions.values()):
        for k in owned:
            index[k] = j
    return [contents[owned[0]] for owned in positions.values()], index, tuple(map(tuple, positions.values()))


OPENINGS = frozenset("{ \t\n\r")


def object_in(label: Any) -> Mapping[str, Any] | None:
    """Return the object that a label is, or that its text holds; None without one."""
    if isinstance(label, str):
        if label[:1] not in OPENINGS or label.lstrip(" \t\n\r")[:1] != "{":
            return None
        try:
            label = json.loads(label)
        except (ValueError, RecursionError):
            return None
    return label if isinstance(label, Mapping) else None


def named_task(label: Any) -> str | None:
    """Return the task besides SCORE that a label names; None if it names none, or what the service will refuse."""
    members = object_in(label)
    name = None if members is None else members.get("task")
    return name if isinstance(name, str) and name in REWARD_TASKS and name != SCORE else None


def named_tasks(references: Any, index: Sequence[int] | None, n: int) -> str | list[str]:
    """Return the tasks of n responses by the labels of their references: SCORE if none of these names another."""
    if isinstance(references, (str, bytes, Mapping)) or not hasattr(references, "__len__"):
        return SCORE
    names = [named_task(label) for label in references]
    if not any(names):
        return SCORE
    if index is None:
        index = [0] * n if len(names) == 1 else range(n)
    try:
        return [names[k] or SCORE for k in index]
    except (IndexError, TypeError):
        return SCORE  # the index is an error of its own
