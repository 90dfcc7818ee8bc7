"""A request with rows of several tasks: SCORE's are scored by the kernels, and merged with those of other tasks."""

from __future__ import annotations

import numpy as np

from .....kernels.column import TextColumn
from ....errors import InvalidReference, Issue, row_of
from ....evaluate.task_rewards import TaskScores
from ....scoring.references import issues_of_all
from ....scoring.scorer import Scorer
from ....scoring.text_columns import select_rows
from ...wire.json_codec import Limits
from ...wire.other_tasks import texts_of
from .dialect import Texts
from .other_rows import OtherRows
from .row_tasks import SCORE, Rows

__all__ = ["MixedRequest"]


class MixedRequest:
    """Construct it to score SCORE's rows; score `others`, then call `finish`."""

    def __init__(self, rows: Rows, texts: Texts, scorer: Scorer, limits: Limits) -> None:
        tasks = np.array(rows.tasks, np.int64)
        self._of_score, self._of_others = np.flatnonzero(tasks == SCORE), np.flatnonzero(tasks > SCORE)
        self.issues = texts.issues + rows.issues
        """Issues of the request, without those of references."""
        self._reference_issues = texts.reference_issues if texts.references is None else []
        self._scores = TaskScores(np.maximum(tasks, SCORE).astype(np.uint8), np.arange(len(tasks)))
        references, responses = texts.references, None if self.issues else texts.responses
        if references is None:
            self.others = OtherRows([], [], [])
            return
        self._score(references, responses, texts.reference_issues, scorer, limits)
        kept = self._of_others.tolist()
        self.others = OtherRows(
            [rows.tasks[row] for row in kept],
            [] if responses is None else texts_of(select_rows(responses, self._of_others)),
            [rows.references[row] for row in kept],
        )
        """The rows of other tasks; without responses if there are issues already."""

    def _score(
        self,
        references: TextColumn,
        responses: TextColumn | None,
        malformed: list[Issue],
        scorer: Scorer,
        limits: Limits,
    ) -> None:
        """Score the rows of SCORE, or collect the issues of their references."""
        rows = self._of_score
        if not len(rows):
            return
        numbers = {row: number for number, row in enumerate(rows.tolist())}
        found = [
            issue._replace(path=f"references[{numbers[row_of(issue)]}]")
            for issue in malformed
            if row_of(issue) in numbers
        ]
        max_bytes = limits.max_reference_bytes
        references = select_rows(references, rows)
        if not found and responses is not None:
            index = np.arange(len(rows), dtype=np.int64)
            try:
                self._scores.put_rows(
                    rows, scorer.score_columns(select_rows(responses, rows), references, index, max_bytes)
                )
                return
            except InvalidReference:
                pass
        found = issues_of_all(references, found, scorer.settings.max_steps, max_bytes)
        self._reference_issues += [numbered(issue, rows, "score") for issue in found]

    def finish(self, scores: TaskScores, issues: list[Issue]) -> tuple[TaskScores, list[Issue]]:
        """Return all scores, given those of the others, and the issues of all references in the order of the rows."""
        rows = self._of_others
        found = self._reference_issues + [numbered(issue, rows) for issue in issues]
        if not found and not self.issues:
            self._scores.put_rows(rows, scores)
        return self._scores, sorted(found, key=row_of)


def numbered(issue: Issue, rows: np.ndarray, task: str = "") -> Issue:
    """Return an issue of a reference with the number of its row in the request, and its task."""
    detail = f"{task}: {issue.detail}" if task else issue.detail
    return issue._replace(path=f"references[{rows[row_of(issue)]}]", detail=detail)
