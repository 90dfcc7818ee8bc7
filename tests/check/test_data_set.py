"""What `assay check` says of a data set: contradictions, gold answers and trivial policies, beside figures by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from assay.research.check.policies import POLICIES, SEED, answers_of
from assay.service.explain.reading import steps_in
from assay.service.rewards.scorer import Scorer
from tests.check.data_sets import GOOD, STEPS, answer, checked, key_of, ten_words

PROMPT = "Mix 5 ml of buffer gently."
SAME_STEPS = [{**STEPS[0], "parameters": ["5ML"]}, {**STEPS[1], "objects": ["Tube"]}]


def test_references_are_compared_by_the_words_of_their_steps(tmp_path: Path) -> None:
    rows = [
        {"prompt": PROMPT, "reference": GOOD},
        {"prompt": "mix 5ml of Buffer, gently", "reference": key_of(SAME_STEPS)},
        {"query": PROMPT, "reference": {"steps": STEPS[::-1]}},
        {"prompt": [{"role": "user", "content": PROMPT}], "reference": key_of(STEPS[:1])},
        {"prompt": "Another prompt", "reference": key_of(STEPS[:1])},
        {"prompt": " ", "reference": GOOD},
        {"reference": key_of(STEPS[:1])},
    ]
    data, findings = checked(tmp_path, rows)
    (contradiction,) = data.contradictions
    assert [[place.location.number for place in places] for places in contradiction] == [[1, 2], [3], [4]]
    assert [(finding.reason, finding.place.location.number) for finding in findings] == [
        ("contradictory_reference", 3),
        ("contradictory_reference", 4),
    ]
    assert "a.jsonl:1" in findings[0].detail


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


def test_other_faults_and_long_prose_are_named(tmp_path: Path) -> None:
    numbered_wrong = GOOD.replace("<orc>\nStep 1", "<orc>\nStep 2")
    data, _ = checked(tmp_path, [GOOD, numbered_wrong, numbered_wrong])
    assert dict(data.gold.reasons) == {"ok": 1, "orc_numbering": 2}
    assert [(level.min_coverage, level.passed) for level in data.gold.levels()] == [(0.95, 1)]
    steps = [{"action": "add", "objects": ["buffer"], "parameters": []}]
    wordy = answer(steps, ["Add the buffer " + "slowly " * 32])
    for use_length in (True, False):
        data, _ = checked(tmp_path, [wordy], use_length=use_length)
        advised = any("max_mean_words=35" in advice.text for advice in data.advice() if not advice.good)
        assert (data.gold.longest, data.gold.too_wordy, advised) == (35.0, 1, use_length)


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


SWAPPED = (1 - (1 / 2) ** 1.5) * 1.5 / 2.5
"""Two steps in the other order: no order, and one anchor whose positions differ by 1 of 2."""


EXPECTED = {
    "key_as_prose": 1.0,
    "words_as_prose": 1.0,
    "actions_only": 1 / 2.5,
    "all_objects": (1 + 1 / 2 + 1 / 2) / 2.5,
    "library_order": None,
    "half": 0.0,
    "doses_multiplied": (1 + (2 + (1 / 3 + 1) / 2) / 2) / 2.5,
    "one_dose_multiplied": (1 + (2 + (1 / 3 + 1) / 2) / 2) / 2.5,
    "doses_as_limits": 1.0,
    "ratios_reversed": None,
    "doses_converted": (1 + (2 + (0 + 1) / 2) / 2) / 2.5,
    "prose_negated": 1.0,
    "next_words": 1.0,
    "numbers_added": 1.0,
    "numbers_hyphened": 1.0,
    "line_before": 1.0,
}
EQUAL = ["key_as_prose", "words_as_prose", "doses_as_limits", *list(EXPECTED)[-5:]]


def test_rewards_of_two_steps(tmp_path: Path) -> None:
    """Objects of both steps: IoU 1/2, enough for the parameters; half: d = 1 is all of M = 1; 500 ml; 5000 μl."""
    data, _ = checked(tmp_path, [{"reference": GOOD}])
    gold, *earned = [policy for policy in data.policies() if policy.policy.name != "shuffled"]
    assert gold.rewards.mean == 1.0
    assert {policy.policy.name: policy.rewards.mean for policy in earned} == pytest.approx(EXPECTED, abs=1e-12)
    assert {policy.policy.name: policy.gold_difference for policy in earned} == pytest.approx(
        {name: None if value is None else value - 1 for name, value in EXPECTED.items()}, abs=1e-12
    )
    assert not any(policy.beats_gold for policy in earned)
    assert [policy.policy.name for policy in earned if policy.equals_gold] == EQUAL
    data, _ = checked(tmp_path, [{"reference": GOOD}], semantics="product")  # the order alone earns nothing
    rewards = {policy.policy.name: policy.rewards.mean for policy in data.policies()}
    assert (rewards["gold"], rewards["actions_only"]) == (1.0, 0.0)


def test_every_answer_covers_its_words() -> None:
    parameters = ["10 µl", "1 × 10⁶", "1:9"]
    steps = [{"action": "dilute", "objects": ["β-mercaptoethanol", "a, b"], "parameters": parameters}] * 2
    reference = answer(steps, ["", ""])
    for form in (GOOD, key_of(STEPS), {"steps": STEPS}):
        assert [json.loads(step.text) for step in steps_in(form)] == STEPS
    answers = answers_of(steps_in(reference), ("dilute",), random.Random(0))
    scores = Scorer().score(answers, [reference])
    assert scores.reasons.tolist() == ["ok"] * len(POLICIES)
    assert json.dumps(steps[0], ensure_ascii=False) in answers[0].partition("<orc>")[2]


def test_shuffles_are_one_sequence_whatever_the_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator, orders = random.Random(SEED), []
    for _ in range(9):
        order = [0, 1]
        generator.shuffle(order)
        orders.append(order)
    expected = sum(1.0 if order == [0, 1] else SWAPPED for order in orders) / 9
    assert [1, 0] in orders
    for _ in range(2):
        data, _ = checked(tmp_path, [{"reference": GOOD}] * 9)
        shuffled = next(policy for policy in data.policies() if policy.policy.name == "shuffled")
        assert shuffled.rewards.mean == pytest.approx(expected, abs=1e-12)
        monkeypatch.setattr("assay.research.check.rows.pieces", lambda rows: ([row] for row in rows))


def test_rewards_with_each_option(tmp_path: Path) -> None:
    data, _ = checked(tmp_path, [{"reference": GOOD}], max_added_numbers=3, max_added_words=1)
    assert [option.title for option in data.options] == [
        *("paper", "quantities", "factor 0.5", "by words", "numbers 3", "words 1", "all")
    ]
    earned = {policy.policy.name: list(policy.by_option.values()) for policy in data.policies()}
    words, numbers = EXPECTED["doses_multiplied"], EXPECTED["doses_converted"]
    assert earned["gold"] == [1.0] * 7
    wrong = [words, numbers, words / 2, words, words, words, numbers / 2]
    for name in ("doses_multiplied", "one_dose_multiplied"):
        assert earned[name] == pytest.approx(wrong, abs=1e-12)
    assert earned["doses_as_limits"] == pytest.approx([1.0, numbers, 0.5, 1.0, 1.0, 1.0, numbers / 2], abs=1e-12)
    converted = [numbers, 1.0, numbers, numbers, numbers, numbers, 1.0]
    assert earned["doses_converted"] == pytest.approx(converted, abs=1e-12)
    assert earned["prose_negated"] == [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    assert earned["next_words"] == [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]  # "mix", "tube", "gently"; "add", "buffer"
    assert earned["numbers_added"] == [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0]  # two in each of two steps
    assert earned["numbers_hyphened"] == [1.0] * 7
    assert earned["line_before"] == [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]  # "boil", "everything"
    data, _ = checked(tmp_path, [{"reference": GOOD}])
    earned = {policy.policy.name: list(policy.by_option.values()) for policy in data.policies()}
    for name in ("numbers_added", "numbers_hyphened", "line_before"):
        assert earned[name] == [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0]


def test_what_helps_against_several_policies_is_said_once(tmp_path: Path) -> None:
    """A gold answer whose prose leaves out one of ten words loses to every policy that copies its steps."""
    data, _ = checked(tmp_path, [ten_words(1)])
    advice = [entry.text for entry in data.advice()]
    assert sum("more than the gold answers" in text for text in advice) > 2
    added = "Numbers added to the prose, hyphened numbers added, line before the first step: earn up to 1.0000 more"
    assert sum(text.startswith(added) for text in advice) == 1
    (text,) = [text for text in advice if "the gold answers earn 1.0000 instead of 0.0000" in text]
    assert text.startswith("With min_coverage=0.9, ")
    assert text.endswith(": no less than any of these policies.")


TALKATIVE = answer(STEPS, ["Add 5 ml of buffer, then 5 ml at 37 °C.", "Mix the tube gently."])


def test_gold_answers_that_lose_by_an_option_are_named(tmp_path: Path) -> None:
    data, findings = checked(tmp_path, [GOOD, TALKATIVE])
    assert [(entry.reason, entry.place.location.number) for entry in findings] == [("lower_with_added_numbers", 2)]
    assert findings[0].detail.endswith("earns 0.0000 instead of 1.0000: step 1 adds 37")
    advice = {entry.text: entry.good for entry in data.advice()}
    assert advice["parameter_similarity=quantities changes the reward of no gold answer."]
    text = "max_added_numbers=0 changes the reward of 1 of 2 gold answers; 1 of them earn less."
    assert advice[text] is False
    data, findings = checked(tmp_path, [GOOD, TALKATIVE], max_added_numbers=0)
    assert [entry.reason for entry in findings] == ["added_numbers"]
    assert (data.gold.failed, data.gold.covered) == (1, 1)
    assert [level.passed for level in data.gold.levels()] == [1]


def test_the_words_that_close_a_gate_are_named(tmp_path: Path) -> None:
    denied = answer(STEPS, ["Add 5 ml of buffer.", "Never mix the tube gently."])
    gelatine = answer([{**STEPS[0], "objects": ["gel"]}], ["Add 5 ml of agel."])
    _, findings = checked(tmp_path, [GOOD, denied, gelatine])
    assert [(entry.place.location.number, entry.reason, entry.detail.partition(": ")[2]) for entry in findings] == [
        (2, "lower_with_added_words", "step 2 adds never"),
        (3, "lower_with_word_coverage", "step 1 leaves out gel"),
    ]


def test_quantities_that_are_not_read_are_named_on_request(tmp_path: Path) -> None:
    steps = [{**STEPS[0], "parameters": ["three times", "310 K", ".5 ml"]}, {**STEPS[1], "parameters": ["⅓ h"]}]
    rows = [{"reference": key_of(steps)}, {"reference": {"steps": STEPS}}]
    _, findings = checked(tmp_path, rows)
    assert findings == []
    _, others = checked(tmp_path, rows, quantity_error_factor=0.5)
    _, findings = checked(tmp_path, rows, parameter_similarity="quantities")
    assert findings == others
    assert [
        (finding.reason, finding.place.location.number, finding.detail.partition(":")[0]) for finding in findings
    ] == [
        ("quantity_limit", 1, "step 1"),
        ("quantity_limit", 1, "step 1"),
        ("quantity_limit", 1, "step 2"),
    ]
    assert "“310 K”" in findings[1].detail


def test_each_alternative_is_checked(tmp_path: Path) -> None:
    forgetful, others = answer(STEPS, ["Add 5 ml of buffer.", "Mix it."]), [key_of(STEPS[:1]), {"steps": STEPS[::-1]}]
    rows = [
        {"prompt": PROMPT, "reference": {"any_of": [GOOD, *others, forgetful]}},
        {"prompt": PROMPT, "reference": {"any_of": [*others[::-1], GOOD]}},
        {"prompt": PROMPT, "reference": {"any_of": others}},
        {"reference": {"any_of": [GOOD, "no step"]}},
        {"any_of": others},
    ]
    data, findings = checked(tmp_path, rows)
    assert data.counts == {"checked": 5, "error": 1, "warning": 2}
    assert [(finding.reason, finding.place.location.number) for finding in findings] == [
        ("low_coverage", 1),
        ("bad_step_line", 4),
        ("contradictory_reference", 3),
    ]
    assert findings[0].detail.startswith("any_of[3]: ")
    assert (data.gold.number, data.gold.failed) == (3, 1)
    _, pasted, *_ = data.policies()
    assert (pasted.rewards.number, pasted.rewards.mean) == (11, 1.0)
