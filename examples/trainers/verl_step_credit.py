"""verl: GRPO whose tokens also learn from the value of their step; otherwise as verl.sh.

    ASSAY_URL=http://reward-host:8000 python verl_step_credit.py trainer.v1.trainer_mode=step_credit \
        +reward.custom_reward_function.reward_kwargs.steps=true …

The other options are those of verl.sh. A reward function of verl returns one number a response, and its estimators of
advantages see nothing else. With `steps=true` the adapter also returns the steps of the response, and the trainer of
this file adds to the advantage of each token of a step's line in <key> how much more the step earned than the mean step
of its response.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import ray
import torch
import transfer_queue
from tensordict import TensorDict
from verl.trainer import main_ppo
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer

from assay_client import token_credit, token_offsets

STEP_WEIGHT = 1.0
"""Factor of a step's addition, which is below 1.5; GRPO's own advantages have the standard deviation 1."""


def step_part(tokenizer: Any, ids: Sequence[int], sample: dict[str, Any]) -> list[float]:
    """Return what the steps of a response add to the advantage of each of its tokens; `sample` has its numbers."""
    steps = json.loads(sample["score_steps"])
    values = [step["value"] for step in steps]
    relative = [value - sum(values) / len(values) for value in values]
    text = tokenizer.decode(ids, skip_special_tokens=True)  # as verl's reward managers decode it
    return token_credit(token_offsets(tokenizer, ids, text), steps, values=relative)


@register_trainer("step_credit")
class StepCreditTrainer(PPOTrainerSync):
    """The synchronous trainer, with the part of the steps in the advantages."""

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_advantage(batch, metrics)
        place = {"keys": batch.keys, "partition_id": batch.partition_id}
        data = transfer_queue.kv_batch_get(**place, select_fields=["responses", "advantages", "extra_fields"])
        samples = [fields["reward_extra_info"] for fields in data["extra_fields"].tolist()]
        rows = []
        for ids, advantages, sample in zip(data["responses"], data["advantages"], samples, strict=True):
            part = torch.tensor(step_part(self.tokenizer, ids.tolist(), sample), dtype=advantages.dtype)
            rows.append(advantages + STEP_WEIGHT * part)
        nested = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
        transfer_queue.kv_batch_put(**place, fields=TensorDict({"advantages": nested}, batch_size=len(rows)))
        return batch


class TaskRunner(main_ppo.TaskRunnerV1.__ray_metadata__.modified_class):  # type: ignore[misc]
    """verl's process for the trainer, which must import this file to know the trainer."""


if __name__ == "__main__":
    main_ppo.TaskRunnerV1 = ray.remote(TaskRunner)
    main_ppo.main()
