"""One reply to a prompt, without tools, for verifiers 0.4 and prime-rl.

The harnesses of verifiers run a program for each rollout, by default in a remote sandbox, which a single reply does not
need: this one asks the model from the process of the environment.
"""

from __future__ import annotations

from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI, OpenAIError

__all__ = ["AssayEnv", "AssayEnvConfig", "AssayHarness", "AssayHarnessConfig"]


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
