"""Reward function for verl: `reward.custom_reward_function.path=…/for_verl.py` (older: `custom_reward_function.path`).

`compute_score` is for the reward loop, which calls it once per sample: concurrent calls share requests.
`compute_score_batch` is for the older batch manager, `compute_score_sync` for the older sequential one, which finds it
under the default name in for_verl_sync.py. Settings of the reward come from `config` in the trainer's `reward_kwargs`,
then from ASSAY_CLIENT_CONFIG, then from the switches of Thoth's recipe (GRPO_ORDER_MODE and so on). `run` in
`reward_kwargs` is the name of the run; `steps=true` there adds `score_steps` to every sample, the steps of the response
as JSON text, because verl keeps no lists; `parts=true` adds `score_order_part` and `score_content_part`, which sum to
the reward, for the estimator `gdpo`.

If ASSAY_CLIENT_DATA_SOURCES, a comma-separated list, is set, rows of other data sources are scored by verl's own
`default_compute_score`. An entry `source=task` names the task of a data source; one without is a task, or else SCORE.
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
from functools import lru_cache
from typing import Any

from assay_client.adapters.common import (
    async_client,
    check_options,
    checked_lengths,
    kind_of,
    pairs_of,
    record_of,
    required,
    score_rows,
    sync_client,
    texts_of,
)
from assay_client.adapters.metrics import (
    METRICS,
    MIXED_METRICS,
    PARTS,
    batch_means,
    groups_of,
    metrics_of,
    reward_parts,
)
from assay_client.errors import InvalidSetting, Issue, invalid_setting
from assay_client.requests import checked_sequence
from assay_client.results import Score
from assay_client.settings import MIXED
from assay_client.tasks import REWARD_TASKS, SCORE
from assay_client.training_logs import log_means
from assay_client.transport.waiting import completed

__all__ = ["compute_score", "compute_score_batch", "compute_score_sync", "recipe_config"]

DATA_SOURCES = "ASSAY_CLIENT_DATA_SOURCES"
Sources = dict[str, str]
"""The task of each data source that Assay scores."""

Result = dict[str, Any]
"""The numbers of a sample by name, and perhaps `score_steps`."""

SWITCHED = ("steps", "parts")
OWN = ("config", "run", *SWITCHED)
"""Members of `reward_kwargs` for this adapter."""

KWARGS = "reward_kwargs."
OF_VERL = {
    *("reward_router_address", "reward_model_tokenizer"),
    *("sandbox_fusion_url", "concurrent_semaphore", "memory_limit_mb"),
}
"""What verl itself passes, and what its own `default_compute_score` takes."""

SWITCHES: dict[str, tuple[str, dict[str, str]]] = {
    "GRPO_ORDER_MODE": ("order", {"strict_subseq": "strict", "strict": "strict", "lcs": "lcs"}),
    "GRPO_COMBINE_MODE": ("semantics", {"sum": "sum", "product": "product"}),
    "GRPO_CONTENT_DENOM": ("content_denominator", {"matched": "matched", "max_len": "max_len"}),
    "GRPO_FINAL_COMBINE": ("total", {"product": "product", "sum": "sum"}),
}
"""Environment switches of Thoth's launch script: the setting that each means, and its values."""


async def compute_score(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **kwargs: Any
) -> Result:
    """Return `score`, the reward, and its metrics, always under the same names. Raise AssayError."""
    sources = checked_sources(kwargs)
    arguments = data_source, solution_str, ground_truth, extra_info, kwargs, sources
    if sources is not None and str(data_source) not in sources:  # in a thread, as verl runs synchronous functions
        return await asyncio.to_thread(score_of_verl, *arguments)
    return result_of(await score_call(async_client, *arguments), kwargs, sources)


def compute_score_sync(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **kwargs: Any
) -> Result:
    """Return as `compute_score`, for managers that do not await."""
    sources = checked_sources(kwargs)
    arguments = data_source, solution_str, ground_truth, extra_info, kwargs, sources
    if sources is not None and str(data_source) not in sources:
        return score_of_verl(*arguments)
    return result_of(score_call(sync_client, *arguments), kwargs, sources)


