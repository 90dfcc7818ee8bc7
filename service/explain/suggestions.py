"""Edits that would change the reward most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..rewards.scores import Scores
from ..scoring.configurations import rules_of
from ..wording import format_number, format_reward, format_reward_change
from .alignment import Alignment, align
from .candidates import Candidate, Drafting, EditCandidates, candidates_of
from .case import MAX_BYTES, Case
from .edits import StepPool
from .repairs import Repair, repaired
from .schema import Change, Explanation, Kind, Suggestion

MAX_CANDIDATES = 2048
MAX_CANDIDATE_BYTES = 8 << 20
MAX_SHOWN_BYTES = 64 << 10
OF_MANY_STEPS = ("add_steps", "drop_steps", "replace_steps", "sort_steps")
OF_ONE_STEP = ("use_action", "use_objects", "use_parameters", "use_quantities", "replace_step")
SIZES: dict[Kind, int] = {"drop_step": 1, "add_step": 1, "use_quantities": 1, "replace_step": 3}


class Search(NamedTuple):
    suggestions: list[Suggestion]
    tried: int
    exhaustive: bool | None


def search(case: Case, explanation: Explanation, n: int) -> Search:
    """Return at most n changes that raise the reward, the largest gain first; of equal gains the smaller change."""
    if not n or case.reward >= explanation.largest_reward:
        return Search([], 0, None)
    if case.reason != "ok":
        repairs = _repairs(case)
        return Search(repairs[:n], len(repairs), None)
    assert case.reading is not None
    drafting = Drafting(case.reading, case.settings)
    sources = _sources(case, explanation, drafting)
    chosen, outlines, exhaustive = _collected(candidates_of(sources), drafting.pool)
    exhaustive = exhaustive and len(sources) == len(case.alternative_rewards)
    gains = case.rescored(outlines).rewards - case.reward
    ranked = sorted((-gain, _size(chosen[k]), k) for k, gain in enumerate(gains.tolist()))
    best = _distinct([(-loss, chosen[k]) for loss, _, k in ranked if loss < 0])[:n]
    draft, pool = drafting.draft, drafting.pool
    edits = [Repair(edit.text, draft.render(pool.steps(edit.numbers)), edit.steps, edit.kind) for edit in best]
    scores = case.rescored([edit.response for edit in edits])
    suggested = [
        _suggestion(case, edit, scores, row, candidate)
        for row, (edit, candidate) in enumerate(zip(edits, best, strict=True))
        if scores.rewards[row] > case.reward
    ]
    return Search(suggested, len(chosen), exhaustive)


def _sources(case: Case, explanation: Explanation, drafting: Drafting) -> list[EditCandidates]:
    """Return the edits for the alternative that counts, then those for others, up to MAX_BYTES of their texts."""
    assert explanation.scale is not None
    assert explanation.order is not None
    assert explanation.content is not None
    own = Alignment(explanation.scale, explanation.order, explanation.pairs, explanation.content)
    sources = [EditCandidates(drafting, own, case.expected, case.alternative, "the reference's")]
    left = MAX_BYTES
    for k, length in enumerate(case.texts.lengths.tolist()):
        if k != case.alternative and length <= left:
            left -= length
            expected = case.reading_of(k)
            alignment = align(drafting.reading, expected, case.settings, rules_of(case.settings))
            sources.append(EditCandidates(drafting, alignment, expected, k, f"alternative {k + 1}'s"))
    return sources


def _collected(candidates: Iterator[Candidate], pool: StepPool) -> tuple[list[Candidate], list[bytes], bool]:
    chosen: list[Candidate] = []
    outlines: list[bytes] = []
    total = 0
    for candidate in candidates:
        outline = pool.outline(candidate.numbers)
        total += len(outline)
        if chosen and (len(chosen) == MAX_CANDIDATES or total > MAX_CANDIDATE_BYTES):
            return chosen, outlines, False
        chosen.append(candidate)
        outlines.append(outline)
    return chosen, outlines, True


def _size(candidate: Candidate) -> int:
    if candidate.kind in OF_MANY_STEPS:
        return len(candidate.steps) + len(candidate.reference_steps)
    return SIZES.get(candidate.kind, 2)


def _distinct(ranked: Sequence[tuple[float, Candidate]]) -> list[Candidate]:
    """Drop what says the same again, and changes of many steps that do not gain more than twice the best small one."""
    limit = 2 * max((gain for gain, candidate in ranked if candidate.kind not in OF_MANY_STEPS), default=0.0)
    seen: set[tuple[object, ...]] = set()
    rewritten: set[int] = set()
    corrected: dict[int, float] = {}
    distinct = []
    for gain, candidate in ranked:
        if candidate.kind in OF_MANY_STEPS and gain <= limit:
            continue
        steps, taken = tuple(candidate.steps), tuple(candidate.reference_steps)
        if candidate.kind in OF_ONE_STEP:
            if candidate.kind == "replace_step" and candidate.steps[0] in rewritten:
                continue
            if candidate.kind == "use_quantities":
                corrected[candidate.steps[0]] = gain
            if candidate.kind == "use_parameters" and corrected.get(candidate.steps[0]) == gain:
                continue
            rewritten.add(candidate.steps[0])
        key = (candidate.kind, *((candidate.alternative, taken) if candidate.kind == "add_step" else (steps,)))
        if key not in seen:
            seen.add(key)
            distinct.append(candidate)
    return distinct


def _repairs(case: Case) -> list[Suggestion]:
    suggested = []
    edit = repaired(case)
    if edit is not None:
        scores = case.rescored([edit.response])
        if scores.rewards[0] >= case.reward:
            suggested.append(_suggestion(case, edit, scores, 0))
    if case.reason == "think_not_opened":
        suggested += _with_setting(case)
    return sorted(suggested, key=lambda suggestion: (-suggestion.gain, len(suggestion.steps)))


def _suggestion(case: Case, edit: Repair, scores: Scores, row: int, candidate: Candidate | None = None) -> Suggestion:
    reward = float(scores.rewards[row])
    after = {name: float(column[row]) for name, column in scores.components.items()}
    changes = [
        Change(name=name, before=before, after=after[name])
        for name, before in case.components.items()
        if after[name] != before
    ]
    return Suggestion(
        kind=edit.kind,
        text=f"{edit.text}{_effects(edit.kind, changes)}, reward {format_reward_change(reward - case.reward)}.",
        steps=list(edit.steps),
        reference_steps=list(candidate.reference_steps if candidate is not None else ()),
        alternative=candidate.alternative if candidate is not None else case.alternative,
        gain=reward - case.reward,
        reward=reward,
        reason=str(scores.reasons[row]),
        changes=changes,
        config={},
        response=edit.response.decode() if len(edit.response) <= MAX_SHOWN_BYTES else None,
    )


def _effects(kind: str, changes: list[Change]) -> str:
    named = {change.name: change for change in changes}
    if "format" in named or "consistency" in named:
        return "; both gates then pass"
    shown = ("order", "content", "step_gap", "quantity_errors", *(("mean_words",) if kind == "shorten_prose" else ()))
    parts = [named[name] for name in shown if name in named] or [named["score"]]
    return ": " + ", ".join(f"{part.name.replace('_', ' ')} {_shown(part)}" for part in parts)


def _shown(change: Change) -> str:
    form = format_number if change.name == "quantity_errors" else format_reward
    return f"{form(change.before)} → {form(change.after)}"


def _with_setting(case: Case) -> list[Suggestion]:
    config = {"think_prefilled": True}
    scorer = case.scorer.with_overrides(config)
    scores = replace(case, scorer=scorer).rescored([case.response])
    if scores.rewards[0] <= case.reward:
        return []
    edit = Repair("Set think_prefilled", case.response, kind="setting")
    return [_suggestion(case, edit, scores, 0).model_copy(update={"config": config, "response": None})]
