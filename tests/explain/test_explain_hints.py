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
        ("5000 µl", "5 ml", "5000 μl is 5 ml"),
        ("0.5 h", "30 minutes", "0.5 h is 30 minutes"),
        ("1 l", "1,000 ml", "1 l is 1000 ml"),
        ("5 mg/ml", "5000 µg/ml", "5 mg/ml is 5000 μg/ml"),
        ("5 mg per ml", "5 g/l", "5 mg per ml is 5 g/l"),
        ("5.0 ml", "5 ml", "5.0 ml is 5 ml"),
        ("1 h 30 min", "90 min", "1 h 30 min is 90 min"),
        ("5-10 min", "300 to 600 s", "5-10 min is 300 to 600 s"),
        ("<5 ml", "less than 5 ml", "<5 ml is less than 5 ml"),
        ("-80.0 °C", "-80 °C", "-80.0 °c is -80 °c"),
        ("1,000,000 cells", "10⁶ cells", "1000000 cells is 10^6 cells"),
        ("5x10⁶ cells/ml", "5 × 10⁶ cells/ml", "5x10^6 cells/ml is 5 x 10^6 cells/ml"),
        ("2.5 × 10^-3 l", "2.5 ml", "2.5 x 10^-3 l is 2.5 ml"),
    ],
)
def test_quantities_in_other_words(mine, theirs, hint):
    """They are equal terms, so the other form of Par counts them; objects are always compared by words."""
    assert hints(mine, theirs) == [f"{hint}: numbers and units are compared as written{COUNTED}."]
    ((backwards,),) = [hints(theirs, mine)]
    assert backwards.startswith(f"{hint.rpartition(' is ')[2]} is {hint.partition(' is ')[0]}: ")
    assert hints(mine, theirs, "objects") == [f"{hint}: numbers and units are compared as written."]
    assert hints(mine, theirs, parameter_similarity="quantities") == []


@pytest.mark.parametrize(("mine", "theirs"), [("for five minutes", "5 min"), ("two hours", "120 min")])
@pytest.mark.parametrize("where", ["parameters", "objects"])
def test_numbers_as_words(mine, theirs, where):
    """By quantities as well, they are words."""
    for settings in ({}, {"parameter_similarity": "quantities"}):
        assert hints(mine, theirs, where, **settings) == [f"{mine} is {theirs}: number words are not read as numbers."]
        assert hints(theirs, mine, where, **settings) == [f"{theirs} is {mine}: number words are not read as numbers."]


def test_the_same_number_in_another_dimension():
    by_quantities = {"parameter_similarity": "quantities"}
    assert hints("300 g", "300 x g", **by_quantities) == ["300 g is read as mass, 300 x g as g-force."]
    assert hints("300 g|300 x g", "300 x g", **by_quantities) == []
    assert hints("300 g", "300 x g") == []


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
        ("≤5 ml", "5000 µl"),
        ("5-10 min", "300 s"),
        ("5 to 10 min", "600 s"),
        ("5 min to 10 min", "300 s"),
        ("one", "1 ml"),
        ("1 h 30 min", "60 min"),
        ("1 h and 30 min", "30 min|3600 s"),
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
        ("The step has 5 ml, its prose 5000 μl: numbers and units are compared as written.", 1, None),
        ("The step has 10 times, its prose the number as a word: number words are not read as numbers.", 1, None),
    ]


def test_words_that_other_words_cover_under_the_other_rule():
    key = 'Step 1: {"action": "incubate", "objects": ["gel"], "parameters": ["5 ml"]}'
    prose = "Step 1: Incubation of the gelatine-free slab, 95 ml."
    for settings, texts in (
        ({}, ["The step has incubate, its prose incubation; coverage = words would count it."]),
        (
            {"coverage": "words"},
            [
                f"The step has {word}, its prose {longer}: with coverage = words, a word is covered by itself or by "
                "one with the same beginning, at least half of both."
                for word, longer in (("gel", "gelatine-free"), ("5", "95"))
            ],
        ),
    ):
        document = explained(answer(key, prose), key, settings)
        assert [hint["text"] for hint in document["hints"]] == texts
