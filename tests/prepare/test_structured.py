"""The texts of structured protocols, whose steps may be nested."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.research.prepare.structured import MAX_DEPTH, protocol_text
from assay.service.records.rows.rows import Fault
from tests.prepare.published import CORPUS, NESTED, SECTIONED, STRUCTURED
from tests.prepare.test_forms import KNOWLEDGE, example, fault

STEPS = """\
Steps:
1 Solution
1.1 Agarose
1.1.1 Weigh 1 g of agarose.
1.1.2 Melt it in 100 ml of buffer.
2 Gel
2.1 Pour it."""
ABSTRACT, MATERIALS = "Abstract: A gel of 1 %.", "Materials: 1. Agarose\n2. TAE buffer"
TEXTS = (
    ["Agarose gel", ABSTRACT, MATERIALS, STEPS],
    [
        "Agarose gel",
        *(ABSTRACT, "Materials: 1. Agarose", "Equipment: 1. Microwave"),
        "Steps:\nA. Solution\n1. Weigh 1 g of agarose.",
    ],
    ["Agarose gel", "Keywords: agarose, gel", ABSTRACT, MATERIALS, STEPS],
)


def test_published_protocols_are_texts_of_the_stage_knowledge() -> None:
    for record, parts in zip(STRUCTURED, TEXTS, strict=True):
        extracted = example(record, KNOWLEDGE)
        assert (extracted.dataset, extracted.text, extracted.reference) == (
            "protocol",
            "\n\n".join(parts),
            None,
        )
        assert fault(record).reason == "no_question"
    assert example(CORPUS, KNOWLEDGE).id == "Protocol.io-1"
    noted = example({**SECTIONED, "notes": "Hot agarose burns."}, KNOWLEDGE).text or ""
    assert noted.endswith("agarose.\n\nNotes: Hot agarose burns.")


STEPS_OF_A_GEL = NESTED["hierarchical_protocol"]


@pytest.mark.parametrize(
    "steps",
    [
        dict(reversed(STEPS_OF_A_GEL.items())),
        {**STEPS_OF_A_GEL, "3": None},
        json.dumps(STEPS_OF_A_GEL),
        {
            "Step 1": {
                "title": "Solution",
                "1.1": {"title": "Agarose", "1.1.1": STEPS_OF_A_GEL["1.1.1"], "1.1.2": STEPS_OF_A_GEL["1.1.2"]},
            },
            "Step 2": {"title": "Gel", "1": {"text": "Pour it."}},
        },
        [
            {
                "title": "Solution",
                "steps": [{"title": "Agarose", "steps": ["Weigh 1 g of agarose.", "Melt it in 100 ml of buffer."]}],
            },
            {"title": "Gel", "steps": ["Pour it."]},
        ],
    ],
    ids=["in another order", "null", "as text", "nested", "lists"],
)
def test_steps_are_flattened_in_the_order_of_their_numbers(steps: Any) -> None:
    assert protocol_text({"protocol": steps}) == STEPS


def test_texts_of_steps() -> None:
    assert protocol_text({"protocols": ["1. Weigh.", "2.5 ml are added.", " Pour. "]}) == (
        "Steps:\n1. Weigh.\n2 2.5 ml are added.\n3 Pour."
    )
    assert protocol_text(
        {"protocol": {"title": "Gel", "10": "Cut it.", "9": {"title": "Pour", "text": "Slowly."}}}
    ) == ("Steps:\nGel\n9 Pour: Slowly.\n10 Cut it.")


DEEP: Any = "Weigh."
for _ in range(MAX_DEPTH + 1):
    DEEP = [DEEP]

WRONG = [
    ({"protocol": []}, "no_text", "no steps"),
    ({"protocol": {"1": {"title": "Gel", "time": 3}}}, "wrong_type", "'protocol': 'time' is not the number of a step"),
    ({"protocol": {"1": {"1.1": 5}}}, "wrong_type", "'protocol': step 1.1 is not a text"),
    ({"protocol": {"1": "Weigh.", "2": ""}}, "wrong_type", "'protocol': step 2 is not a text"),
    ({"protocol": 5}, "wrong_type", "'protocol': it is not a text"),
    ({"protocol": DEEP}, "wrong_type", "more than 16 levels"),
    ({**NESTED, "input": {"a": 1}, "notes": 4}, "wrong_type", "the field 'input', 'notes'"),
]


def test_what_cannot_be_read_is_named() -> None:
    for record, reason, detail in WRONG:
        actual = fault(record, KNOWLEDGE)
        assert (actual.reason, detail in actual.detail) == (reason, True), actual


TREES = st.recursive(
    st.text("abc", min_size=1, max_size=3),
    lambda inner: st.lists(inner, min_size=1, max_size=4),
    max_leaves=20,
)


def flat(tree: Any, number: str = "") -> dict[str, str]:
    if isinstance(tree, str):
        return {number: tree}
    return {
        key: text
        for place, inner in enumerate(tree, 1)
        for key, text in flat(inner, f"{number}.{place}".lstrip(".")).items()
    }


@given(st.lists(TREES, min_size=1, max_size=12), st.randoms())
def test_nested_and_numbered_steps_are_the_same_text(tree: Any, random: Any) -> None:
    steps = list(flat(tree).items())
    text = "\n".join(["Steps:", *(f"{number} {step}" for number, step in steps)])
    random.shuffle(steps)
    texts = [protocol_text({"protocol": form}) for form in (tree, dict(steps))]
    assert not any(isinstance(part, Fault) for part in texts)
    assert [*texts] == [text, text]
