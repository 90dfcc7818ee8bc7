"""The tasks of a batch and their options: as the request names them, or as the labels of its references do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...kernels.column import TextColumn
from ..errors import InvalidSetting, Issue, did_you_mean, one_of
from ..scoring.labels import read_column, read_list
from ..scoring.references import ReferenceTexts
from .batch import UNKNOWN, Batch
from .registry import NUMBERS, OPTION_TASKS, REWARD_TASKS, SCORE, reward_of

MAX_SUGGESTIONS = 16
"""Unknown names of one batch for which a similar one is looked for."""

NO_FAULT = ("", "")
WITHOUT_SUGGESTION = one_of("", REWARD_TASKS)

OTHER_TASK = "other_task"
"""The reason of a label of another task than its row, which is no reference of that row's task either."""

NO_TASK = 254
"""The number of the task of a reference that names none."""

NO_CONFIGS = Issue("configs", "unknown_field", "this field is only for the task score: it has settings of SCORE")
"""The issue of further configurations where a response has another task."""


def read_labels(batch: Batch) -> None:
    """Replace the references of a batch, once, by what their tasks take, and note the tasks that they name."""
    references = batch.references
    if references is None or batch.has_read_labels:
        return
    batch.has_read_labels = True
    if isinstance(references.texts, TextColumn):
        references, named = read_column(references, batch.max_reference_bytes, REWARD_TASKS)
    else:
        values, named = read_list(references.texts, REWARD_TASKS)
        references = ReferenceTexts(values)
    batch.references = references
    if not named:
        return
    batch.label_tasks = np.full(references.rows, NO_TASK, np.uint8)
    tasks = TaskNames()
    for row, name in named.items():
        code, fault = tasks.read(name)
        batch.label_tasks[row] = code
        if code == UNKNOWN:
            batch.label_faults[row] = Issue(f"references[{row}].task", *fault)


def follow_labels(batch: Batch) -> None:
    """Let labels name the tasks of responses, as the request does not; its options are by task then."""
    read_labels(batch)
    if batch.label_tasks is None or batch.task != SCORE:
        return
    batch.follows_labels = True
    if ((batch.label_tasks != NUMBERS[SCORE]) & (batch.label_tasks < NO_TASK)).any():
        batch.task = None


def apply_labels(batch: Batch) -> None:
    """Set the tasks of responses by their labels, or report labels of other tasks than the request names."""
    named, index = batch.label_tasks, batch.reference_index
    if named is None or index is None:
        return
    codes = batch.task_codes
    if codes is None:
        if batch.task is None and not batch.follows_labels:
            return
        codes = np.full(len(index), NUMBERS[batch.task or SCORE], np.uint8)
    labels = named[index]
    is_unknown = (labels == UNKNOWN) & (codes == NUMBERS[SCORE])
    batch.issues += [batch.label_faults[row] for row in np.unique(index[is_unknown]).tolist()]
    is_known = (labels != NO_TASK) & (labels != UNKNOWN) & (codes != UNKNOWN)
    if not batch.follows_labels:
        wrong = is_known & (labels != codes)
        for row, k in dict(zip(index[wrong].tolist(), np.flatnonzero(wrong).tolist(), strict=True)).items():
            detail = f"its label names the task {REWARD_TASKS[labels[k]]}, but it is scored as {REWARD_TASKS[codes[k]]}"
            batch.issues.append(Issue(f"references[{row}]", OTHER_TASK, detail))
        is_known[:] = False
    codes = np.where(is_unknown, UNKNOWN, np.where(is_known, labels, codes)).astype(np.uint8)
    if batch.task is None or (codes != NUMBERS[batch.task]).any():
        batch.task, batch.task_codes = None, codes
        batch.check_unused()
        if len(batch.configurations) > 1:
            batch.issues.append(NO_CONFIGS)


def set_tasks(batch: Batch, task: Any) -> bool:
    """Set the task of all responses or, after the responses, the task of each; return whether its form is valid.

    If it is not, it is not known what options mean.
    """
    batch.task = None
    if isinstance(task, str):
        if task not in NUMBERS:
            batch.issues.append(Issue("task", "unknown_task", one_of(task, REWARD_TASKS)))
            return False
        batch.task = task
        return True
    names = task.tolist() if isinstance(task, np.ndarray) and task.ndim == 1 else task
    if isinstance(names, bytes) or not isinstance(names, Sequence):
        batch.issues.append(Issue("task", "wrong_type", "the name of a task is needed, or a list of names"))
        return False
    if batch.responses is None:
        return True
    if set(map(type, names)) <= {str} and set(names) <= NUMBERS.keys():
        codes = np.fromiter(map(NUMBERS.__getitem__, names), np.uint8, len(names))
    else:
        tasks = TaskNames()
        read = [tasks.read(name) for name in names]
        codes = np.array([code for code, _ in read], np.uint8)
        wrong = np.flatnonzero(codes[: batch.size] == UNKNOWN).tolist()
        batch.issues += [Issue(f"task[{row}]", *read[row][1]) for row in wrong]
    if len(names) == batch.size:
        batch.task_codes = codes
    else:
        detail = f"it has {len(names)} entries for {batch.size} responses"
        batch.issues.append(Issue("task", "wrong_length", detail))
    return True


class TaskNames:
    """The numbers of tasks by their names; of the names that are unknown, the first get a suggestion."""

    def __init__(self) -> None:
        self._details: dict[str, str] = {}

    def read(self, name: Any) -> tuple[int, tuple[str, str]]:
        """Return the number of a task, and the reason and the detail of its issue if that is `UNKNOWN`."""
        if not isinstance(name, str):
            return UNKNOWN, ("wrong_type", "must be the name of a task")
        if name in NUMBERS:
            return NUMBERS[name], NO_FAULT
        if name not in self._details and len(self._details) < MAX_SUGGESTIONS:
            self._details[name] = one_of(name, REWARD_TASKS)
        return UNKNOWN, ("unknown_task", self._details.get(name, WITHOUT_SUGGESTION))


def split_config(config: Mapping[str, Any], task: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the configuration of a request: settings of SCORE, and options of its task, or of tasks by their names."""
    if task is not None:
        by_task = {task: dict(config)}
        return by_task.pop(SCORE, {}), by_task.get(task, {})
    options = {name: value for name, value in config.items() if name in OPTION_TASKS}
    return {name: value for name, value in config.items() if name not in options}, options


def set_options(batch: Batch, values: Mapping[str, Any], remote: bool = False) -> None:
    """Set the options of the task of a batch, or of its tasks by their names; `remote` is as for `Reward.options`."""
    if batch.task is not None:
        _set_options(batch, batch.task, values, "config.", remote)
        return
    for name, options in sorted(values.items(), key=lambda item: item[0] in OPTION_TASKS):
        if name not in OPTION_TASKS:
            detail = "there is no setting of this name" + did_you_mean(name, OPTION_TASKS)
            batch.issues.append(Issue(f"config.{name}", "unknown_setting", detail))
        elif not isinstance(options, Mapping):
            batch.issues.append(Issue(f"config.{name}", "wrong_type", "must be an object"))
        else:
            _set_options(batch, name, options, f"config.{name}.", remote)


def _set_options(batch: Batch, name: str, values: Mapping[str, Any], prefix: str, remote: bool) -> None:
    try:
        batch.options[name] = reward_of(name).options(values, remote)
    except InvalidSetting as error:
        batch.issues += [issue._replace(path=issue.path.replace("config.", prefix, 1)) for issue in error.issues]
