"""Repairs of invalid lines, and of texts without sections: made, rescored, and described."""

from __future__ import annotations

import json

import pytest

from tests.cases import answer, told
from tests.cases.writing import KEY, step
from tests.explain.recomputing import explained

R = [
    step("harvest", "HEK293 cells", "5 min"),
    step("wash", "HEK293 cells", "5 ml|PBS"),
    step("spin", "tube", "300 x g"),
]
REFERENCE = {"steps": R}
GOOD = told(R)
SECOND = f"Step 2: {json.dumps(R[1])}"
assert SECOND in GOOD


def repair(response: str) -> dict:
    """Return the repair of a response, which must pass the gates."""
    (suggestion,) = explained(response, REFERENCE, {}, 5)["suggestions"]
    assert (suggestion["kind"], suggestion["reason"]) == ("mend", "ok")
    return suggestion


LINES = {
    'insert “]” after “…5 ml", "PBS"”': SECOND.replace('"PBS"]', '"PBS"'),
    'insert “]” after “…EK293 cells"”': SECOND.replace('cells"]', 'cells"'),
    'insert “"” after “…s": ["5 ml",”': SECOND.replace('"PBS"', 'PBS"'),
    'insert “"]” after “…HEK293 cells”': SECOND.replace('cells"]', "cells"),
    'insert “,” after “…K293 cells"]”': SECOND.replace('cells"],', 'cells"]'),
    'insert “:” after “…"parameters"”': SECOND.replace('"parameters":', '"parameters"'),
    'delete “,” after “…5 ml", "PBS"”': SECOND.replace('"PBS"]', '"PBS",]'),
    'delete “]” after “…5 ml", "PBS"”': SECOND.replace('"PBS"]', '"PBS"]]'),
    "end it with “}”": SECOND[:-1],
    "end it with “]}”": SECOND[:-2],
    "use double quotes instead of single ones": SECOND.replace('"', "'"),
    "use straight double quotes": SECOND.replace('"w', "“w").replace('h"', "h”"),
    "delete “.” after the closing brace": f"{SECOND}.",
    "delete “(done)” after the closing brace": f"{SECOND} (done)",
    "begin the line with “Step 2:”": f"- {SECOND}",
    "rename the field “verb” to “action”": SECOND.replace("action", "verb"),
    "write the field “Action” as “action”": SECOND.replace("action", "Action"),
    "delete the field “note”": SECOND.replace("}", ', "note": "x"}'),
    "make “objects” an array of strings": SECOND.replace('["HEK293 cells"]', '"HEK293 cells"'),
}


@pytest.mark.parametrize("done", LINES)
def test_an_invalid_line_is_repaired(done):
    response = GOOD.replace(SECOND, LINES[done])
    assert response != GOOD
    suggestion = repair(response)
    assert (suggestion["text"], suggestion["steps"], suggestion["reward"]) == (
        f"In step 2, {done}; both gates then pass, reward +1.0000.",
        [2],
        1.0,
    )


def test_steps_on_several_lines_are_joined():
    response = GOOD
    for element in R:
        response = response.replace(json.dumps(element), json.dumps(element, indent=1))
    suggestion = repair(response)
    assert suggestion["reward"] == 1.0
    assert "write it on one line" in suggestion["text"]


def test_the_repair_with_the_largest_reward_is_taken():
    """The missing bracket may close two lists; only one of them has the reference's objects."""
    line = 'Step 2: {"action": "wash", "objects": ["HEK293 cells", "parameters": ["5 ml", "PBS"]}'
    assert repair(GOOD.replace(SECOND, line))["reward"] == 1.0


def test_what_cannot_be_repaired_is_deleted():
    response = GOOD.replace(SECOND, f"{SECOND[:-2]}\n- done\n{{}}")
    text = repair(response)["text"]
    assert text == "In step 2, end it with “]}”; delete invalid steps 3, 4; both gates then pass, reward +1.0000."
    deleted = repair(GOOD.replace(SECOND, "Step 2: wash the cells"))
    assert deleted["text"].startswith("Delete invalid step 2; both gates then pass, ")
    assert deleted["steps"] == [2]


def test_words_are_added_to_the_prose():
    key, prose = GOOD.split("<orc>")
    (suggestion,) = explained(f"{key}<orc>{prose.replace('300 x g', 'full speed')}", REFERENCE, {}, 1)["suggestions"]
    assert suggestion["text"] == "Write “300”, “xg” in step 3 of <orc>; both gates then pass, reward +1.0000."


