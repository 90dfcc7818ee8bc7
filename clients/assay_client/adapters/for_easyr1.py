"""Reward function for EasyR1: `worker.reward.reward_function=…/for_easyr1.py:compute_score`.

EasyR1, a fork of verl, calls it with a list of dictionaries (`reward_type=batch`) or with one (`sequential`), each with
`response` and `ground_truth`, and takes the reward from `overall`.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # loaded by its path: the package is around this file or next to it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

from collections.abc import Mapping, Sequence
from typing import Any

from assay_client.adapters.common import metrics_of, pairs_of, sync_client
from assay_client.results import Score

__all__ = ["compute_score"]


def compute_score(
    reward_inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, config: Mapping[str, Any] | None = None
) -> dict[str, float] | list[dict[str, float]]:
    """Return `overall`, the reward, and its metrics, for one sample or for each of a batch; one request.

    `config`, from `worker.reward.reward_function_kwargs`, overrides settings in ASSAY_CLIENT_CONFIG.
    Raise AssayError.
    """
    if isinstance(reward_inputs, Mapping):
        (result,) = results_of([reward_inputs], config)
        return result
    return results_of(reward_inputs, config)


def results_of(samples: Sequence[Mapping[str, Any]], config: Mapping[str, Any] | None) -> list[dict[str, float]]:
    responses = [sample["response"] for sample in samples]
    scores = sync_client().score(*pairs_of(responses, [sample["ground_truth"] for sample in samples]), config=config)
    return [result_of(scores.row(k)) for k in range(len(scores))]


def result_of(score: Score) -> dict[str, float]:
    return {"overall": score.reward} | metrics_of(score)
