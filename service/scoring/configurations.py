"""One batch under several configurations: those that read texts alike are scored in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from operator import attrgetter
from typing import Any, TypeVar

from ..errors import InvalidReference, InvalidSetting, Issue, row_of
from ..settings import ScoreSettings
from .column_scorer import READING, Columns, ColumnScorer

__all__ = ["by_reading", "issues_under_all", "overridden_by_each", "score_together"]

T = TypeVar("T")
CONTENT = ("content_denominator", "object_similarity", "use_position", "position_decay", "order")
"""What is measured again unless the configuration before agrees in it: the costly content first."""


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


def score_together(
    settings: Sequence[ScoreSettings], threads: int, score: Callable[[ColumnScorer], Columns], names: Sequence[str]
) -> Columns:
    """Score a batch under each of `settings`, once for all that read texts alike; return the columns in their order.

    Raises InvalidReference naming every reference that any configuration refuses, and these configurations by `names`.
    """
    scored: list[tuple[list[int], Columns]] = []
    refused: list[tuple[int, Issue]] = []
    for members in by_reading(settings):
        try:
            scored.append((members, score(ColumnScorer([settings[k] for k in members], threads))))
        except InvalidReference as error:
            refused += product(members, error.issues)
    if refused:
        raise InvalidReference(merged(refused, names))
    _, components, rows = scored[0][1].measures.shape
    together = Columns.empty(len(settings), components, rows)
    for members, columns in scored:
        for whole, part in zip(together, columns, strict=True):
            whole[members] = part
    return together


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
