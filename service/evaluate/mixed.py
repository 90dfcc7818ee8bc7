"""Batches with a task for each response: rows are scored task by task and return in the order of the batch.

SCORE's rows are scored by `Scorer`, all others by the rewards of their tasks: each row as in a batch of its task alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InvalidReference, InvalidRequest, InvalidSetting, Issue, ScoringError, one_of, row_of
from ..scoring.reference_index import check_index, group_numbers, resolve_reference_index
from ..scoring.scores import Scores
from ..scoring.text_columns import checked_texts
from ..settings import RULES_VERSION, ScoreSettings
from .signatures import mixed_signature
from .task_rewards import (
    REWARD_TASKS,
    SCORE,
    TaskScores,
    identity_of,
    read_references,
    reward_options,
    reward_responses,
    reward_task,
)

if TYPE_CHECKING:
    from ..scoring.scorer import Scorer

__all__ = ["Part", "TaskOptions", "in_order", "parts_of", "score_tasks", "settings_of", "task_codes_of"]

NUMBERS = {name: number for number, name in enumerate(REWARD_TASKS)}

MAX_SUGGESTIONS = 16
"""Unknown names of one batch for which a similar one is looked for."""


class Part(NamedTuple):
    """The rows of one task in a batch, and the references that they name."""

    code: int
    """The task's number in `REWARD_TASKS`."""
    rows: np.ndarray
    """int64, ascending."""
    references: np.ndarray
    """int64, ascending: the references of the batch that belong to the task."""
    reference_index: np.ndarray
    """int64 (rows,), into `references`."""
    mixed: bool
    """Whether each response of the batch has a task, so that issues say which one."""

    @property
    def task(self) -> str:
        """The task's name."""
        return REWARD_TASKS[self.code]

    def issues_of(self, issues: Iterable[Issue]) -> list[Issue]:
        """Return the issues of this part with the numbers of the batch's references and the task."""
        return [self._renamed(issue) for issue in issues]

    def _renamed(self, issue: Issue) -> Issue:
        if issue.path.startswith("references["):
            issue = issue._replace(path=f"references[{self.references[row_of(issue)]}]")
        if not self.mixed:
            return issue
        if issue.path.startswith("config."):
            return issue._replace(path=issue.path.replace("config", f"config.{self.task}", 1))
        return issue._replace(detail=f"{self.task}: {issue.detail}")


def task_codes_of(task: str | Sequence[str], responses: int) -> np.ndarray:
    """Return the number of each response's task, uint8 (responses,), from one name or one name a response.

    Raises InvalidRequest naming each unknown task, and if there are not as many names as responses.
    """
    if isinstance(task, str):
        if task not in NUMBERS:
            raise InvalidRequest([Issue("task", "unknown_task", one_of(task, REWARD_TASKS))])
        return np.full(responses, NUMBERS[task], np.uint8)
    names = task.tolist() if isinstance(task, np.ndarray) and task.ndim == 1 else task
    if isinstance(names, bytes) or not isinstance(names, Sequence):
        raise InvalidRequest([Issue("task", "wrong_type", "the name of a task is needed, or a list of names")])
    issues = []
    if len(names) != responses:
        issues.append(Issue("task", "wrong_length", f"it has {len(names)} entries for {responses} responses"))
    if not set(map(type, names)) <= {str} or not set(names) <= NUMBERS.keys():
        issues += _unknown_tasks(names, responses)
    if issues:
        raise InvalidRequest(issues)
    return np.fromiter(map(NUMBERS.__getitem__, names), np.uint8, responses)


def _unknown_tasks(names: Sequence[Any], responses: int) -> Iterator[Issue]:
    """Yield an issue for the entry of every response that is not the name of a task."""
    details: dict[str, str] = {}
    without_suggestion = one_of("", REWARD_TASKS)
    for row, name in enumerate(names[:responses]):
        if not isinstance(name, str):
            yield Issue(f"task[{row}]", "wrong_type", "the name of a task is needed")
        elif name not in NUMBERS:
            if name not in details and len(details) < MAX_SUGGESTIONS:
                details[name] = one_of(name, REWARD_TASKS)
            yield Issue(f"task[{row}]", "unknown_task", details.get(name, without_suggestion))


def parts_of(
    task_codes: np.ndarray, reference_index: np.ndarray, references: int, fixed: str | None
) -> tuple[list[Part], list[Issue]]:
    """Return the parts of a batch by the number of their task, and an issue for each reference of an unknown task.

    task_codes: uint8 (n,). reference_index: int64 (n,), checked. fixed: the one task that the batch was given; None if
    each response was given one: then the task of a reference is known from the responses that name it.
    """
    codes = np.unique(task_codes).tolist() if fixed is None else [NUMBERS[fixed]]
    mixed = fixed is None
    if len(codes) == 1:
        return [Part(codes[0], np.arange(len(task_codes)), np.arange(references), reference_index, mixed)], []
    used = np.zeros(references, bool)
    used[reference_index] = True
    detail = "no response names it, so its task is unknown"
    unused = [Issue(f"references[{row}]", "unused_reference", detail) for row in np.flatnonzero(~used).tolist()]
    parts = []
    for code in codes:
        rows = np.flatnonzero(task_codes == code)
        named, index = np.unique(reference_index[rows], return_inverse=True)
        parts.append(Part(code, rows, named, index.astype(np.int64), mixed))
    return parts, unused


