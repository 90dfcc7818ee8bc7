"""Names and numbers that the client repeats are those of the service."""

from __future__ import annotations

import pytest

import assay_client
from assay.service.http.endpoints.trainers import dialects
from assay.service.rewards import registry
from assay_client import tasks
from assay_client.adapters import metrics


def test_tasks() -> None:
    assert assay_client.REWARD_TASKS == registry.REWARD_TASKS
    assert assay_client.TASK_COMPONENTS == registry.TASK_COMPONENTS


@pytest.mark.parametrize("name", assay_client.REWARD_TASKS)
def test_reasons_and_components_of_a_task(name: str) -> None:
    assert assay_client.TASK_REASONS[name] == tuple(registry.reward_of(name).reasons)
    assert tasks.PASSED_IF[name] == tuple(registry.reward_of(name).passed_if)
    if name != "score":
        assert tasks.OWN_COMPONENTS[name] == tuple(registry.reward_of(name).components)


def test_metrics_are_the_numbers_of_the_routes_for_trainers() -> None:
    assert metrics.METRICS == dialects.NUMBERS
    assert metrics.MIXED_METRICS == dialects.TASK_NUMBERS
    assert metrics.FREQUENT_REASONS == dialects.FREQUENT_REASONS
