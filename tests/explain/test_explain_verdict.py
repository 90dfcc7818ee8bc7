"""Gates: which check failed, where, and what is still shown."""

from __future__ import annotations

import pytest

from tests.cases import answer
from tests.cases.writing import KEY, ORC
from tests.explain.recomputing import explained

GOOD = answer()
SECOND = KEY.replace("Step 1", "Step 2").replace("pbs", "dmem")
BOTH = f"{KEY}\n{SECOND}"
CASES = {
    "too_long": (GOOD, {"max_response_bytes": 20}, "size", None, None),
    "think_not_opened": (GOOD.removeprefix("<think>"), {}, "sections", "think", 1),
    "missing_sections": (GOOD.replace("<note>", ""), {}, "sections", "orc", 5),
    "no_steps": (answer(""), {}, "key_lines", "key", None),
    "bad_step_line": (answer(f"{KEY}\n- add"), {}, "key_lines", "key", 4),
    "bad_step_json": (answer(f"{KEY}\n{SECOND[:-1]},}}"), {}, "key_lines", "key", 4),
    "bad_step_schema": (answer(f"{KEY}\n" + SECOND.replace("action", "verb")), {}, "key_lines", "key", 4),
    "key_numbering": (answer(f"{KEY}\n{KEY}", f"{ORC}\n{ORC}"), {}, "key_numbering", "key", 4),
    "orc_numbering": (answer(BOTH, f"{ORC}\n{ORC}"), {}, "orc_numbering", "orc", 8),
    "step_count": (answer(BOTH), {}, "step_count", "key", 4),
    "low_coverage": (answer(KEY, "Step 1: Add it for 5 min."), {}, "coverage", "orc", 6),
    "added_numbers": (answer(KEY, f"{ORC} 4 °C"), {"max_added_numbers": 0}, "added_numbers", "orc", 6),
    "added_words": (answer(KEY, f"{ORC} Not."), {"max_added_words": 9}, "added_words", "orc", 6),
}


@pytest.mark.parametrize("reason", CASES)
def test_failure(reason):
    response, settings, check, section, line = CASES[reason]
    document = explained(response, KEY, settings)
    assert document["reason"] == reason
    failure = document["failure"]
    assert (failure["reason"], failure["section"]) == (reason, section)
    assert (failure["place"]["line"] if failure["place"] else None) == line
    assert failure["message"].endswith(".")
    assert failure["remedy"].endswith((".", "…"))
    passed = {gate["name"]: gate["passed"] for gate in document["checks"]}
    names = list(passed)
    assert passed[check] is False
    assert all(passed[name] for name in names[: names.index(check)])
    assert all(passed[name] is None for name in names[names.index(check) + 1 :])
    assert document["counted"] is False
    assert [factor["name"] for factor in document["factors"]] == ["best", "gate", "score"]


def test_the_missing_tag_is_named():
    assert "the response has no tags" in explained("1. Harvest the cells.", KEY, {})["failure"]["message"]
    both = {"</key>": "</key> directly followed by <orc>", "<note>": "</orc> directly followed by <note>"}
    for cut, named in {**both, "<think>": "<think>", "</note>": "</note>"}.items():
        text = GOOD if cut != "<think>" else GOOD.replace("</think>", "")
        assert f"{named} is missing" in explained(text.replace(cut, ""), KEY, {})["failure"]["message"]


def test_what_can_be_read_is_shown_if_a_gate_fails():
    response = answer(f"{KEY}\nnonsense\n{SECOND.replace('2', '3')}", f"{ORC}\nStep 2: -\nStep 3: Add DMEM for 5 min.")
    document = explained(response, BOTH, {})
    assert [step["status"] for step in document["prediction"]] == ["ok", "bad_step_line", "ok"]
    assert [step["partner"] for step in document["prediction"]] == [1, None, 2]
    assert [(pair["predicted"], pair["reference"]) for pair in document["pairs"]] == [(1, 1), (3, 2)]
    assert [step["coverage"] and step["coverage"]["value"] for step in document["prediction"]] == [1.0, None, 1.0]
    assert document["content"]["value"] == 1.5
    assert document["reward"] == 0.0


PROSE = "Step 1: Add the PBS (500 mM) for 5 minutes at -20 °C.\nStep 2: As in step 1, add 2-3 ml of DMEM for 5 min, 7x."


def test_numbers_that_only_the_prose_has():
    """The number of a step is not one of them, and one that is said twice counts once."""
    response = answer(BOTH, PROSE.replace("500 mM", "500 mM, 😀 500"))
    document = explained(response, BOTH, {"max_added_numbers": 4})
    assert document["failure"]["message"] == (
        "<orc> has 5 numbers of its own: 500, 20 in step 1, 2, 3, 7 in step 2; at most 4 are allowed."
    )
    assert document["added_numbers"] == 5
    assert document["checks"][-1]["detail"] == "5 numbers only in the prose, at most 4"
    marked = [
        [(step["text"][slice(*mark["characters"])], mark["words"]) for mark in step["added_marks"]]
        for step in document["prose"]
    ]
    assert marked == [[("500", ["500"]), ("500", ["500"]), ("-20", ["20"])], [("2-3", ["2", "3"]), ("7x", ["7"])]]
    allowed = explained(response, BOTH, {"max_added_numbers": 5})
    assert (allowed["reason"], allowed["added_numbers"], allowed["checks"][-1]["passed"]) == ("ok", 5, True)
    without = explained(response, BOTH, {})
    assert (without["added_numbers"], without["checks"][-1]["name"]) == (None, "coverage")


