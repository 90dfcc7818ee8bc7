"""Rows, rewards and the harness for verifiers 0.4 and prime-rl: one reply to a prompt, without tools.

The harnesses of verifiers run a program for each rollout, by default in a remote sandbox, which a single reply does not
need: this one asks the model from the process of the environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI, OpenAIError
from pydantic import Field

from assay_client.adapters.common import completion_text
from assay_environments import PreparedRow, metrics_of, read_rows, score_response_async


class AssayHarnessConfig(vf.HarnessConfig):
    """`--env.agent.harness.*`."""


class AssayHarness(vf.Harness[AssayHarnessConfig]):
    """Asks the model once."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        system, prompt = self.resolve_prompt(data)
        messages: list[Any] = [] if system is None else [{"role": "system", "content": system}]
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message.model_dump(exclude_none=True) for message in prompt or []]
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, timeout=None) as client:
            try:
                await client.chat.completions.create(model=ctx.model, messages=messages)
            except OpenAIError as error:  # verifiers knows the error of the model's server, and prefers it to this one
                return vf.ProgramResult(1, "", str(error))
        return vf.ProgramResult(0, "", "")


class AssayEnvConfig(vf.SingleAgentEnvConfig):
    """`--env.*`."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    """On this machine: the default of verifiers is a remote sandbox."""


class AssayEnv(vf.Env[AssayEnvConfig]):
    """A row of the taskset and one agent."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        await agents.agent.run(task)


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