class TaskOptions:
    """The options of the tasks of a batch other than SCORE: those of one task, or by the names of tasks."""

    def __init__(self, given: Mapping[str, Any] | None = None, task: str | None = None, remote: bool = False) -> None:
        """Check options: those of `task`, or of every task by its name.

        remote: as for `reward_options`. Raises InvalidSetting naming every issue as `config.NAME`, or
        `config.TASK.NAME`.
        """
        given = given or {}
        self.task = task
        self._checked: dict[str, Any] = {}
        if task is None:
            self._checked = _options_by_task(given, remote)
        elif task != SCORE:
            self._checked[task] = reward_options(reward_task(task), given, remote)
        elif given:
            detail = "settings of SCORE are not options of a task"
            raise InvalidSetting([Issue(f"config.{name}", "unknown_setting", detail) for name in given])

    def __getitem__(self, task: str) -> Any:
        """Return the options of a task, checked; its defaults if none were given."""
        if task not in self._checked:
            self._checked[task] = reward_options(reward_task(task), {})
        return self._checked[task]

    def identity(self, settings: ScoreSettings) -> Mapping[str, str]:
        """Return `config_id` and `signature` of a batch: for several tasks, they do not depend on which it has."""
        if self.task is not None:
            return identity_of(reward_task(self.task), self[self.task])
        by_task = {name: self[name] for name in REWARD_TASKS[1:]}
        dumped = {name: options.model_dump() for name, options in by_task.items()}
        canonical = json.dumps([RULES_VERSION, settings.model_dump(), dumped], sort_keys=True, default=str)
        config_id = hashlib.sha256(canonical.encode()).hexdigest()[:16]
        changed = {reward_task(name): options for name, options in by_task.items() if options != type(options)()}
        return {"config_id": config_id, "signature": mixed_signature(settings, changed)}


def _options_by_task(given: Mapping[str, Any], remote: bool) -> dict[str, Any]:
    checked, issues = {}, []
    for name, options in given.items():
        if name not in NUMBERS or name == SCORE:
            issues.append(Issue(f"config.{name}", "unknown_setting", one_of(name, REWARD_TASKS[1:])))
        elif not isinstance(options, Mapping):
            issues.append(Issue(f"config.{name}", "wrong_type", "must be an object"))
        else:
            try:
                checked[name] = reward_options(reward_task(name), options, remote)
            except InvalidSetting as error:
                issues += [i._replace(path=i.path.replace("config.", f"config.{name}.", 1)) for i in error.issues]
    if issues:
        raise InvalidSetting(issues)
    return checked


def settings_of(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the configuration of a batch of several tasks: SCORE's settings, and the options of others by task."""
    names = REWARD_TASKS[1:]
    return {k: v for k, v in config.items() if k not in names}, {k: v for k, v in config.items() if k in names}


def score_tasks(
    scorer: Scorer,
    responses: Sequence[str],
    references: Sequence[Any],
    reference_index: Sequence[int] | np.ndarray | None,
    groups: Sequence[str | int] | np.ndarray | None,
    task: str | Sequence[str],
    task_options: Mapping[str, Any] | None,
) -> TaskScores:
    """Score a batch of any tasks in process: see `Scorer.score`, which has the parameters."""
    texts = checked_texts(responses)
    if isinstance(references, (str, bytes)) or not isinstance(references, Sequence):
        raise InvalidReference([Issue("references", "wrong_type", "a list of references is needed")])
    fixed = task if isinstance(task, str) else None
    codes = task_codes_of(task, len(texts))
    options = TaskOptions(task_options, fixed)
    index = resolve_reference_index(len(texts), len(references), reference_index)
    check_index(index, len(references))
    scores = TaskScores(codes, index, scorer.settings.advantage_ddof, group_numbers(groups, len(texts)))
    parts, unused = parts_of(codes, index, len(references), fixed)
    errors: list[ScoringError] = [InvalidReference(unused)] if unused else []
    for part in parts:
        try:
            scores.put_rows(part.rows, _score_part(scorer, part, texts, references, options))
        except ScoringError as error:
            errors.append(type(error)(part.issues_of(error.advice)))
    if errors:
        kinds = {type(error) for error in errors}
        issues = in_order(issue for error in errors for issue in error.issues)
        raise (kinds.pop() if len(kinds) == 1 else InvalidRequest)(issues)
    return scores


def _score_part(
    scorer: Scorer, part: Part, texts: Sequence[str], references: Sequence[Any], options: TaskOptions
) -> Scores:
    responses = [texts[row] for row in part.rows.tolist()]
    named = [references[row] for row in part.references.tolist()]
    if part.task == SCORE:
        return scorer.score(responses, named, part.reference_index)
    task = reward_task(part.task)
    return reward_responses(task, responses, read_references(task, named), part.reference_index, options[part.task])


def in_order(issues: Iterable[Issue]) -> list[Issue]:
    """Return issues of references in the order of the references, after all others."""
    return sorted(issues, key=lambda issue: row_of(issue) if issue.path.startswith("references[") else -1)
