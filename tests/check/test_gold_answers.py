"""Gold answers: how many pass at which min_coverage, and which words their prose leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.data_sets import GOOD, answer, checked, ten_words


def test_answers_that_pass_at_each_coverage(tmp_path: Path) -> None:
    data, findings = checked(tmp_path, [ten_words(0), ten_words(1), ten_words(2), GOOD])
    levels = [(level.min_coverage, level.passed, level.mean_reward) for level in data.gold.levels()]
    assert levels == [(0.95, 2, 0.5), (0.9, 3, 0.75), (0.85, 3, 0.75), (0.8, 4, 1.0)]
    assert [finding.reason for finding in findings] == ["low_coverage", "low_coverage"]
    suggested = data.gold.suggested()
    assert suggested is not None
    assert suggested.min_coverage == 0.8
    words = [(word, count, str(place).rpartition(":")[2]) for word, count, place in data.gold.failing_words()]
    assert words == [("reagent0", 2, "2"), ("reagent1", 1, "3")]


def test_the_levels_are_those_of_the_settings(tmp_path: Path) -> None:
    data, _ = checked(tmp_path, [ten_words(1)], min_coverage=0.875)
    assert [level.min_coverage for level in data.gold.levels()][-1] == 0.875
    assert data.gold.failed == 0
    data, _ = checked(tmp_path, [GOOD, ten_words(2)], reward_scale="shift")
    assert data.gold.levels()[0].mean_reward == (1.25 - 1.25) / 2  # a failing answer counts as the lowest reward
    data, _ = checked(tmp_path, [ten_words(8)])  # prose without the words
    assert data.gold.suggested() is None
    assert "No min_coverage down to 0.5" in data.advice()[0].text


@pytest.mark.parametrize(("passing", "expected"), [(19, 0.95), (18, 0.8)])
def test_the_suggested_coverage_lets_nineteen_of_twenty_pass(tmp_path: Path, passing: int, expected: float) -> None:
    data, _ = checked(tmp_path, [GOOD] * passing + [ten_words(2)] * (20 - passing))
    suggested = data.gold.suggested()
    assert suggested is not None
    assert suggested.min_coverage == expected


def test_other_faults_do_not_lower_the_suggested_coverage(tmp_path: Path) -> None:
    numbered_wrong = GOOD.replace("<orc>\nStep 1", "<orc>\nStep 2")
    data, _ = checked(tmp_path, [GOOD, numbered_wrong, numbered_wrong])
    assert dict(data.gold.reasons) == {"ok": 1, "orc_numbering": 2}
    assert [(level.min_coverage, level.passed) for level in data.gold.levels()] == [(0.95, 1)]
    assert data.gold.suggested() is not None
    assert "2 of 3 gold answers fail a gate. 2 of them fail for a reason other" in data.advice()[0].text


def test_long_prose_is_named_with_the_setting(tmp_path: Path) -> None:
    steps = [{"action": "add", "objects": ["buffer"], "parameters": []}]
    wordy = answer(steps, ["Add the buffer " + "slowly " * 32])
    data, _ = checked(tmp_path, [wordy])
    assert (data.gold.too_wordy, data.gold.longest) == (1, 35.0)
    assert any("max_mean_words=35" in advice.text for advice in data.advice())
    data, _ = checked(tmp_path, [wordy], use_length=False)
    assert not any("max_mean_words" in advice.text for advice in data.advice() if not advice.good)


def test_a_published_record_has_its_own_answer(tmp_path: Path) -> None:
    record = {"question": "q", "think": "t", "key": GOOD.split("key>\n")[1][:-3], "note": "n"}
    record["key"] = record["key"].removesuffix("\n")
    data, findings = checked(tmp_path, [{**record, "orc": "Step 1: Add 5 ml of buffer.\nStep 2: Mix it."}])
    assert (data.gold.number, dict(data.gold.reasons)) == (1, {"low_coverage": 1})
    assert [finding.detail for finding in findings] == ["the record's own answer would fail a gate"]
    assert dict(data.gold.words) == {"tube": 1, "gently": 1}
    data, _ = checked(tmp_path, [record])  # without prose, there is no answer
    assert data.gold.number == 0
    assert data.gold.levels() == []
    assert data.gold.suggested() is None
