"""Configurations of SCORE: as kernels take them, several for one batch, and the issues under each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from ...kernels.column import frozen
from ...kernels.rules import NO_LIMIT, Rules
from ..errors import InvalidSetting, Issue, row_of
from ..settings import ScoreSettings
from .references import UNLIMITED

T = TypeVar("T")

READING = ("think_prefilled", "max_response_bytes", "max_steps", "coverage")
"""The settings that decide what a text contains: configurations that agree in them share one reading."""

SIMILARITY = ("object_similarity", "parameter_similarity", "order")
"""Settings that decide how steps are compared."""

CONTENT = ("object_similarity", "parameter_similarity", "use_position", "position_decay")
"""Settings whose measures are kept while the configuration before agrees in them: the costly similarities first."""


def configurations_of(rules: Sequence[Rules]) -> np.ndarray:
    """Return configurations as the rows that `rules_at` takes, float64 (k, 23), read only."""
    return frozen(np.array(rules, np.float64), np.float64)


_SCALES = {"unit": 0, "raw": 1, "double": 2, "shift": 3}


def limit_of(most: int | None) -> int:
    return NO_LIMIT if most is None else min(most, UNLIMITED)


def rules_of(settings: ScoreSettings) -> Rules:
    return Rules(
        lcs_order=settings.order == "lcs",
        product_semantics=settings.semantics == "product",
        sum_total=settings.total == "sum",
        max_len_content=settings.content_denominator == "max_len",
        relative_length=settings.length_penalty == "relative",
        reward_scale=_SCALES[settings.reward_scale],
        largest_score=settings.largest_score,
        min_coverage=float(settings.min_coverage),
        max_mean_words=float(settings.max_mean_words),
        max_object_similarity=settings.object_similarity == "max",
        quantities=settings.parameter_similarity == "quantities",
        word_coverage=settings.coverage == "words",
        quantity_error_factor=float(settings.quantity_error_factor),
        max_added_words=limit_of(settings.max_added_words),
        max_added_numbers=limit_of(settings.max_added_numbers),
        position_decay=float(settings.position_decay),
        use_step_gap=settings.use_step_gap,
        use_length=settings.use_length,
        use_position=settings.use_position,
        use_order=settings.use_order,
        think_prefilled=settings.think_prefilled,
        max_response_bytes=min(settings.max_response_bytes, UNLIMITED),
        max_steps=min(settings.max_steps, UNLIMITED),
    )


def overridden_by_each(override: Callable[[Mapping[str, Any]], T], configs: Sequence[Mapping[str, Any]]) -> list[T]:
    """Return `override(config)` for each; raises InvalidSetting naming every issue, as `configs[2].order`."""
    if isinstance(configs, (str, bytes)) or not isinstance(configs, Sequence):
        raise InvalidSetting([Issue("configs", "wrong_type", "must be a list of objects with settings")])
    if not configs:
        raise InvalidSetting([Issue("configs", "too_few", "at least one configuration is needed")])
    overridden, issues = [], []
    for k, config in enumerate(configs):
        try:
            if not isinstance(config, Mapping):
                raise InvalidSetting([Issue("config", "wrong_type", "must be an object")])
            overridden.append(override(config))
        except InvalidSetting as error:
            issues += [
                issue._replace(path=f"configs[{k}]{issue.path.removeprefix('config')}") for issue in error.issues
            ]
    if issues:
        raise InvalidSetting(issues)
    return overridden


def by_reading(settings: Sequence[ScoreSettings]) -> list[list[int]]:
    reading, content = attrgetter(*READING), attrgetter(*CONTENT)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for k in sorted(range(len(settings)), key=lambda k: content(settings[k])):
        groups.setdefault(reading(settings[k]), []).append(k)
    return list(groups.values())


def issues_under_all(
    find: Callable[[int], Sequence[Issue]], max_steps: Sequence[int], names: Sequence[str]
) -> list[Issue]:
    issues = {limit: find(limit) for limit in set(max_steps)}
    if len(issues) == 1:
        return list(issues[max_steps[0]])
    return merged([(k, issue) for k, limit in enumerate(max_steps) for issue in issues[limit]], names)


def merged(issues: Iterable[tuple[int, Issue]], names: Sequence[str]) -> list[Issue]:
    """Return the issues without repeats; one that not all configurations have gets their names."""
    members: dict[Issue, list[int]] = {}
    for k, issue in issues:
        members.setdefault(issue, []).append(k)
    merged_issues = []
    for issue, numbers in members.items():
        if len(numbers) < len(names):
            issue = issue._replace(detail=f"{issue.detail} ({', '.join(names[k] for k in sorted(numbers))})")
        merged_issues.append(issue)
    return sorted(merged_issues, key=row_of)
