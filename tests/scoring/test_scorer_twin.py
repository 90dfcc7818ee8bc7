"""The Scorer against the textbook twin on everything that the strategies draw: equal reasons, components to 1e-12."""

from __future__ import annotations

from collections import Counter
from json import dumps

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import InvalidReference, Scorer
from tests.cases import ALL, Case, answer, told
from tests.cases.writing import KEY, ORC, step
from tests.reference.scorer import UnreadableReferenceError, parse_reference, score_one
from tests.scoring.agreement import assert_agree, assert_sound, bits, differences, record
from tests.strategies import (
    amounts,
    asides,
    batches,
    cognates,
    elements,
    examples,
    protocols,
    quantities,
    responses,
    settings,
    surrogate_texts,
    texts,
)

ONE_STEP = {"steps": [{"action": "add", "objects": ["pbs"], "parameters": ["5 min"]}]}


def test_right_answers_against_themselves(gold_records):
    """The prose of every fourth record leaves out a step, and fails the consistency gate."""
    answers = [record["reference"] for record in gold_records]
    scores = Scorer(use_length=False).score(answers, answers)
    assert Counter(scores.reasons.tolist()) == {"ok": 18, "low_coverage": 6}
    assert scores.rewards.tolist() == [float(code == 0) for code in scores.reason_codes]
    assert set(scores.components["score"].tolist()) == {0.0, 2.5}


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_case(case: Case):
    """Examples worked by hand."""
    by_twin = score_one(case.response, parse_reference(case.reference), case.settings)
    assert differences(by_twin, case.expected) == {}
    scores = Scorer(**case.settings).score([case.response], [case.reference])
    assert_sound(scores, 1)
    assert differences(record(scores, 0), by_twin) == {}


@pytest.mark.parametrize("word", ["supernatant{}", "{}supernatant", "superna{}tant", "a{}"])
def test_words_that_are_nearly_equal_are_different(word):
    """So many that their places in the table of the reference's strings collide."""
    texts = [word.format(k) for k in range(100, 300)]
    ours, theirs = texts[::2], texts[1::2]
    response, reference = told([step("add", "|".join(ours))]), [step("add", "|".join(theirs))]
    scores = Scorer().score([response, told(reference)], [{"steps": reference}])
    assert scores.components["content"].tolist() == [0.0, 1.5]
    actions = [told([step(action) for action in some]) for some in (ours, theirs)]
    scores = Scorer().score(actions, [{"steps": [step(action) for action in theirs]}])
    assert scores.components["anchors"].tolist() == [0, 100]


def issues(path: str, reference: str | dict, overrides: dict) -> list[tuple[str, str]]:
    """Return the path and the reason of a reference, or of each of its alternatives, that the twin cannot read."""
    if "any_of" in reference and not isinstance(reference, str):
        alternatives = enumerate(reference["any_of"])
        return [
            issue for k, alternative in alternatives for issue in issues(f"{path}.any_of[{k}]", alternative, overrides)
        ]
    try:
        parse_reference(reference, overrides)
    except UnreadableReferenceError as bad:
        return [(path, bad.reason)]
    return []


@given(batches(alternatives=True), settings)
@examples(500)
def test_batches_under_any_settings(batch, overrides):
    """Also each response alone, bit for bit, and the references that the settings refuse."""
    responses, references, index = batch
    numbered = enumerate(references)
    expected = [issue for k, reference in numbered for issue in issues(f"references[{k}]", reference, overrides)]
    scorer = Scorer(**overrides)
    if expected:
        with pytest.raises(InvalidReference) as caught:
            scorer.score(responses, references, index)
        assert [(issue.path, issue.reason) for issue in caught.value.issues] == expected
        return
    together = assert_agree(responses, references, index, overrides)
    alone = [scorer.score([response], references, [k]) for response, k in zip(responses, index, strict=True)]
    assert bits(together) == [bits(scores)[0] for scores in alone]


@given(st.one_of(responses, surrogate_texts), settings)
@examples(150)
def test_any_text(response, overrides):
    assert_agree([response, response + "</note>", "<think>" + response], [ONE_STEP], [0, 0, 0], overrides)


@pytest.mark.parametrize("lone", ["\ud800", "\ude00\ud83d"], ids=ascii)
def test_lone_surrogates_become_replacement_characters(lone):
    replaced = "\ufffd" * len(lone)
    for place in ("{}", answer(think="{}"), answer(key=KEY + "{}"), answer(orc=f"{ORC} {{}}")):
        pair = [place.replace("{}", text) for text in (lone, replaced)]
        first, second = bits(assert_agree(pair, [ONE_STEP], [0, 0], {}))
        assert first == second
    response = answer(key=KEY.replace("pbs", f"pbs {replaced} a"), orc="Step 1: add pbs a 5 min")
    step = {"action": f"add{lone}", "objects": [np.str_(f"pbs {lone} a")], "parameters": ["5 min", lone]}
    for reference in ({"steps": [step]}, "Step 1: " + dumps(step, ensure_ascii=False)):
        assert assert_agree([np.str_(response)], [reference], [0], {}).components["content"].tolist() == [1.5]


