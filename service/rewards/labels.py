"""The labels of a batch: references as their tasks take them, and responses of the tasks that their labels name."""

from __future__ import annotations

import numpy as np

from ...kernels.column import TextColumn
from ..errors import Issue
from ..scoring.labels import read_column, read_list
from ..scoring.references import ReferenceTexts
from .batch import UNKNOWN, Batch
from .registry import NUMBERS, REWARD_TASKS, SCORE, TaskNames

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
            batch.issues.append(Issue(f"references[{row}]", "other_task", detail))
        is_known[:] = False
    codes = np.where(is_unknown, UNKNOWN, np.where(is_known, labels, codes)).astype(np.uint8)
    if batch.task is None or (codes != NUMBERS[batch.task]).any():
        batch.task, batch.task_codes = None, codes
        batch.check_unused()
        if len(batch.configurations) > 1:
            batch.issues.append(NO_CONFIGS)
