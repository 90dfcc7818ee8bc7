"""The verdict of a report in words."""

from __future__ import annotations

import pytest

from assay.kernels.status import REASONS
from assay.service.files.rows.rows import Location, Rollout
from assay.service.report.statistics import Statistics
from assay.service.report.verdict import REMEDIES, remedies, verdict
from assay.service.scoring.scorer import Scorer
from tests.cases import told
from tests.cases.writing import step

R = [step("add", "cells|pbs", "5 ml"), step("spin", "cells", "5 min"), step("store", "pellet")]
SCORER = Scorer()


def collected(responses: list[str], groups: list[object] | None = None) -> Statistics:
    """Score responses with one reference; the group of a response is its number if none are given."""
    stats = Statistics(SCORER)
    rollouts = [
        Rollout(Location("line", k + 1), b"", response=text, reference={"steps": R}, group=(groups or range(999))[k])
        for k, text in enumerate(responses)
    ]
    stats.add(rollouts, SCORER.score(responses, [{"steps": R}], [0] * len(responses)))
    return stats


def said(stats: Statistics, faults: dict[str, int] | None = None) -> list[str]:
    return [" ".join([finding.text, *finding.advice]) for finding in verdict(stats, faults or {})]


def test_all_is_well():
    best = told(R)
    first, groups, rewards = verdict(collected([best, told([R[0], R[2], R[1]])], ["a", "a"]), {})
    assert (first.text, first.good) == ("All 2 responses pass both gates.", True)
    assert (groups.text, groups.good) == ("0 of 1 group have no spread: every prompt gives a gradient.", True)
    assert rewards.text.startswith("The mean reward is 0.")
    assert rewards.advice == ["Their weakest component is order, on average at 50.0 % of its maximum."]
    assert said(collected([best]))[0] == "The response passes both gates."


def test_failed_gates_are_named_with_what_to_do():
    opened, best = told(R).removeprefix("<think>"), told(R)
    gates, *rest = said(collected([opened, opened, best, best]), {"not_json": 3, "bad_step_line": 1})
    assert gates == (
        "2 of 4 responses (50.0 %) fail a gate: think_not_opened (2). "
        "The chat template probably ends the prompt with <think>: set think_prefilled."
    )
    assert rest[0].startswith("4 rows could not be scored: most often not_json (3).")
    mixed = said(collected([opened, opened, "no", best]))[0]
    assert mixed.startswith("3 of 4 responses (75.0 %) fail a gate: think_not_opened (2) and missing_sections (1).")
    tied = said(collected([opened, opened, "no", best, best.replace('"action"', "", 1)]))[0]
    assert tied.startswith("4 of 5 responses (80.0 %) fail a gate: most often think_not_opened (2). The chat")


def test_responses_that_were_cut_off():
    cut = told(R).partition("</orc>")[0]
    assert "missing_sections (1). All of them stop before the last tag: raise" in said(collected([cut, told(R)]))[0]
    assert remedies(collected([cut, "no"]))["missing_sections"].startswith("1 of them stop before the last tag")


def test_groups_without_spread():
    best, swapped = told(R), told([R[0], R[2], R[1]])
    stats = collected(["no", "no", best, best, swapped, best], ["low", "low", "high", "high", "some", "some"])
    (found,) = [text for text in said(stats) if "spread" in text]
    assert found == (
        "2 of 3 groups have no spread (66.7 %): 1 at the lowest reward, 1 at the highest. They give no gradient. "
        "At the lowest reward: the prompts are too hard, or the format is not learned yet. "
        "At the highest reward: the prompts are too easy; filter them out."
    )
    assert any("--group-field" in text for text in said(collected([best, best])))


def test_reward_hacking_and_length():
    def padded(k: int) -> str:
        return told(R).replace("<note>n", "<note>n" + "n" * (50 * k)) if k > 20 else told(R[: 2 if k > 10 else 1])

    text = " ".join(said(collected([padded(k) for k in range(40)])))
    assert "Longer responses earn more (correlation +0." in text
    signs = said(collected([told(R) + "x" * 2_000, told(R)]))
    assert "Padding in 50.0 % of the responses that pass both gates" in signs[-1]


def test_without_responses():
    assert said(collected([]), {"not_json": 1})[-1] == "No response was scored."


def test_every_reason_has_a_remedy():
    assert set(REMEDIES) == set(REASONS) - {"ok"}


@pytest.mark.parametrize("responses", [["no", "no"], ["no"] * 40])
def test_without_a_response_that_passes(responses):
    assert "The mean reward is 0.0000." in said(collected(responses))
