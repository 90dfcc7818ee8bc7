"""Quantities of parameters as explanations show them: how they are read, which are wrong, and what to write instead."""

from __future__ import annotations

import pytest

from assay.service.explain.quantities import quantity_limits
from tests.cases import told
from tests.cases.writing import KEY, step
from tests.explain.recomputing import LABORATORY, explained


@pytest.mark.parametrize(
    ("parameter", "sentences"),
    [
        ("wash three times", ["“wash three times” is read as words: write its number in digits"]),
        ("310 K", ["“310 K” is no temperature: kelvin is not read"]),
        ("1⅓ ml", ["“1⅓” is not read as a fraction"]),
    ],
)
def test_parts_that_are_not_the_quantity_meant(parameter: str, sentences: list[str]) -> None:
    assert list(quantity_limits(parameter)) == sentences


@pytest.mark.parametrize(
    "parameter", ["0.5 ml", ".5 ml", "½ ml", "1 h 30 min", "50 µg/ml", "one tube", "5 kb", "1:10", ""]
)
def test_other_parameters(parameter: str) -> None:
    assert list(quantity_limits(parameter)) == []


THEIRS = [step("incubate", "cells", "0.5 ml of PBS|1-2 h|37 °C"), step("spin", "tube", "300 x g|at 4 °C")]
MINE = [step("incubate", "cells", "50 ml of PBS|60 to 120 min|5 min"), step("spin", "tube", "300 x g|at 4 °C")]


def test_quantities_of_both_sides():
    """As they are written and read, with those that are wrong, and what to write instead."""
    document = explained(told(MINE), {"steps": THEIRS}, LABORATORY)
    quantities = document["pairs"][0]["quantities"]
    shown = [
        [(q["text"], q["read"], q["dimension"], q["kind"], q["wrong"]) for q in quantities[side]]
        for side in ("prediction", "reference")
    ]
    assert shown == [
        [
            ("50 ml", "50 ml", "volume", "", True),
            ("60 to 120 min", "1–2 h", "time", "range", False),
            ("5 min", "5 min", "time", "", True),
        ],
        [
            ("0.5 ml", "500 μl", "volume", "", True),
            ("1-2 h", "1–2 h", "time", "range", False),
            ("37 °C", "37 °C", "celsius", "", True),
        ],
    ]
    assert quantities["advice"] == ["write 0.5 ml instead of 50 ml", "leave out 5 min", "add 37 °C"]
    assert (quantities["errors"], document["pairs"][1]["quantities"]["errors"]) == (3, 0)
    assert document["components"]["quantity_errors"] == 3
    assert document["prediction"][0]["parameters"][0]["terms"] == ["50 ml", "of", "pbs"]


def test_the_factor_in_the_derivation():
    document = explained(told(MINE), {"steps": THEIRS}, LABORATORY)
    factor = document["factors"][-2]
    assert (factor["name"], factor["detail"]) == ("quantities", "3 wrong quantities, 0.5 for each")
    assert factor["score"] == document["factors"][-3]["score"] / 8
    equations = {equation["name"]: equation["text"] for equation in document["equations"]}
    assert equations["score"].startswith("score = scale · semantics · q^E = 1.0000 · ")
    assert " · 0.5^3 = " in equations["score"]
    assert document["outcome"] == "ok: 3 wrong quantities"
    assert "wrong quantities −" in document["headline"]
    right = explained(told(THEIRS), {"steps": THEIRS}, LABORATORY)
    assert right["factors"][-2]["detail"] == "no wrong quantity"
    assert (right["reward"], explained(told(MINE), {"steps": THEIRS}, {})["pairs"][0]["quantities"]) == (1.0, None)


def test_the_suggestion_writes_the_quantities_of_the_reference():
    """In the prose as well, where it says them in the same words."""
    (best,) = explained(told(MINE), {"steps": THEIRS}, LABORATORY, 1)["suggestions"]
    assert (best["kind"], best["steps"], best["reward"]) == ("use_quantities", [1], 1.0)
    assert best["text"].startswith(
        "In step 1, write 0.5 ml instead of 50 ml, leave out 5 min, add 37 °C: content 1.3571 → 1.5000, "
        "quantity errors 3 → 0, reward +0."
    )
    assert '"parameters":["0.5 ml of PBS","60 to 120 min","37 °C"]' in best["response"]
    dose = [THEIRS[0] | {"parameters": ["5 l of PBS", *THEIRS[0]["parameters"][1:]]}, THEIRS[1]]
    (best,) = explained(told(dose), {"steps": THEIRS}, {"quantity_error_factor": 0.9}, 1)["suggestions"]
    assert "\nStep 1: incubate and cells and 0.5 ml of PBS and 1-2 h and 37 °C\n" in best["response"]


def test_quantities_count_where_the_objects_are_others():
    """Par does not, so there is nothing else to gain from them."""
    mine, theirs = [step("add", "water", "5 ml")], [step("add", "pbs|salt", "5 l")]
    document = explained(told(mine), {"steps": theirs}, {"quantity_error_factor": 0.5}, 5)
    assert (document["pairs"][0]["parameters_counted"], document["components"]["quantity_errors"]) == (False, 1)
    kinds = {suggestion["kind"]: suggestion["gain"] for suggestion in document["suggestions"]}
    assert kinds["use_quantities"] == pytest.approx(document["reward"])


def test_numbers_of_any_size_are_shown():
    document = explained(told([step("add", "", "10^999 ml|1e-999 s|5 ml/mA|0 kg|3 U/h")]), KEY, LABORATORY)
    assert [quantity["read"] for quantity in document["pairs"][0]["quantities"]["prediction"]] == [
        "1e+996 l",
        "1e-999 s",
        "5 l/current",
        "0 g",
        "3 u/h",
    ]


def test_the_case_of_units_is_kept():
    """10 mm of SciRecipe may be 10 mM; the advice says it as the reference does."""
    mine, theirs = [step("add", "", "5 MM NaCl at 5 ML, 2 ℃, 5 mM")], [step("add", "", "10 mM NaCl at 5 ml")]
    document = explained(told(mine), {"steps": theirs}, {"quantity_error_factor": 0.5})
    assert document["pairs"][0]["quantities"]["advice"] == ["write 10 mM instead of 5 MM", "leave out 2 °c"]