def test_numbers_before_the_first_step():
    """They count as those of the first step."""
    document = explained(answer(BOTH, f"At 95 °C, as in step 2:\n{PROSE}"), BOTH, {"max_added_numbers": 5})
    assert document["prose"][0]["added_numbers"] == ["95", "500", "20"]
    assert document["failure"]["message"].endswith(
        "at most 5 are allowed. The lines before step 1 count as part of it."
    )


def test_words_that_only_the_prose_has():
    """Akin words, units and function words are none; a negation closes the gate whatever the limit."""
    prose = "Step 1: Never add the 5-min-old PBS to boiling adders at 4 °C, but shake it.\nStep 2: Add DMEM, 5 min."
    settings = {"max_added_words": 5}
    document = explained(answer(BOTH, prose), BOTH, settings)
    assert document["reason"] == "added_words"
    assert [step["added_words"] for step in document["prose"]] == [["never", "old", "boiling", "but", "shake"], []]
    assert [step["negations"] for step in document["prose"]] == [["never"], []]
    assert document["added_words"] == 5
    assert document["failure"]["message"] == (
        "Step 1 of <orc> has 5 words of its own: “never”, “old”, “boiling”, “but”, “shake”; at most 5 are allowed, "
        "and no negation."
    )
    assert document["failure"]["remedy"] == "Drop “never” from step 1 of <orc>, or write it in its key step as well."
    assert document["checks"][-1]["detail"] == ("5 words only in the prose of a step, at most 5; 1 negation")
    text = document["prose"][0]["text"]
    marked = [(text[slice(*mark["characters"])], mark["words"]) for mark in document["prose"][0]["added_marks"]]
    assert marked == [
        ("Never", ["never"]),
        ("5-min-old", ["old"]),
        ("boiling", ["boiling"]),
        ("but", ["but"]),
        ("shake", ["shake"]),
    ]
    allowed = explained(answer(BOTH, prose.replace("Never a", "A")), BOTH, settings)
    assert (allowed["reason"], allowed["added_words"], allowed["checks"][-1]["passed"]) == ("ok", 4, True)
    without = explained(answer(BOTH, prose), BOTH, {})
    assert (without["added_words"], without["prose"][0]["added_words"]) == (None, None)


def test_alignment():
    """The worked example of the paper's C.3, with two steps out of order by its longest common path."""
    lines = '{{"action": "{}", "objects": ["a b"], "parameters": []}}'
    written = [
        "\n".join(f"Step {k}: {lines.format(action)}" for k, action in enumerate(actions.split(), 1))
        for actions in ("harvest centrifuge lyse stain quantify", "harvest lyse centrifuge quantify")
    ]
    prose = "\n".join(f"Step {k}: {line[7:]}" for k, line in enumerate(written[0].split("\n"), 1))
    document = explained(answer(written[0], prose), written[1].replace("a b", "b"), {})
    assert [(pair["predicted"], pair["reference"]) for pair in document["pairs"]] == [(1, 1), (2, 3), (5, 4)]
    assert document["content"]["unmatched_predicted"] == [3, 4]
    assert document["content"]["unmatched_reference"] == [2]
    order = document["order"]
    assert (order["subsequence"], order["lcs"], len(order["out_of_order"])) == (False, 3, 1)
    objects = document["pairs"][0]["objects"]
    assert objects == {"value": 0.5, "compared": "words", "shared": ["b"], "missing": [], "extra": ["a"]}
    parameters = document["pairs"][0]["parameters"]
    assert parameters == {"value": 1.0, "compared": "nothing", "shared": [], "missing": [], "extra": []}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (SECOND.replace("action", "verb"), "unknown field “verb”; allowed: action, objects, parameters."),
        (SECOND.replace("}", ', "x": 1, "y": 2}'), "unknown fields “x”, “y”; allowed: action, objects, parameters."),
        (SECOND.replace(', "parameters": ["5 min"]', ""), "missing field parameters."),
        (SECOND.replace('"add"', "7"), "action is not a string."),
        (SECOND.replace('"add"', '"…"'), "action has no words."),
        (SECOND.replace('["dmem"]', '"dmem"'), "objects is not an array of strings."),
        (SECOND.replace('["dmem"]', '["dmem"'), "valid JSON (expecting ',' delimiter, column 59)."),
        (SECOND.replace('"5 min"', f"{'9' * 5000}"), "parameters contains a value that is not a string."),
        (SECOND.replace("dmem", "\\ud83dx"), "escape \\ud83d is half of a surrogate pair, which is not valid JSON."),
        (SECOND[:-1], "the line does not end with the closing brace of its object."),
        ("- add", "the line is not of the form Step N: {…}."),
    ],
)
def test_an_invalid_line_is_described(line, message):
    failure = explained(answer(f"{KEY}\n{line}"), KEY, {})["failure"]
    assert failure["message"].startswith("Step 2, in line 4: ")
    assert failure["message"].endswith(message)
