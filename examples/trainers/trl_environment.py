"""GRPO in which the model submits its protocol with a tool: TRL's `environment_factory`.

    ASSAY_URL=http://HOST:8000 accelerate launch examples/trainers/trl_environment.py Qwen/Qwen3-0.6B rows/train.jsonl

The rows are those of `assay prepare --trainer trl`; the model's chat template must know tools.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from assay_client.adapters.for_trl import score_reward


class SubmitProtocol:
    """One rollout: its submitted protocol, which is the response that is scored."""

    def __init__(self) -> None:
        self.answer = ""

    def reset(self, **row: Any) -> str | None:
        self.answer = ""
        return None

    def submit(self, protocol: str) -> str:
        """Submit the finished protocol. Only the last one counts.

        Args:
            protocol: The whole answer, with all of its sections.
        """
        if not isinstance(protocol, str):  # TRL passes what the model wrote, and gives it this error
            raise TypeError("protocol must be a text")
        self.answer = protocol
        return "Submitted."


def submitted_reward(
    completions: Sequence[Any], environments: Sequence[SubmitProtocol], **columns: Any
) -> list[float | None]:
    """Return the reward of each submitted protocol, from one request; nothing submitted is an empty response."""
    return score_reward(completions=[environment.answer for environment in environments], **columns)


def main() -> None:
    from datasets import load_dataset
    from trl import GRPOConfig, GRPOTrainer

    model, rows = sys.argv[1:]
    GRPOTrainer(
        model=model,
        args=GRPOConfig(output_dir="run", num_generations=8, max_completion_length=4096),
        train_dataset=load_dataset("json", data_files=rows, split="train"),
        reward_funcs=submitted_reward,
        environment_factory=SubmitProtocol,
    ).train()


if __name__ == "__main__":
    main()
