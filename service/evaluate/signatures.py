"""Signatures of evaluations and of the rewards of tasks: options, and versions of the libraries that decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, get_origin

from ..settings import RULES_VERSION, ScoreSettings
from ..signature import signature_of
from .task import Task

__all__ = ["evaluation_signature", "mixed_signature", "reward_signature"]

UNDECISIVE = frozenset(
    {"by", "metrics", "delta_sweep", "base_url", "concurrency", "timeout", "retries", "replies", "judge"}
)
"""Options that do not change the value of a metric: what is computed, and how a judge is reached."""

OF_REWARDS = frozenset({"reward"})
RENAMED = {"nltk": "nltk_rules"}


def evaluation_signature(task: Task, options: Any, unavailable: Iterable[str] = ()) -> str:
    """Return the signature of an evaluation, without the libraries of the `unavailable` metrics."""
    computed = {metric.name for metric in task.requested(options)}.difference(unavailable)
    return _signature(task, options, _decisive(options, OF_REWARDS), computed)


def reward_signature(task: Task, options: Any) -> str:
    return _signature(task, options, _decisive(options), {getattr(options, "reward", "")})


def mixed_signature(settings: ScoreSettings, changed: Mapping[Task, Any]) -> str:
    """Return the signature of a batch of several tasks: SCORE's settings and the `changed` options of each task."""
    values: dict[str, Any] = {"tasks": "mixed"}
    libraries: set[str] = set()
    for task, options in changed.items():
        defaults = _decisive(type(options)())
        shown = {name: value for name, value in _decisive(options).items() if value != defaults.get(name)}
        values |= {f"{task.name}.{name}": value for name, value in shown.items()}
        libraries |= _libraries(task, options, {getattr(options, "reward", "")})
    return settings.signature_with(values | _versions(libraries))


def _signature(task: Task, options: Any, shown: Mapping[str, Any], computed: set[str]) -> str:
    rules = {"rules": RULES_VERSION} if task.has_rules else {}
    return signature_of(task.name, rules | dict(shown) | _versions(_libraries(task, options, computed)))


def _libraries(task: Task, options: Any, computed: set[str]) -> set[str]:
    used = computed | {name for name in type(options).model_fields if getattr(options, name) is not None}
    return {library for name, needed in task.libraries.items() if name in used for library in needed}


def _versions(libraries: set[str]) -> dict[str, str | None]:
    return {name: _version(name) for name in sorted(libraries)}


def _decisive(options: Any, left_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    decisive = {}
    for name, field in type(options).model_fields.items():
        value, is_choice = getattr(options, name), field.annotation is bool or get_origin(field.annotation) is Literal
        if name not in UNDECISIVE | left_out and value is not None and (is_choice or value != field.default):
            decisive[RENAMED.get(name, name)] = value
    return decisive


@cache
def _version(distribution: str) -> str | None:
    """Return the version of an installed distribution; kept, because it is read from a file, which takes 1 ms."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
