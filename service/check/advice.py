"""What to change before training, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..rewards.scores import NO_SPREAD
from ..settings import ScoreSettings
from ..wording import format_number, plural
from .earnings import Earned
from .gold import GoldAnswers

__all__ = ["Advice", "advice_on"]


class Advice(NamedTuple):
    text: str
    good: bool


def advice_on(gold: GoldAnswers, policies: Sequence[Earned], settings: ScoreSettings) -> list[Advice]:
    if not gold.number:
        return [
            Advice("No reference is a complete answer, so gates and policies have nothing to be compared with.", True)
        ]
    advice = [*on_gates(gold, settings)]
    beating = [earned for earned in policies if earned.beats_gold]
    gold_mean = policies[0].rewards.mean or 0.0
    advice += [Advice(on_policy(earned, gold_mean, gold), False) for earned in beating]
    equal = [earned.policy.title for earned in policies if earned.equals_gold]
    if equal:
        advice.append(Advice(f"As good as the gold answers: {', '.join(equal)}.", True))
    elif not beating:
        advice.append(Advice("No trivial policy earns as much as the gold answers.", True))
    return advice


def on_gates(gold: GoldAnswers, settings: ScoreSettings) -> Iterator[Advice]:
    if not gold.failed:
        all_pass = "The gold answer passes" if gold.number == 1 else f"All {gold.number:,} gold answers pass"
        yield Advice(f"{all_pass} both gates.", True)
    else:
        yield Advice(
            f"{gold.failed:,} of {plural(gold.number, 'gold answer')} fail a gate.{on_coverage(gold, settings)}", False
        )
    if gold.penalized:
        yield Advice(
            f"{plural(gold.penalized, 'gold answer')} have more words a prose step than max_mean_words "
            f"({format_number(settings.max_mean_words)}), which lowers their reward: none has with "
            f"max_mean_words={math.ceil(gold.longest)}; length_penalty=relative costs less than absolute.",
            False,
        )


def on_coverage(gold: GoldAnswers, settings: ScoreSettings) -> str:
    other = gold.number - gold.covered
    text = f" {other:,} of them fail for a reason other than coverage: correct these records." if other else ""
    if not gold.reasons["low_coverage"]:
        return text
    suggested = gold.suggested()
    if suggested is None:
        return f"{text} No min_coverage down to 0.5 lets enough of them pass: correct their prose."
    if suggested.min_coverage >= settings.min_coverage:
        return f"{text} min_coverage can stay as it is; correct the prose of the others."
    return (
        f"{text} With min_coverage={format_number(suggested.min_coverage)}, {suggested.passed:,} pass; it also "
        "accepts prose that leaves out more words of its steps."
    )


def on_policy(earned: Earned, gold_mean: float, gold: GoldAnswers) -> str:
    difference, suggested = earned.gold_difference or 0.0, gold.suggested()
    title = earned.policy.title
    text = f"{title[0].upper()}{title[1:]}: earns {difference:.4f} more than the gold answers."
    if suggested is not None and suggested.mean_reward > gold_mean + NO_SPREAD:
        rest = gold_mean + difference - suggested.mean_reward
        so = "no less than this policy" if rest <= NO_SPREAD else f"still {rest:.4f} less than this policy"
        coverage = format_number(suggested.min_coverage)
        text += f" With min_coverage={coverage} they earn {suggested.mean_reward:.4f}, {so}."
    if gold.penalized:
        text += " Part of that is the length penalty on gold answers."
    return f"{text} {earned.policy.remedy}"
