"""Which fields of scored rows hold the reward, the response, the prompt and the reference, judged by the first rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..evaluate.task import OK
from ..files.field_names import (
    PROMPT_NAMES,
    REFERENCE_NAMES,
    RESPONSE_NAMES,
    FieldError,
    absent_field,
    guess_field,
    has_field,
)
from ..rewards.registry import REWARD_TASKS, SCORE, reward_of
from ..rewards.scores import NO_SPREAD

__all__ = ["ScoredFields", "has_components", "has_passed"]


NO_REWARDS = "rows have no rewards yet; run first: assay score INPUT -o scored.jsonl --include components"


class ScoredFields(NamedTuple):
    """Names of the fields of a scored row; reward and group may be dotted paths. None if rows do not have the field."""

    reward: str = "reward"
    response: str | None = "response"
    prompt: str | None = "prompt"
    reference: str | None = "reference"
    group: str | None = None

    def found(self, rows: Sequence[Mapping[str, Any]], kind: str, needed: Mapping[str, str]) -> ScoredFields:
        """Return the fields under the usual names that the rows use.

        needed: why the rows must have a field, by its role (`prompt`). Raises FieldError if no row has one, unless
        there is no row.
        """
        if not rows:
            return self
        usual = {"response": RESPONSE_NAMES, "prompt": PROMPT_NAMES, "reference": REFERENCE_NAMES}
        chosen: dict[str, str | None] = {"reward": self.reward, "group": self.group}
        for role, names in usual.items():
            given: str = getattr(self, role)
            name = guess_field(given, names, rows)
            present = any(name in row for row in rows)
            if not present and (given != names[0] or role in needed):
                raise with_reason(absent_field(name, rows, f"--{role}-field", kind), needed.get(role))
            chosen[role] = name if present else None
        scored = [row for row in rows if row.get("error") is None]
        for role in ("reward", "group"):
            path = chosen[role]
            if path is not None and scored and not any(has_field(row, path) for row in scored):
                error = absent_field(path, scored, f"--{role}-field", kind)
                raise with_reason(error, NO_REWARDS if role == "reward" and path == "reward" else None)
        if not (chosen["prompt"] or chosen["reference"] or chosen["group"]):
            raise with_reason(absent_field("prompt", rows, "--prompt-field or --group-field", kind), "rows form groups")
        return ScoredFields(**chosen)  # type: ignore[arg-type]

    def renamed(self, given: ScoredFields) -> dict[str, str]:
        """Return the fields with other names than the given ones, by their roles."""
        pairs = zip(self._fields, self, given, strict=True)
        return {role: name for role, name, before in pairs if name is not None and name != before}

    @property
    def grouped_by(self) -> str:
        """Name the fields that are equal within a group."""
        return self.group or " and ".join(name for name in (self.prompt, self.reference) if name)


def with_reason(error: FieldError, reason: str | None) -> FieldError:
    """Return the error with why the field is needed."""
    return FieldError(f"{reason}: {error}") if reason else error


def components_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the components of a row: an object in JSON, columns of the row itself otherwise."""
    nested = row.get("components")
    return nested if isinstance(nested, Mapping) else row


def needed_components(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the components that are all 1 for a response that passes the row's task."""
    task = row.get("task")
    return reward_of(task if task in REWARD_TASKS else SCORE).passed_if


def has_components(row: Mapping[str, Any]) -> bool:
    """Return whether a row says if its response passes, besides by its reason."""
    found = components_of(row)
    return all(isinstance(found.get(name), float | int) for name in needed_components(row))


def has_passed(row: Mapping[str, Any], by_components: bool) -> bool:
    """Return whether the response of a row passes: both gates and order 1, or without components both gates."""
    if not by_components:
        return row.get("reason") == OK
    found = components_of(row)
    return all(abs(found[name] - 1.0) <= NO_SPREAD for name in needed_components(row))
