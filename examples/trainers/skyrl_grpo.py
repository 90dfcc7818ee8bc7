"""SkyRL: a single-turn environment with the reward of the service; SkyRL averages the components as metrics.

    assay prepare records.jsonl --trainer skyrl -o rows  # needs the extra prepare
    ASSAY_URL=http://reward-host:8000 python skyrl_grpo.py environment.env_class=assay \
        data.train_data="['rows/train.parquet']" data.val_data="['rows/test.parquet']" trainer.logger=console \
        trainer.policy.model.path=Qwen/Qwen3-8B generator.n_samples_per_prompt=8

The overrides are those of SkyRL 0.4; `environment.skyrl_gym.max_env_workers` limits the calls that share a request.
"""

from __future__ import annotations

import sys
from typing import Any

ENTRY_POINT = "assay_client.adapters.for_skyrl:AssayEnv"


def train(config: Any) -> None:
    """Register the environment in the process of the trainer, and train."""
    from skyrl.train.entrypoints.main_base import BasePPOExp
    from skyrl_gym.envs import register

    register(id="assay", entry_point=ENTRY_POINT)
    BasePPOExp(config).run()


def configured(arguments: list[str]) -> Any:
    """Return SkyRL's configuration from its overrides, validated by SkyRL."""
    from skyrl.train.config import SkyRLTrainConfig
    from skyrl.train.utils import validate_cfg

    config = SkyRLTrainConfig.from_cli_overrides(arguments)
    validate_cfg(config)
    return config


def main(arguments: list[str]) -> None:
    import ray
    from skyrl.train.utils import initialize_ray

    config = configured(arguments)
    initialize_ray(config)
    ray.get(ray.remote(num_cpus=1)(train).remote(config))


if __name__ == "__main__":
    main(sys.argv[1:])
