"""What would change a reward most: candidate edits are made, rescored, and ranked by their gain."""

from __future__ import annotations

import numpy as np

from ...scoring.scores import Scores
from ..case import Case
from ..numbers import format_delta, format_number
from ..schema import Change, Explanation, Suggestion
from .candidates import Edit, edits_of
from .repairs import repair

__all__ = ["suggestions_for"]

MAX_CANDIDATES = 256
MAX_CANDIDATE_BYTES = 8 << 20
"""Candidates, and bytes of them, that are rescored together."""

MAX_SHOWN_BYTES = 64 << 10
"""Longest changed response that a suggestion includes."""

OF_MANY_STEPS = ("add_steps", "drop_steps", "replace_steps", "sort_steps")


def suggestions_for(case: Case, explanation: Explanation, n: int) -> list[Suggestion]:
    """Return at most n changes that raise the reward, the largest gain first; of equal gains the smaller change.

    A repair that passes the gates is included even if the reward stays the same.
    """
    if not n or case.reward >= explanation.largest_reward:
        return []
    edits = _candidates(case, explanation)
    found = _rescored(case, edits)
    if case.reason == "think_not_opened":
        found += _with_setting(case)
    found.sort(key=lambda suggestion: (-suggestion.gain, len(suggestion.steps) + len(suggestion.reference_steps)))
    return _informative(found)[:n]


def _informative(found: list[Suggestion]) -> list[Suggestion]:
    """Drop changes of many steps unless they gain more than twice as much as the best change of one or two.

    Copying the reference always gains most, and explains least.
    """
    best = max((suggestion.gain for suggestion in found if suggestion.kind not in OF_MANY_STEPS), default=0.0)
    return [suggestion for suggestion in found if suggestion.kind not in OF_MANY_STEPS or suggestion.gain > 2 * best]


def _candidates(case: Case, explanation: Explanation) -> list[Edit]:
    if case.reason != "ok":
        repaired = repair(case)
        return [repaired] if repaired is not None else []
    assert case.reading is not None
    edits: list[Edit] = []
    total = 0
    for edit in edits_of(explanation, case.reading, case.expected):
        total += len(edit.response)
        if edits and (len(edits) == MAX_CANDIDATES or total > MAX_CANDIDATE_BYTES):
            break
        edits.append(edit)
    return edits


def _rescored(case: Case, edits: list[Edit]) -> list[Suggestion]:
    """Rescore the edits and return those that raise the reward, or repair the response."""
    scores = case.rescored([edit.response for edit in edits])
    better = [
        scores.rewards[row] > case.reward or (edit.kind == "mend" and scores.rewards[row] == case.reward)
        for row, edit in enumerate(edits)
    ]
    return [_suggestion(case, edits[row], scores, row) for row in np.flatnonzero(better).tolist()]


def _suggestion(case: Case, edit: Edit, scores: Scores, row: int) -> Suggestion:
    reward = float(scores.rewards[row])
    after = {name: float(column[row]) for name, column in scores.components.items()}
    changes = [
        Change(name=name, before=before, after=after[name])
        for name, before in case.components.items()
        if after[name] != before
    ]
    return Suggestion(
        kind=edit.kind,
        text=f"{edit.text}: {_effects(edit.kind, changes)}, reward {format_delta(reward - case.reward)}.",
        steps=edit.steps,
        reference_steps=edit.reference_steps,
        gain=reward - case.reward,
        reward=reward,
        reason=str(scores.reasons[row]),
        changes=changes,
        config={},
        response=edit.response.decode() if len(edit.response) <= MAX_SHOWN_BYTES else None,
    )


def _effects(kind: str, changes: list[Change]) -> str:
    """Say which parts change, or that the response now passes the gates."""
    named = {change.name: change for change in changes}
    if "format" in named or "consistency" in named:
        return "the gates are open"
    shown = ("order", "content", "step_gap", *(("mean_words",) if kind == "shorten_prose" else ()))
    parts = [named[name] for name in shown if name in named] or [named["score"]]
    return ", ".join(
        f"{part.name.replace('_', ' ')} {format_number(part.before)} → {format_number(part.after)}" for part in parts
    )


def _with_setting(case: Case) -> list[Suggestion]:
    """Suggest `think_prefilled`: the response is probably the rest of an answer that the prompt has begun."""
    config = {"think_prefilled": True}
    scorer = case.scorer.with_overrides(config)
    scores = case._replace(scorer=scorer).rescored([case.response])
    if scores.rewards[0] <= case.reward:
        return []
    edit = Edit("setting", "Set think_prefilled", [], [], case.response)
    return [_suggestion(case, edit, scores, 0).model_copy(update={"config": config, "response": None})]
