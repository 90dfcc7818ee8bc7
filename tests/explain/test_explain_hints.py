"""Hints: equal quantities in other words, exactly, and nothing else."""

from __future__ import annotations

import pytest

from tests.cases import answer, told
from tests.cases.writing import step
from tests.explain.recomputing import explained


def hints(mine: str, theirs: str, where: str = "parameters", **settings: str) -> list[str]:
    """Return the hints about one pair of steps."""
    steps = [step("add", **{where: text}) for text in (mine, theirs)]
    document = explained(told(steps[:1]), {"steps": steps[1:]}, settings)
    assert all((hint["step"], hint["reference_step"]) == (1, 1) for hint in document["hints"])
    return [hint["text"] for hint in document["hints"]]


COUNTED = "; parameter_similarity = quantities would count it"


@pytest.mark.parametrize(
    ("mine", "theirs", "hint"),
    [
        ("5000 µl", "5 ml", "5000 μl is 5 ml: units"),
        ("0.5 h", "30 minutes", "0.5 h is 30 min: units"),
        ("1 l", "1,000 ml", "1 l is 1000 ml: units"),
        ("0.0015 kg", "1.5 g", "0.0015 kg is 1.5 g: units"),
        ("1500000 ng", "1.5 mg", "1500000 ng is 1.5 mg: units"),
        ("2 cm", "20 mm", "2 cm is 20 mm: units"),
        ("2 d", "48 h", "2 d is 48 h: units"),
        ("5 mg/ml", "5000 µg/ml", "5 mg is 5000 μg: units"),
        ("5 mg per ml", "5000 µg per ml", "5 mg is 5000 μg: units"),
        ("5.0 ml", "5 ml", "5.0 ml is 5 ml: numbers"),
        ("-80.0 °C", "-80 °C", "-80.0 c is -80 c: numbers"),
    ],
)
def test_quantities_in_other_units(mine, theirs, hint):
    """They are equal terms, so the other form of Par counts them; objects are always compared by words."""
    assert hints(mine, theirs) == [f"{hint} are compared as written{COUNTED}."]
    assert hints(theirs, mine)[0].endswith(f"{hint.rpartition(' ')[2]} are compared as written{COUNTED}.")
    assert hints(mine, theirs, "objects") == [f"{hint} are compared as written."]
    assert [text for text in hints(mine, theirs, parameter_similarity="quantities") if " is not " not in text] == []


@pytest.mark.parametrize(
    ("mine", "theirs", "hint"),
    [
        ("five minutes", "5 min", "five minutes is 5 min: numbers"),
        ("two hours", "120 min", "two hours is 120 min: units"),
        ("1,000,000 cells", "10⁶ cells", "1000000 is 10^6: numbers"),
        ("5x10⁶ cells/ml", "5 × 10⁶ cells/ml", "5x10^6 is 5 x 10^6: numbers"),
        ("2.5 × 10^-3 l", "2.5 ml", "2.5 x 10^-3 l is 2.5 ml: units"),
    ],
)
@pytest.mark.parametrize("where", ["parameters", "objects"])
def test_equal_quantities(mine, theirs, hint, where):
    assert hints(mine, theirs, where) == [f"{hint} are compared as written."]
    ((backwards,),) = [hints(theirs, mine, where)]
    assert backwards.endswith(f"{hint.rpartition(' ')[2]} are compared as written.")


def test_quantities_with_other_numbers():
    """By quantities as well, number words and powers are words."""
    (text,) = hints("two hours", "120 min", parameter_similarity="quantities")
    assert text == "two hours is 120 min: numbers are compared as written."


def test_parameters_that_are_not_read_as_the_quantity_meant():
    by_quantities = {"parameter_similarity": "quantities"}
    assert hints(".5 ml|1 h 30 min", "5 ml|90 min", **by_quantities) == [
        "“.5 ml” is read as 5 ml.",
        "“1 h 30 min” is not read as one quantity.",
    ]
    assert hints("50 ng/µl", "50 µg/ml", **by_quantities) == [
        "“50 ng/µl” is not equal to the same ratio in other units.",
        "In the reference, “50 µg/ml” is not equal to the same ratio in other units.",
    ]
    assert hints("½ ml", "½ ml", **by_quantities) == []
    assert hints(".5 ml", "5 ml") == []


@pytest.mark.parametrize(
    ("mine", "theirs", "hint"),
    [
        ("106 cells", "10⁶ cells", "106 is not 10^6"),
        ("10⁶ cells", "106 cells", "10^6 is not 106"),
        ("10-3 m", "10⁻³ m", "10-3 is not 10^-3"),
    ],
)
def test_powers_without_their_sign(mine, theirs, hint):
    assert hints(mine, theirs) == [f"{hint}: powers are written with ^ or superscript digits."]


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ("5 ml", "5 minutes"),
        ("5001 µl", "5 ml"),
        ("1000 mg/l", "1 g/ml"),
        ("1000 mg per l", "1 g per ml"),
        ("5-10 min", "300 s"),
        ("5 to 10 min", "600 s"),
        ("5 min to 10 min", "300 s"),
        ("one", "1 ml"),
        ("1 h 30 min", "60 min"),
        ("1 h and 30 min", "30 min|3600 s"),
        ("3 x 5 ml", "5000 µl"),
        ("300 x g", "0.3 kg"),
        ("-80 °c", "80 °c"),
        ("10⁶ cells|106", "10⁶ cells"),
        ("10⁶ cells", "10⁶ cells|106"),
        ("110 6", "1106"),
        ("10⁵ cells", "10⁶ cells|1000000"),
        ("5000 µl|5 ml", "5 ml"),
        ("9" * 400, "9" * 400 + ".0"),
    ],
)
def test_other_quantities(mine, theirs):
    assert hints(mine, theirs) == []
    assert hints(theirs, mine) == []


WHOLE = "ice-cold wash buffer|water", "ice-cold wash buffer|sterile water"


def test_objects_whose_words_have_more_in_common():
    """A whole object that is equal replaces the comparison of words, which would let the parameters count."""
    assert hints(*WHOLE, "objects") == [
        "Obj is 0.3333 by whole objects, 0.8000 by words: "
        "words count only if no whole object is shared, or with object_similarity = max."
    ]
    steps = [[step("spin", "tube"), step("add", objects)] for objects in WHOLE]
    assert [hint["step"] for hint in explained(told(steps[0]), {"steps": steps[1]}, {})["hints"]] == [2]
    for mine, theirs in (("wash buffer|water", WHOLE[1]), ("pbs|tube|tips", "pbs|gel|tray"), ("pbs", "pbs|gel")):
        assert hints(mine, theirs, "objects") == []
    steps = [step("add", objects) for objects in WHOLE]
    document = explained(told(steps[:1]), {"steps": steps[1:]}, {"object_similarity": "max"})
    assert document["hints"] == []
    objects = document["pairs"][0]["objects"]
    assert (objects["compared"], objects["value"], objects["missing"]) == ("words", 0.8, ["sterile"])


def test_words_that_the_prose_says_in_another_way():
    key = 'Step 1: {"action": "add", "objects": ["pbs"], "parameters": ["5 ml", "10 times"]}'
    document = explained(answer(key, "Step 1: Add 5000 µl of PBS ten times."), key, {})
    assert document["reason"] == "low_coverage"
    assert [(hint["text"], hint["step"], hint["reference_step"]) for hint in document["hints"]] == [
        ("The step has 5 ml, its prose 5000 μl: units are compared as written.", 1, None),
        ("The step has 10, its prose ten: numbers are compared as written.", 1, None),
    ]
