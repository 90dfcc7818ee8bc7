"""Reward function for verl: `reward.custom_reward_function.path=…/for_verl.py` (older: `custom_reward_function.path`).

`compute_score` is for the reward loop, which calls it once per sample: concurrent calls share requests.
`compute_score_batch` is for the older batch manager, `compute_score_sync` for the older sequential one, which finds it
under the default name in for_verl_sync.py. Settings of the reward come from `config` in the trainer's `reward_kwargs`,
then from ASSAY_CLIENT_CONFIG, then from the switches of Thoth's recipe (GRPO_ORDER_MODE and so on).

If ASSAY_CLIENT_DATA_SOURCES, a comma-separated list, is set, rows of other data sources are scored by verl's own
`default_compute_score`.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # loaded by its path: the package is around this file or next to it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

import asyncio
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay_client.adapters.common import (
    METRICS,
    async_client,
    metrics_of,
    pairs_of,
    record_of,
    required,
    score_rows,
    sync_client,
)
from assay_client.errors import InvalidSetting, Issue, invalid_setting
from assay_client.exchange import BaseClient
from assay_client.results import Score
from assay_client.transport.sync import completed

__all__ = ["compute_score", "compute_score_batch", "compute_score_sync", "recipe_config"]

DATA_SOURCES = "ASSAY_CLIENT_DATA_SOURCES"

SWITCHES: dict[str, tuple[str, dict[str, str]]] = {
    "GRPO_ORDER_MODE": ("order", {"strict_subseq": "strict", "strict": "strict", "lcs": "lcs"}),
    "GRPO_COMBINE_MODE": ("semantics", {"sum": "sum", "product": "product"}),
    "GRPO_CONTENT_DENOM": ("content_denominator", {"matched": "matched", "max_len": "max_len"}),
    "GRPO_FINAL_COMBINE": ("total", {"product": "product", "sum": "sum"}),
}
"""Environment switches of Thoth's launch script: the setting that each means, and its values."""


async def compute_score(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **kwargs: Any
) -> dict[str, float]:
    """Return `score`, the reward, and its metrics, always under the same names. Raise AssayError."""
    selected = selected_sources()
    if not is_selected(data_source, selected):  # in a thread, as verl runs synchronous functions
        return await asyncio.to_thread(score_of_verl, data_source, solution_str, ground_truth, extra_info, kwargs)
    score = await score_call(async_client(), solution_str, ground_truth, extra_info, kwargs)
    return result_of(score, selected)


def compute_score_sync(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **kwargs: Any
) -> dict[str, float]:
    """Return as `compute_score`, for managers that do not await."""
    selected = selected_sources()
    if not is_selected(data_source, selected):
        return score_of_verl(data_source, solution_str, ground_truth, extra_info, kwargs)
    return result_of(score_call(sync_client(), solution_str, ground_truth, extra_info, kwargs), selected)


def score_call(client: Any, solution_str: str, ground_truth: Any, extra_info: Any, kwargs: Mapping[str, Any]) -> Any:
    """Call `score_one` of either client."""
    record = record_of(extra_info)
    reference, config = required(ground_truth, record), config_of(client, kwargs)
    return client.score_one(solution_str, reference, config=config, record=record)


def compute_score_batch(
    data_sources: Any,
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Any = None,
    **kwargs: Any,
) -> list[dict[str, float]]:
    """Return one result per sample of the batch, from one request."""
    client, selected = sync_client(), selected_sources()
    texts, references = pairs_of(solution_strs, ground_truths)
    infos = [None] * len(texts) if extra_infos is None else extra_infos
    rows = [k for k in range(len(texts)) if selected is None or is_selected(data_sources[k], selected)]
    found: dict[int, dict[str, float]] = {}
    if rows:
        records = None if extra_infos is None else [record_of(info) for info in infos]
        scores = completed(score_rows(client, texts, references, records, rows, config_of(client, kwargs)))
        found = {row: result_of(score, selected) for row, score in zip(rows, scores.rows(), strict=True)}
    for k in set(range(len(texts))) - found.keys():
        found[k] = score_of_verl(data_sources[k], texts[k], ground_truths[k], infos[k], kwargs)
    return [found[k] for k in range(len(texts))]


def result_of(score: Score, selected: list[str] | None) -> dict[str, float]:
    """Return the result of a sample, with the additional names of samples that verl scores if there can be any."""
    result = {"score": score.reward} | metrics_of(score)
    return result if selected is None else result | {"score_applies": 1.0, "acc": score.reward}


def selected_sources() -> list[str] | None:
    """Return the data sources that Assay scores, None for all; raise InvalidSetting if the list is empty."""
    selected = os.environ.get(DATA_SOURCES)
    if not selected:
        return None
    names = [name.strip() for name in selected.split(",") if name.strip()]
    if not names:
        raise invalid_setting(DATA_SOURCES, "must be names separated by commas")
    return names


def is_selected(data_source: Any, selected: list[str] | None) -> bool:
    return selected is None or str(data_source) in selected


def score_of_verl(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any, kwargs: Mapping[str, Any]
) -> dict[str, float]:
    """Return the result of verl's own function under the names of Assay's results; raise its errors.

    Assay's own metrics are 0, as is `score_applies`: verl's estimator `gdpo` would spread NaN to the whole batch.
    `acc` is that of verl's function if it has one, else the score, as in verl.
    """
    function = default_compute_score()
    parameters = inspect.signature(function).parameters
    accepts_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    options = {
        name: value for name, value in kwargs.items() if name != "config" and (accepts_all or name in parameters)
    }
    try:
        outcome = function(data_source, solution_str, ground_truth, extra_info, **options)
    except NotImplementedError as error:
        detail = f"{data_source!r} is not in the list, and verl has no reward for it"
        raise invalid_setting(DATA_SOURCES, detail) from error
    result = outcome if isinstance(outcome, Mapping) else {"score": outcome}
    score = float(result["score"])
    metrics = dict.fromkeys(METRICS, 0.0) | {"score_reason_code": -1.0}
    return {"score": score, **metrics, "score_applies": 0.0, "acc": float(result.get("acc", score))}


def default_compute_score() -> Callable[..., Any]:
    """Return verl's own function; raise InvalidSetting if it cannot be imported."""
    try:
        from verl.utils import reward_score

        found: Callable[..., Any] | None = getattr(reward_score, "default_compute_score", None)
        return found or reward_score._default_compute_score  # its older name
    except (ImportError, AttributeError) as error:
        raise invalid_setting(DATA_SOURCES, f"verl's default_compute_score cannot be imported ({error})") from error


def config_of(client: BaseClient, kwargs: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what overrides the client's settings of the reward: each from the first of its three sources."""
    given, recipe = kwargs.get("config"), recipe_config()
    return recipe | json.loads(client.settings.config) | dict(given or {}) if recipe else given


def recipe_config(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings that the switches of Thoth's recipe mean; raise InvalidSetting for invalid values."""
    environ = os.environ if environ is None else environ
    given = {variable: environ[variable] for variable in SWITCHES if environ.get(variable)}
    issues = [
        Issue(variable, "invalid_setting", f"must be one of: {', '.join(SWITCHES[variable][1])}")
        for variable, value in given.items()
        if value not in SWITCHES[variable][1]
    ]
    if issues:
        raise InvalidSetting("; ".join(f"{issue.path} {issue.detail}" for issue in issues), issues=issues)
    return {SWITCHES[variable][0]: SWITCHES[variable][1][value] for variable, value in given.items()}
