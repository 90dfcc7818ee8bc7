"""Reward function for verl: `reward.custom_reward_function.path=…/for_verl.py` (older: `custom_reward_function.path`).

`compute_score` is for the reward loop, which calls it once a sample: concurrent calls share requests.
`compute_score_batch` is for the older batch manager, `compute_score_sync` for the older sequential one, which finds it
under the default name in for_verl_sync.py. `config` among the trainer's `reward_kwargs` overrides settings of the
reward; below it stands ASSAY_CLIENT_CONFIG, then the switches of Thoth's recipe (GRPO_ORDER_MODE and so on).

With ASSAY_CLIENT_DATA_SOURCES, a list separated by commas, rows of other data sources are scored by verl's own
`default_compute_score`.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # this file was named by its path, and the package stands around it or beside it
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
    in_rows_of_batch,
    metrics_of,
    pairs_of,
    record_of,
    required,
    sync_client,
)
from assay_client.errors import AssayError, InvalidSetting, Issue
from assay_client.exchange import BaseClient
from assay_client.results import Score

__all__ = ["compute_score", "compute_score_batch", "compute_score_sync", "recipe_config"]

DATA_SOURCES = "ASSAY_CLIENT_DATA_SOURCES"

SWITCHES: dict[str, tuple[str, dict[str, str]]] = {
    "GRPO_ORDER_MODE": ("order", {"strict_subseq": "strict", "strict": "strict", "lcs": "lcs"}),
    "GRPO_COMBINE_MODE": ("semantics", {"sum": "sum", "product": "product"}),
    "GRPO_CONTENT_DENOM": ("content_denominator", {"matched": "matched", "max_len": "max_len"}),
    "GRPO_FINAL_COMBINE": ("total", {"product": "product", "sum": "sum"}),
}
"""Environment switches of Thoth's launch script: the setting of each, and its values."""


async def compute_score(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **kwargs: Any
) -> dict[str, float]:
    """`score`, which trains, and the numbers behind it, always under the same names. Raises AssayError."""
    chosen = chosen_sources()
    if not is_ours(data_source, chosen):  # in a thread, as verl itself calls what does not await
        return await asyncio.to_thread(score_of_verl, data_source, solution_str, ground_truth, extra_info, kwargs)
    record, client = record_of(extra_info), async_client()
    reference, config = required(ground_truth, record), config_of(client, kwargs)
    return result_of(await client.score_one(solution_str, reference, config=config, record=record), chosen)


def compute_score_sync(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **kwargs: Any
) -> dict[str, float]:
    """`compute_score` for managers that do not await."""
    chosen = chosen_sources()
    if not is_ours(data_source, chosen):
        return score_of_verl(data_source, solution_str, ground_truth, extra_info, kwargs)
    record, client = record_of(extra_info), sync_client()
    reference, config = required(ground_truth, record), config_of(client, kwargs)
    return result_of(client.score_one(solution_str, reference, config=config, record=record), chosen)


def compute_score_batch(
    data_sources: Any,
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Any = None,
    **kwargs: Any,
) -> list[dict[str, float]]:
    """One result for each sample of the batch, from one request."""
    client, chosen = sync_client(), chosen_sources()
    texts, references = pairs_of(solution_strs, ground_truths)
    infos = [None] * len(texts) if extra_infos is None else extra_infos
    rows = [k for k in range(len(texts)) if chosen is None or is_ours(data_sources[k], chosen)]
    found: dict[int, dict[str, float]] = {}
    if rows:
        pairs = [texts[k] for k in rows], [references[k] for k in rows]
        records = None if extra_infos is None else [record_of(infos[k]) for k in rows]
        try:
            scores = client.score(*pairs, config=config_of(client, kwargs), records=records)
        except AssayError as error:
            raise in_rows_of_batch(error, rows) from None
        found = {row: result_of(score, chosen) for row, score in zip(rows, scores.rows(), strict=True)}
    for k in set(range(len(texts))) - found.keys():
        found[k] = score_of_verl(data_sources[k], texts[k], ground_truths[k], infos[k], kwargs)
    return [found[k] for k in range(len(texts))]


def result_of(score: Score, chosen: list[str] | None) -> dict[str, float]:
    """What verl gets for a sample; beside samples that verl scores, under the names that these have too."""
    result = {"score": score.reward} | metrics_of(score)
    return result if chosen is None else result | {"score_applies": 1.0, "acc": score.reward}


def chosen_sources() -> list[str] | None:
    """The data sources that are scored here, None for all; raises InvalidSetting where the variable names none."""
    chosen = os.environ.get(DATA_SOURCES)
    if not chosen:
        return None
    names = [name.strip() for name in chosen.split(",") if name.strip()]
    if not names:
        raise wrong_data_sources("names separated by commas are needed")
    return names


def is_ours(data_source: Any, chosen: list[str] | None) -> bool:
    return chosen is None or str(data_source) in chosen


def score_of_verl(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any, kwargs: Mapping[str, Any]
) -> dict[str, float]:
    """The result of verl's own function under the names that Assay's rows have; raises what that raises.

    The numbers that are Assay's alone are 0, as is `score_applies`. NaN would say so too, but verl's estimator `gdpo`
    spreads it to the whole batch. `acc` is that function's own, or the score, as verl itself has it.
    """
    function = default_compute_score()
    parameters = inspect.signature(function).parameters
    every = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    options = {name: value for name, value in kwargs.items() if name != "config" and (every or name in parameters)}
    try:
        given = function(data_source, solution_str, ground_truth, extra_info, **options)
    except NotImplementedError as error:
        raise wrong_data_sources(f"{data_source!r} is not among them, and verl has no reward for it") from error
    result = given if isinstance(given, Mapping) else {"score": given}
    score = float(result["score"])
    numbers = dict.fromkeys(METRICS, 0.0) | {"score_reason_code": -1.0}
    return {"score": score, **numbers, "score_applies": 0.0, "acc": float(result.get("acc", score))}


def default_compute_score() -> Callable[..., Any]:
    """verl's own function; raises InvalidSetting where it cannot be imported."""
    try:
        from verl.utils import reward_score

        return getattr(reward_score, "default_compute_score", None) or reward_score._default_compute_score
    except (ImportError, AttributeError) as error:
        raise wrong_data_sources(f"verl's default_compute_score cannot be imported ({error})") from error


def wrong_data_sources(detail: str) -> InvalidSetting:
    issue = Issue(DATA_SOURCES, "invalid_setting", detail)
    return InvalidSetting(f"{DATA_SOURCES}: {detail}", issues=[issue])


def config_of(client: BaseClient, kwargs: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What is laid over the client's own settings of the reward: each comes from the strongest of its three places."""
    given, recipe = kwargs.get("config"), recipe_config()
    return recipe | json.loads(client.settings.config) | dict(given or {}) if recipe else given


def recipe_config(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Settings that the switches of Thoth's recipe stand for; raises InvalidSetting naming every wrong one."""
    environ = os.environ if environ is None else environ
    given = {variable: environ[variable] for variable in SWITCHES if environ.get(variable)}
    issues = [
        Issue(variable, "invalid_setting", f"must be one of: {', '.join(SWITCHES[variable][1])}")
        for variable, value in given.items()
        if value not in SWITCHES[variable][1]
    ]
    if issues:
        raise InvalidSetting("; ".join(f"{o.path} {o.detail}" for o in issues), issues=issues)
    return {SWITCHES[variable][0]: SWITCHES[variable][1][value] for variable, value in given.items()}
