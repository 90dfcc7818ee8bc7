"""TRL: GRPO whose tokens also learn from the value of their step; otherwise as trl_grpo.py.

ASSAY_URL=http://reward-host:8000 accelerate launch trl_step_credit.py Qwen/Qwen3-0.6B rows

In GRPO all tokens of a response have its advantage, also those of right steps beside a wrong one. Here each token of a
step's line in <key> gets, in addition, how much more the step earned than the mean step of its response. Over the steps
of a response these additions have the sum 0: they do not reward more steps.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from trl import GRPOTrainer

from assay_client import token_credit, token_offsets
from assay_client.adapters.common import completion_text
from assay_client.adapters.for_trl import score_steps


class StepCreditTrainer(GRPOTrainer):
    """GRPO with advantages of shape (responses, tokens), which TRL's loss accepts from subclasses."""

    step_weight = 1.0
    """Factor of a step's addition, which is below 1.5; GRPO's own advantages have the standard deviation 1."""

    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: Any, completions: list[Any], completion_ids_list: list[list[int]]
    ) -> torch.Tensor:
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        columns = {name: [row[name] for row in inputs] for name in inputs[0]}
        texts = [completion_text(completion) for completion in completions]
        self._credit = []
        for ids, text, steps in zip(completion_ids_list, texts, score_steps(texts, **columns), strict=True):
            values = [step["value"] for step in steps]
            relative = [value - sum(values) / len(values) for value in values]
            offsets = token_offsets(self.processing_class, ids, text)
            self._credit.append(torch.tensor(token_credit(offsets, steps, values=relative)))
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        credit = torch.zeros_like(output["completion_ids"], dtype=torch.float32)
        for row, values in zip(credit, self._credit, strict=True):
            row[: len(values)] = values
        output["advantages"] = output["advantages"].unsqueeze(1) + self.step_weight * credit
        return output


if __name__ == "__main__":
    from trl_grpo import main

    main(*sys.argv[1:], trainer_class=StepCreditTrainer)