def score_call(
    client_of: Callable[..., Any],
    data_source: Any,
    solution_str: str,
    ground_truth: Any,
    extra_info: Any,
    kwargs: Mapping[str, Any],
    sources: Sources | None,
) -> Any:
    record, task = record_of(extra_info), task_of_source(data_source, sources)
    client = configured(client_of, kwargs)
    reference, has_steps = required(ground_truth, record, task), bool(kwargs.get("steps"))
    return client.score_one(solution_str, reference, record=record, task=task, steps=has_steps)


def compute_score_batch(
    data_sources: Any,
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Any = None,
    **kwargs: Any,
) -> list[Result]:
    """Return one result per sample of the batch, from one request."""
    sources, n = checked_sources(kwargs), len(checked_sequence(solution_strs, "solution_strs"))
    infos = [None] * n if extra_infos is None else extra_infos
    checked_lengths(n, data_sources=data_sources, references=ground_truths, extra_infos=infos)
    texts = texts_of(solution_strs, list(map(record_of, infos)), "solution_strs")
    is_mixed = has_tasks(sources)
    tasks = [task_of_source(data_sources[k], sources) or SCORE for k in range(n)] if is_mixed else None
    _, references = pairs_of(texts, ground_truths, tasks)
    rows = [k for k in range(n) if sources is None or str(data_sources[k]) in sources]
    results: dict[int, Result] = {}
    if rows:
        records = None if extra_infos is None else [record_of(info) for info in infos]
        client = configured(sync_client, kwargs)
        columns = ("components", "steps") if kwargs.get("steps") else ("components",)
        scores = completed(score_rows(client, texts, references, records, rows, tasks, columns))
        prompts = [(records and records[k], references[k]) for k in rows]
        log_means(lambda: batch_means(scores, groups_of(len(rows), prompts), [texts[k] for k in rows]))
        results = {row: result_of(score, kwargs, sources) for row, score in zip(rows, scores.rows(), strict=True)}
    for k in set(range(n)) - results.keys():
        results[k] = score_of_verl(data_sources[k], texts[k], ground_truths[k], infos[k], kwargs, sources)
    return [results[k] for k in range(n)]


def result_of(score: Score, kwargs: Mapping[str, Any], sources: Sources | None) -> Result:
    result: Result = {"score": score.reward, **metrics_of(score)}
    if score.steps is not None:
        result["score_steps"] = json.dumps(score.steps)
    if kwargs.get("parts"):
        result |= {f"score_{name}": part for name, part in reward_parts(score).items()}
    return result if sources is None else result | {"score_applies": 1.0, "acc": score.reward}


def checked_sources(kwargs: Mapping[str, Any]) -> Sources | None:
    """Return the data sources that Assay scores, None for all as SCORE; raise InvalidSetting.

    Also for `reward_kwargs` that nothing reads: where verl's own function scores other rows, that may take any.
    """
    sources = read_sources(os.environ.get(DATA_SOURCES) or "")
    if kwargs:
        check_options(kwargs, KWARGS, f"{KWARGS}config", {*OWN, *OF_VERL} if sources is None else None)
        for name in SWITCHED:
            if not isinstance(kwargs.get(name) or False, bool):
                raise invalid_setting(f"{KWARGS}{name}", f"must be true or false, not {kind_of(kwargs[name])}")
    return sources


@lru_cache(maxsize=4)
def read_sources(listed: str) -> Sources | None:
    sources = {}
    for entry in filter(None, map(str.strip, listed.split(","))):
        name, separator, task = map(str.strip, entry.rpartition("="))
        if not separator:
            name, task = entry, entry if entry in REWARD_TASKS else SCORE
        if not name or task not in REWARD_TASKS:
            raise invalid_setting(DATA_SOURCES, f"{entry}: the task must be one of: {', '.join(REWARD_TASKS)}")
        sources[name] = task
    if listed and not sources:
        raise invalid_setting(DATA_SOURCES, "must be names separated by commas")
    return sources or None


