"""Rows and rewards for verifiers 0.4 and prime-rl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from assay_client.adapters.common import completion_text
from assay_environments import PreparedRow, metrics_of, read_rows, score_response_async

__all__ = ["AssayConfig", "AssayData", "AssayTask", "AssayTaskConfig", "AssayTaskset"]


class AssayData(vf.TaskData):
    """One row, as verifiers records it in its traces."""

    reference: str
    task: str
    columns: dict[str, Any]


class AssayTaskConfig(vf.TaskConfig):
    """Settings of the scores of responses: `--env.taskset.task.*`."""

    config: dict[str, Any] = Field(default_factory=dict)


class AssayTask(vf.Task[AssayData, vf.State, AssayTaskConfig]):
    """One prompt."""

    @vf.reward
    async def assay(self, trace: vf.Trace) -> float:
        if not trace.assistant_messages:
            raise ValueError("the rollout ended without a reply, which cannot be scored")
        response = completion_text(trace.assistant_messages[-1].model_dump())
        row = PreparedRow([], self.data.reference, self.data.task, self.data.id or "")
        score = await score_response_async(row, response, self.config.config or None)
        trace.record_metrics(metrics_of(score))
        trace.info["assay"] = {"reason": score.reason, "task": score.task, "signature": score.signature}
        return score.reward


class AssayConfig(vf.TasksetConfig):
    """Selection of rows: `--env.taskset.*`."""

    path: Path | None = None
    """Folder that `assay prepare` wrote, or a file of rows; by default that in the environment variable ASSAY_ROWS."""
    split: str = "test"
    """`train` or `test`, if `path` is a folder."""
    where: dict[str, str] = Field(default_factory=dict)
    """Values that columns of the rows must have: task, type, level, group."""
    task: AssayTaskConfig = AssayTaskConfig()


class AssayTaskset(vf.Taskset[AssayTask, AssayConfig]):
    """The rows of a file or a split."""

    def load(self) -> Iterator[AssayTask]:
        for row in read_rows(self.config.path, self.config.split, **self.config.where):
            yield AssayTask(data_of(row), self.config.task)


def data_of(row: PreparedRow) -> AssayData:
    """Return the data of a row, with the system prompt apart, where `--env.taskset.system-prompt` replaces it."""
    has_system = bool(row.prompt) and row.prompt[0]["role"] == "system"
    messages = row.prompt[has_system:]
    is_text = len(messages) == 1 and messages[0]["role"] == "user"
    prompt: Any = messages[0]["content"] if is_text else messages
    system = row.prompt[0]["content"] if has_system else None
    return AssayData(
        id=row.id or None,
        prompt=prompt,
        system_prompt=system,
        reference=row.reference,
        task=row.task,
        columns=row.columns,
    )
