"""The verdict of a report in words."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from assay.kernels.rules import REASONS
from assay.research.reports.report import REMEDIES, ReportFinding, remedies, verdict
from assay.research.reports.statistics import RewardStatistics
from assay.service.records.rows.rows import Location, Rollout
from assay.service.rewards.scorer import Scorer
from tests.cases import told
from tests.cases.writing import step

R = [step("add", "cells|pbs", "5 ml"), step("spin", "cells", "5 min"), step("store", "pellet")]
SCORER = Scorer()


def collected(responses: list[str], groups: list[object] | None = None) -> RewardStatistics:
    """Score responses with one reference; the group of a response is its number if none are given."""
    stats = RewardStatistics(SCORER)
    rollouts = [
        Rollout(Location("line", k + 1), b"", response=text, reference={"steps": R}, group=(groups or range(999))[k])
        for k, text in enumerate(responses)
    ]
    stats.add(rollouts, SCORER.score(responses, [{"steps": R}], [0] * len(responses)))
    return stats


BEST, SWAPPED = told(R), told([R[0], R[2], R[1]])


def said(stats: RewardStatistics, faults: dict[str, int] | None = None) -> list[str]:
    return [" ".join([finding.text, *finding.advice]) for finding in verdict(stats, faults or {})]


def test_all_is_well():
    first, groups, rewards = verdict(collected([BEST, SWAPPED], ["a", "a"]), {})
    assert (first.text, first.good) == ("All 2 responses pass both gates.", True)
    assert (groups.text, groups.good) == ("0 of 1 group have no spread: every prompt gives a gradient.", True)
    assert rewards.text.startswith("The mean reward is 0.")
    assert rewards.advice == ["Their weakest component is order, on average at 50.0 % of its maximum."]
    assert said(collected([BEST]))[0] == "The response passes both gates."


def test_failed_gates_are_named_with_what_to_do():
    gates, *rest = said(collected([NOT_OPENED] * 2 + [BEST] * 2), {"not_json": 3, "bad_step_line": 1})
    assert gates.startswith("2 of 4 responses (50.0 %) fail a gate: think_not_opened (2). ")
    assert "set think_prefilled" in gates
    assert rest[0].startswith("4 rows could not be scored: most often not_json (3).")
    assert set(REMEDIES) == set(REASONS) - {"ok"}
    assert "The mean reward is 0.0000." in said(collected(["no", "no"]))
    assert said(collected([]), {"not_json": 1})[-1] == "No response was scored."
    cut = told(R).partition("</orc>")[0]
    assert remedies(collected([cut, "no"]))["missing_sections"].startswith("1 of them stop before the last tag")


NOT_OPENED, MISSING, NO_STEPS = BEST.removeprefix("<think>"), "no", "<think></think><key></key><orc></orc><note></note>"


def test_the_second_reason_is_named_from_a_quarter_of_the_failures_on():
    """And only if it is more frequent than the third."""
    for counts, named in (
        ((31, 11, 2), ["think_not_opened", "missing_sections"]),
        ((10, 3, 0), ["think_not_opened"]),
        ((31, 10, 3), ["think_not_opened"]),
        ((4, 2, 2), ["think_not_opened"]),
    ):
        failing = zip((NOT_OPENED, MISSING, NO_STEPS), counts, strict=True)
        gates = verdict(collected([BEST, *(text for text, n in failing for _ in range(n))]), {})[0]
        listed = " and ".join(f"{name} ({n})" for name, n in zip(named, counts, strict=False))
        assert gates.text.endswith(f"fail a gate: most often {listed}.")
        assert len(gates.advice) == len(named)


def spread(groups: int, low: int, high: int, single: int = 0) -> ReportFinding:
    """Return the finding on so many groups with spread, at the lowest and highest reward, and of one response."""
    kinds = [(BEST, SWAPPED)] * groups + [(MISSING, MISSING)] * low + [(BEST, BEST)] * high + [(BEST,)] * single
    stats = collected([text for kind in kinds for text in kind], [k for k, kind in enumerate(kinds) for _ in kind])
    (only,) = [finding for finding in verdict(stats, {}) if finding.section == "groups"]
    return only


def test_one_group_of_ten_without_spread_is_well():
    well, not_well = ((9, 0, 0), (9, 1, 0), (18, 1, 1)), ((8, 1, 0), (17, 1, 1), (18, 1, 2))
    assert [[spread(*count).good for count in counts] for counts in (well, not_well)] == [[True] * 3, [False] * 3]


@pytest.mark.parametrize(
    ("count", "correlation", "said_so"),
    [(30, 0.51, True), (30, 0.49, False), (29, 0.9, False), (30, -0.9, False), (300, 1.0, True)],
)
def test_longer_responses_earn_more_from_a_correlation_of_a_half_on(count, correlation, said_so):
    """Among thirty responses that pass; those that fail, all long or short, are not among them."""
    generator = np.random.default_rng(count)
    axes, _ = np.linalg.qr(np.column_stack([np.ones(count), generator.normal(size=(count, 2))]))
    lengths = axes[:, 1]
    rewards = correlation * axes[:, 1] + (1 - correlation**2) ** 0.5 * axes[:, 2]
    stats = collected([BEST, BEST])
    for column, values in (
        ("passed", np.repeat([1.0, 0.0], [count, 50])),
        ("lengths", np.concatenate([lengths, np.arange(50) * (1 - 2 * (correlation > 0.5))])),
        ("rewards", np.concatenate([rewards, np.arange(50)])),
    ):
        setattr(stats, column, SimpleNamespace(all=lambda values=values: values))
    findings = [finding for finding in verdict(stats, {}) if finding.section == "sizes"]
    assert [finding.text.partition(" among")[0] for finding in findings] == [
        f"Longer responses earn more (correlation {correlation:+.2f}"
    ] * said_so


def test_the_weakest_component_is_the_furthest_from_its_maximum():
    """Of content it is 1.5: a mean of 0.75 is a half."""
    wordy = told(R, " x" * 40)
    for response, weakest in (
        (BEST, None),
        (SWAPPED, "order, on average at 0.0 %"),
        (wordy, "scale, on average at 2.2 %"),
    ):
        (weakest_finding,) = [
            finding for finding in verdict(collected([response]), {}) if finding.text.startswith("The mean")
        ]
        assert weakest_finding.advice == ([f"Their weakest component is {weakest} of its maximum."] if weakest else ())
        assert weakest_finding.good
