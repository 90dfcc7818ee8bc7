"""The tests of NeMo Gym's runner also here, where it is installed whatever its Python."""

from tests.environments.test_nemo_gym import (  # noqa: F401
    gym,
    test_an_invalid_reference_ends_the_run_without_a_reward,
    test_rollouts_of_several_tasks_have_the_rewards_of_the_service_and_metrics_by_task,
)
