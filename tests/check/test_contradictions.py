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


def test_the_order_of_objects_and_their_number_matter_as_in_the_rules(tmp_path: Path) -> None:
    """Of the first file, where the references agree, and across files."""
    objects = ((["a", "b"], ["c"]), (["b", "a"], ["c"]), (["a"], ["b", "c"]))
    one, other, moved = (
        {"prompt": PROMPT, "reference": key_of([{"action": "add", "objects": names, "parameters": parameters}])}
        for names, parameters in objects
    )
    data, findings = checked(tmp_path, [one, other], [moved])
    lines = [("a.jsonl", 1), ("a.jsonl", 2)], [("b.jsonl", 1)]
    places = [[{"source": str(tmp_path / name), "line": line} for name, line in each] for each in lines]
    assert data.document(findings)["contradictions"] == [places]
