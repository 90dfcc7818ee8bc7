"""Prompts that occur more than once, with references whose steps differ."""

from __future__ import annotations

from pathlib import Path

from tests.check.data_sets import GOOD, STEPS, checked, key_of

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
    assert [(one.reason, one.place.location.number) for one in findings] == [
        ("contradictory_reference", 3),
        ("contradictory_reference", 4),
    ]
    assert "a.jsonl:1" in findings[0].detail


def test_across_files(tmp_path: Path) -> None:
    first = [{"prompt": PROMPT, "reference": GOOD}]
    second = [{"prompt": PROMPT, "reference": key_of(STEPS[:1])}]
    data, findings = checked(tmp_path, first, second)
    assert data.document(findings)["contradictions"] == [
        [[{"source": str(tmp_path / "a.jsonl"), "line": 1}], [{"source": str(tmp_path / "b.jsonl"), "line": 1}]]
    ]


def test_the_order_of_objects_and_their_number_matter_as_in_the_rules(tmp_path: Path) -> None:
    one = [{"action": "add", "objects": ["a", "b"], "parameters": ["c"]}]
    other = [{"action": "add", "objects": ["b", "a"], "parameters": ["c"]}]
    moved = [{"action": "add", "objects": ["a"], "parameters": ["b", "c"]}]
    rows = [{"prompt": PROMPT, "reference": key_of(steps)} for steps in (one, other, moved)]
    data, _ = checked(tmp_path, rows)
    assert [len(places) for places in data.contradictions[0]] == [2, 1]