PROSE = "1. Harvest HEK293 cells for 5 min.\n\n- Wash HEK293 cells with 5 ml of PBS.\nStep 3: Spin the tube at 300 x g."


@pytest.mark.parametrize(
    "text", [PROSE, PROSE.replace("\n\n- ", " ").replace("\nStep 3: ", " ")], ids=["lines", "one line"]
)
def test_plain_prose_gets_the_four_sections(text):
    (suggestion,) = explained(text, REFERENCE, {}, 5)["suggestions"]
    assert (suggestion["kind"], suggestion["reason"], suggestion["steps"]) == ("skeleton", "ok", [1, 2, 3])
    assert suggestion["gain"] > 0
    read = explained(suggestion["response"], REFERENCE, {})
    assert [element["action"]["text"] for element in read["prediction"]] == ["harvest", "wash", "spin"]
    assert [element["text"].split()[0] for element in read["prose"]] == ["Harvest", "Wash", "Spin"]


def test_key_lines_alone_get_the_other_sections():
    text = "\n".join(f"Step {k}: {json.dumps(element)}" for k, element in enumerate(R, 1))
    (suggestion,) = explained(f"Here it is:\n{text}", REFERENCE, {}, 5)["suggestions"]
    assert (suggestion["kind"], suggestion["reward"]) == ("skeleton", 1.0)


def test_the_number_of_a_line_is_kept_or_given():
    for line in (SECOND.replace("Step 2:", "2."), SECOND.replace("Step 2: ", ""), SECOND.replace(":", "", 1)):
        assert repair(GOOD.replace(SECOND, line))["reward"] == 1.0


@pytest.mark.parametrize("escape", [r"\ud800", r"\udfffx"])
def test_escapes_of_lone_surrogates_are_not_text(escape):
    for line in (SECOND.replace("action", escape), SECOND.replace("}", f', "{escape}": 1}}')):
        document = explained(GOOD.replace(SECOND, line), REFERENCE, {}, 5)
        assert document["suggestions"][0]["text"].startswith("Delete invalid step 2;")


def test_missing_fields_are_added_and_numbers_become_strings():
    steps = [step("mix"), step("wait", "", "5 min")]
    response = told(steps).replace(json.dumps(steps[0]), '{"action": "mix"}')
    (added,) = explained(response, {"steps": steps}, {}, 5)["suggestions"]
    assert added["text"].startswith("In step 1, add “objects” and “parameters”; both gates")
    assert added["reward"] == 1.0
    line = SECOND.replace('["5 ml", "PBS"]', '[5, "ml", "PBS"]')
    assert repair(GOOD.replace(SECOND, line))["text"].startswith("In step 2, make “parameters” an array of strings;")


@pytest.mark.parametrize("text", ["\n".join("wash it" for _ in range(65)), "…", "12 34"])
def test_a_text_without_steps_gets_no_sections(text):
    assert explained(text, REFERENCE, {}, 5)["suggestions"] == []


def test_added_numbers_are_deleted():
    """With the word that they are part of; where others would take their place, new prose is written."""
    response = answer(KEY, "Step 1: Add the PBS (4 °C) for 5 minutes, see step 1.")
    document = explained(response, KEY, {"max_added_numbers": 0}, 1)
    (edit,) = document["suggestions"]
    assert edit["text"].startswith("Delete “4” in step 1 of <orc>; both gates then pass")
    assert "Step 1: Add the PBS ( °C) for 5 minutes, see step 1.\n" in edit["response"]
    response = answer(KEY, "Step 1: Add the PBS for 5 min, 4/step 1.")
    (edit,) = explained(response, KEY, {"max_added_numbers": 0}, 1)["suggestions"]
    assert (edit["reward"], edit["response"].count("Step 1: add: pbs; 5 min.\n")) == (1.0, 1)


def test_added_words_are_dropped():
    """Negations, and others only beyond the limit; and the lines before the first step."""
    response = answer(KEY, "Do not hurry.\nStep 1: Never, ever add the PBS for 5 minutes to boiling water.")
    for limit, dropped, prose in (
        (3, "“never”", "Step 1: ever add the PBS for 5 minutes to boiling water.\n"),
        (1, "“never”, “boiling”, “water”", "Step 1: ever add the PBS for 5 minutes to .\n"),
    ):
        (edit,) = explained(response, KEY, {"max_added_words": limit}, 1)["suggestions"]
        assert edit["text"] == (
            f"Delete the lines before step 1 of <orc>; drop {dropped} in step 1 of <orc>; both gates then pass, "
            "reward +1.0000."
        )
        assert prose in edit["response"]
