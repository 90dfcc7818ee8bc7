"""The verdict of a report in words: what happened, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..settings import MAX_CONTENT
from ..wording import fixed, plural, share
from .hacking import SIGNS
from .statistics import Statistics, correlation

__all__ = ["Finding", "remedies", "verdict"]

REMEDIES = {
    "too_long": "Limit the length of responses, or raise max_response_bytes and max_steps.",
    "think_not_opened": "The chat template probably ends the prompt with <think>: set think_prefilled.",
    "missing_sections": "Show the four sections <think>, <key>, <orc> and <note> in the prompt, in this order.",
    "no_steps": "Ask for one line “Step N: {…}” in <key> for each step.",
    "bad_step_line": "Ask for only lines of the form “Step N: {…}” in <key>.",
    "bad_step_json": "Show a key step in the prompt: what follows “Step N:” must be one JSON object.",
    "bad_step_schema": "Show a key step in the prompt: it has an action, a list of objects and a list of parameters.",
    "key_numbering": "Ask for key steps that are numbered 1, 2, 3, …",
    "orc_numbering": "Ask for prose steps that are numbered 1, 2, 3, …",
    "step_count": "Ask for one prose step in <orc> for each key step.",
    "low_coverage": "Ask for prose that names every action, object and parameter of its key step in the same words; "
    "min_coverage is the share required.",
}

MAIN_SHARE = 0.25  # of the failed responses, for the second reason to be named, if not tied with the third
MIN_CORRELATED = 30
STRONG = 0.5  # responses and correlation from which on the verdict mentions that longer responses earn more


class Finding(NamedTuple):
    """One sentence on the run, the section of the report with the details, and what to do."""

    text: str
    section: str
    advice: Sequence[str] = ()
    good: bool = False


def verdict(stats: Statistics, faults: Mapping[str, int]) -> list[Finding]:
    number = stats.reasons.total()
    not_scored = [_faults(faults)] if faults else []
    if not number:
        return [*not_scored, Finding("No response was scored.", "reasons")]
    return [_gates(stats, number), *not_scored, _groups(stats), _rewards(stats), *_hacking(stats), *_length(stats)]


def remedies(stats: Statistics) -> dict[str, str]:
    by_reason = {reason: REMEDIES.get(reason, "") for reason in stats.reasons}
    if cut := stats.truncated:
        which = "All of them" if cut == stats.reasons["missing_sections"] else f"{cut:,} of them"
        by_reason["missing_sections"] = f"{which} stop before the last tag: raise the maximum number of new tokens."
    return by_reason


def _gates(stats: Statistics, number: int) -> Finding:
    failed = number - stats.reasons["ok"]
    if not failed:
        text = f"All {number:,} responses pass both gates." if number > 1 else "The response passes both gates."
        return Finding(text, "reasons", good=True)
    reasons = [(reason, count) for reason, count in stats.reasons.most_common() if reason != "ok"]
    third = max((count for _, count in reasons[2:]), default=0)
    main = [reasons[0], *(pair for pair in reasons[1:2] if pair[1] > third and pair[1] >= MAIN_SHARE * failed)]
    named = " and ".join(f"{reason} ({count:,})" for reason, count in main)
    mostly = named if len(main) == len(reasons) else f"most often {named}"
    text = f"{failed:,} of {plural(number, 'response')} ({share(failed / number)}) fail a gate: {mostly}."
    by_reason = remedies(stats)
    advice = [f"{reason}: {by_reason[reason]}" if len(main) > 1 else by_reason[reason] for reason, _ in main]
    return Finding(text, "reasons", advice)


def _faults(faults: Mapping[str, int]) -> Finding:
    total, main = sum(faults.values()), max(faults, key=lambda reason: faults[reason])
    text = f"{plural(total, 'row')} could not be scored: most often {main} ({faults[main]:,})."
    advice = "They have no reward and are not counted here; the output has the error of each."
    return Finding(text, "faults", [advice])


def _groups(stats: Statistics) -> Finding:
    multiple = [group for group in stats.groups if group.size > 1]
    if not multiple:
        advice = ["If several rows share a prompt, name its field with --group-field."]
        return Finding("Every group has one response, so there are no advantages.", "groups", advice)
    flat = [group for group in multiple if group.flat]
    text = f"{len(flat):,} of {plural(len(multiple), 'group')} {'has' if len(flat) == 1 else 'have'} no spread"
    if not flat:
        return Finding(f"{text}: every prompt gives a gradient.", "groups", good=True)
    lowest, highest = stats.bounds
    low, high = sum(group.range[0] <= lowest for group in flat), sum(group.range[1] >= highest for group in flat)
    text += f" ({share(len(flat) / len(multiple))}): {low:,} at the lowest reward, {high:,} at the highest."
    advice = ["They give no gradient."]
    if low:
        advice.append("At the lowest reward: the prompts are too hard, or the format is not learned yet.")
    if high:
        advice.append("At the highest reward: the prompts are too easy; filter them out.")
    return Finding(text, "groups", advice, len(flat) <= len(multiple) // 10)


def _rewards(stats: Statistics) -> Finding:
    rewards, passed = stats.rewards.all(), stats.passed.all() > 0
    text = f"The mean reward is {fixed(rewards.mean())}"
    if not passed.any():
        return Finding(f"{text}.", "rewards")
    if not passed.all():
        text += f"; among the responses that pass both gates it is {fixed(rewards[passed].mean())}"
    order = {"order": 1.0} if stats.scorer.settings.use_order else {}
    maxima = {"scale": 1.0, **order, "content": MAX_CONTENT}
    means = {name: float(np.mean(stats.components[name].all())) / largest for name, largest in maxima.items()}
    name = min(means, key=lambda name: means[name])
    if means[name] >= 1.0:
        return Finding(f"{text}.", "rewards", good=True)
    weakest = f"Their weakest component is {name}, on average at {share(means[name])} of its maximum."
    return Finding(f"{text}.", "components", [weakest], True)


def _hacking(stats: Statistics) -> list[Finding]:
    passed = "of the responses that pass both gates, whose rewards are no lower than the others'."
    advice = ["Possible reward hacking – inspect these rows."]
    return [
        Finding(f"{sign.title} in {share(stats.signs.share(sign.name))} {passed}", "hacking", advice)
        for sign in SIGNS
        if stats.signs.is_suspicious(sign.name)
    ]


def _length(stats: Statistics) -> list[Finding]:
    passed = stats.passed.all() > 0
    lengths, rewards = stats.lengths.all()[passed], stats.rewards.all()[passed]
    r = correlation(lengths, rewards)
    if len(rewards) < MIN_CORRELATED or r is None or r < STRONG:
        return []
    text = f"Longer responses earn more (correlation {r:+.2f} among responses that pass both gates)."
    return [Finding(text, "sizes", ["Check for padding."])]