@given(surrogate_texts, surrogate_texts, st.lists(surrogate_texts, max_size=3))
@examples(100)
def test_surrogates_anywhere(action, prose, objects):
    step = {"action": f"add {action}", "objects": objects, "parameters": [prose]}
    response = answer("Step 1: " + dumps(step, ensure_ascii=False).replace("\\u", "u"), f"Step 1: {prose}")
    assert_agree([response, told([step]), prose], [{"steps": [step]}], [0, 0, 0], {"min_coverage": 0.0})


@given(st.lists(elements, min_size=1, max_size=4), st.lists(elements, min_size=1, max_size=4))
@examples(100)
def test_steps_and_lines_are_the_same_reference(objects, parameters):
    step = {"action": "add", "objects": objects, "parameters": parameters}
    response = told([step])
    lines = ["Step 1: " + dumps(step), "step\t07 :" + dumps(step, ensure_ascii=False)]
    scores = assert_agree([response] * 4, [{"steps": [step]}, *lines, response], [0, 1, 2, 3], {})
    assert len(set(bits(scores))) == 1


@given(protocols, protocols, st.permutations(range(5)))
@examples(150)
def test_many_common_actions(first, second, order):
    """Long protocols over few actions, where order, anchors and positions matter most."""
    actions = [step | {"action": "add" if k % 2 else "spin"} for k, step in enumerate([*first, *second, *first])]
    reference = {"steps": [actions[k % len(actions)] for k in order] * 3}
    for mode in ("strict", "lcs"):
        config = {"order": mode, "min_coverage": 0.0}
        assert_agree([told(actions), told(actions[::-1])], [reference], [0, 0], config)


@given(protocols, st.randoms(use_true_random=False))
@examples(100)
def test_the_order_of_steps_does_not_change_the_last_bit_of_their_content(steps, shuffle):
    """Steps that differ from their partners by other shares, at the same place of both protocols."""
    pairs = [
        (
            {**step, "action": f"a{k}", "objects": ["b", *(f"o{n}" for n in range(k % 5))]},
            {**step, "action": f"a{k}", "objects": ["b"]},
        )
        for k, step in enumerate(steps * 3)
    ]
    shuffled = shuffle.sample(pairs, len(pairs))
    responses = [told([predicted for predicted, _ in order]) for order in (pairs, shuffled)]
    references = [{"steps": [expected for _, expected in order]} for order in (pairs, shuffled)]
    first, second = bits(Scorer(min_coverage=0.0).score(responses, references))
    assert first == second


@given(*[st.lists(st.lists(st.one_of(amounts, quantities), max_size=4), min_size=4, max_size=4)] * 2)
@examples(300)
def test_quantities(ours, theirs):
    """Parameters of four steps that are equal in all else: whichever two lists of them meet."""
    response, reference = (
        [step(f"a{k}", "pbs") | {"parameters": texts} for k, texts in enumerate(parameters)]
        for parameters in (ours, theirs)
    )
    for similarity, factor in (("quantities", 0.5), ("words", 0.9), ("words", 1.0)):
        config = {"parameter_similarity": similarity, "quantity_error_factor": factor, "min_coverage": 0.0}
        assert_agree([told(response), told(reference)], [{"steps": reference}], [0, 0], config)


@given(st.lists(st.tuples(amounts, asides, asides), min_size=1, max_size=4), asides, st.integers(0, 6))
@examples(200)
def test_added_numbers_and_words(steps, before_the_first, limit):
    key = [step("add", "pbs", amount) for amount, _, _ in steps]
    prose = [f"Step {k}:{before} add pbs {amount} {after}." for k, (amount, before, after) in enumerate(steps, 1)]
    orc = "\n".join([before_the_first, *prose])
    response = answer("\n".join(f"Step {k}: {dumps(fields)}" for k, fields in enumerate(key, 1)), orc)
    for config in ({"max_added_numbers": limit}, {"max_added_words": limit}):
        assert_agree([response], [{"steps": key}], [0], config)


@given(*[st.lists(cognates, max_size=8)] * 2, st.sampled_from([" ", ", ", "-", "\n"]), st.integers(0, 4))
@examples(200)
def test_words_that_begin_alike(ours, theirs, between, limit):
    key = [step("add") | {"objects": ours, "parameters": ["-".join(ours)]}]
    response = answer(f"Step 1: {dumps(key[0])}", f"Step 1: add {between.join(theirs)}")
    for coverage in ("words", "substring"):
        config = {"coverage": coverage, "max_added_words": limit, "min_coverage": 0.5}
        assert_agree([response], [{"steps": key}], [0], config)


@given(st.lists(st.one_of(texts, elements), min_size=1, max_size=5), st.sampled_from(["\n", "\r\n", "\r", "\n \t\n"]))
@examples(200)
def test_prose_over_lines(pieces, line_end):
    """Words of the pieces, of the pieces joined by a space, and of the pieces run together: which of them are there?"""
    step = {"action": "add", "objects": pieces, "parameters": [" ".join(pieces), "".join(pieces)]}
    response = answer(f"Step 1: {dumps(step)}", f"Step 1: {line_end.join(['add', *pieces])}")
    assert_agree([response], [ONE_STEP], [0], {"min_coverage": 0.0})
