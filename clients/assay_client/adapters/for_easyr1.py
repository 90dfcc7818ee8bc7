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

from assay_client.adapters.common import check_options, kind_of, pairs_of, sync_client, texts_of
from assay_client.adapters.metrics import metrics_of
from assay_client.errors import Issue, invalid
from assay_client.requests import checked_sequence

__all__ = ["compute_score"]

KWARGS = "worker.reward.reward_function_kwargs."


def compute_score(
    reward_inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    config: Mapping[str, Any] | None = None,
    run: str | None = None,
    **options: Any,
) -> dict[str, float] | list[dict[str, float]]:
    """Return `overall`, the reward, and its metrics, for one sample or for each of a batch; one request.

    From `worker.reward.reward_function_kwargs`: `config` overrides settings in ASSAY_CLIENT_CONFIG, and `run` is the
    name of the run. Raise AssayError.
    """
    check_options(options, KWARGS, f"{KWARGS}config", known=())
    is_single = isinstance(reward_inputs, Mapping)
    samples: Sequence[Any] = [reward_inputs] if is_single else checked_sequence(reward_inputs, "reward_inputs")
    issues = [
        Issue(f"reward_inputs[{k}]", "wrong_type", f"must have response and ground_truth, not be {kind_of(sample)}")
        for k, sample in enumerate(samples)
        if not isinstance(sample, Mapping) or not {"response", "ground_truth"} <= sample.keys()
    ]
    if issues:
        raise invalid(issues)
    texts = texts_of([sample["response"] for sample in samples], name="responses")
    pairs = pairs_of(texts, [sample["ground_truth"] for sample in samples])
    rows = sync_client(run).score(*pairs, config=config).rows()
    results = [{"overall": row.reward} | metrics_of(row) for row in rows]
    return results[0] if is_single else results