def has_tasks(sources: Sources | None) -> bool:
    """Return whether rows may be of other tasks than SCORE, and all of them have the numbers of all tasks."""
    return sources is not None and set(sources.values()) != {SCORE}


def task_of_source(data_source: Any, sources: Sources | None) -> str | None:
    """Return the task of a row; None in a run of SCORE alone, or for a source that is not Assay's."""
    return sources.get(str(data_source)) if sources is not None and has_tasks(sources) else None


def score_of_verl(
    data_source: Any,
    solution_str: str,
    ground_truth: Any,
    extra_info: Any,
    kwargs: Mapping[str, Any],
    sources: Sources | None,
) -> Result:
    """Return the result of verl's own function under the names of Assay's results; raise its errors.

    Assay's own metrics are 0, as is `score_applies`: verl's estimator `gdpo` would spread NaN to the whole batch.
    `acc` comes from verl's function if it has one, else it is the score, as in verl. The last of PARTS is the score.
    """
    function = default_compute_score()
    parameters = inspect.signature(function).parameters
    accepts_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    options = {name: value for name, value in kwargs.items() if name not in OWN and (accepts_all or name in parameters)}
    try:
        outcome = function(data_source, solution_str, ground_truth, extra_info, **options)
    except NotImplementedError as error:
        detail = f"{data_source!r} is not in the list, and verl has no reward for it"
        raise invalid_setting(DATA_SOURCES, detail) from error
    result = outcome if isinstance(outcome, Mapping) else {"score": outcome}
    score = float(result["score"])
    names = MIXED_METRICS if has_tasks(sources) else METRICS
    metrics = dict.fromkeys(names, 0.0) | {"score_task": -1.0, "score_reason_code": -1.0}
    further: Result = {"score_steps": "[]"} if kwargs.get("steps") else {}
    if kwargs.get("parts"):
        further |= dict(zip((f"score_{name}" for name in PARTS), (0.0, score), strict=True))
    return {"score": score, **metrics, **further, "score_applies": 0.0, "acc": float(result.get("acc", score))}


def default_compute_score() -> Callable[..., Any]:
    try:
        from verl.utils import reward_score

        function: Callable[..., Any] | None = getattr(reward_score, "default_compute_score", None)
        return function or reward_score._default_compute_score  # its older name
    except (ImportError, AttributeError) as error:
        raise invalid_setting(DATA_SOURCES, f"verl's default_compute_score cannot be imported ({error})") from error


def configured(client_of: Callable[..., Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the client with each setting of the reward from the first of its three sources."""
    config, recipe, run = kwargs.get("config"), recipe_config(), kwargs.get("run")
    client = client_of(run)
    if not config and not recipe:
        return client
    if config is not None and not isinstance(config, Mapping):
        raise invalid_setting(f"{KWARGS}config", f"must be an object of settings, not {kind_of(config)}")
    client_config = json.loads(client.settings.config)
    return client_of(run, config=client.settings.merged(recipe | client_config | dict(config or {}), MIXED))


def recipe_config(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings that the switches of Thoth's recipe mean; raise InvalidSetting for invalid values."""
    environ = os.environ if environ is None else environ
    switches = {variable: environ[variable] for variable in SWITCHES if environ.get(variable)}
    issues = [
        Issue(variable, "invalid_setting", f"must be one of: {', '.join(SWITCHES[variable][1])}")
        for variable, value in switches.items()
        if value not in SWITCHES[variable][1]
    ]
    if issues:
        raise InvalidSetting("; ".join(f"{issue.path} {issue.detail}" for issue in issues), issues=issues)
    return {SWITCHES[variable][0]: SWITCHES[variable][1][value] for variable, value in switches.items()}
