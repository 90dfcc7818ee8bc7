"""The Scorer against the textbook twin on everything that the strategies draw: equal reasons, components to 1e-12."""

from __future__ import annotations

from json import dumps

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import InvalidReference, Scorer
from tests.cases import answer, told
from tests.reference.scorer import UnreadableReferenceError, parse_reference
from tests.scoring.agreement import assert_agree, bits
from tests.strategies import (
    batches,
    doubtful_references,
    elements,
    examples,
    protocols,
    responses,
    rollouts,
    settings,
    surrogate_texts,
    texts,
)

ONE_STEP = {"steps": [{"action": "add", "objects": ["pbs"], "parameters": ["5 min"]}]}


def verdict(reference: str | dict, overrides: dict) -> str:
    """Return `ok`, or why the twin cannot read the reference."""
    try:
        parse_reference(reference, overrides)
    except UnreadableReferenceError as bad:
        return bad.reason
    return "ok"


@given(rollouts(), settings)
@examples(400)
def test_rollouts_under_any_settings(rollout, overrides):
    response, reference = rollout
    assert_agree([response], [reference], [0], {})
    reason = verdict(reference, overrides)
    if reason == "ok":
        assert_agree([response], [reference], [0], overrides)
    else:
        with pytest.raises(InvalidReference) as caught:
            Scorer(**overrides).score([response], [reference])
        assert [issue.reason for issue in caught.value.issues] == [reason]


@given(batches(), settings.filter(lambda overrides: overrides.get("max_steps", 1024) == 1024))
@examples(150)
def test_batches(batch, overrides):
    responses, references, index = batch
    together = assert_agree(responses, references, index, overrides)
    scorer = Scorer(**overrides)
    assert bits(together) == [
        bits(scorer.score([response], references, [k]))[0] for response, k in zip(responses, index, strict=True)
    ]


@given(st.one_of(responses, surrogate_texts), settings)
@examples(150)
def test_any_text(response, overrides):
    assert_agree([response, response + "</note>", "<think>" + response], [ONE_STEP], [0, 0, 0], overrides)


@given(st.lists(doubtful_references, min_size=1, max_size=3))
@examples(150)
def test_any_reference(references):
    reasons = [verdict(reference, {}) for reference in references]
    expected = [(f"references[{row}]", reason) for row, reason in enumerate(reasons) if reason != "ok"]
    outcome: list[tuple[str, str]] = []
    try:
        Scorer().score([], references, [])
    except InvalidReference as error:
        outcome = [(issue.path, issue.reason) for issue in error.issues]
    assert outcome == expected


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
    responses = [told([given for given, _ in order]) for order in (pairs, shuffled)]
    references = [{"steps": [wanted for _, wanted in order]} for order in (pairs, shuffled)]
    first, second = bits(Scorer(min_coverage=0.0).score(responses, references))
    assert first == second


@given(st.lists(st.one_of(texts, elements), min_size=1, max_size=5), st.sampled_from(["\n", "\r\n", "\r", "\n \t\n"]))
@examples(200)
def test_prose_over_lines(pieces, line_end):
    """Words of the pieces, of the pieces joined by a space, and of the pieces run together: which of them are there?"""
    step = {"action": "add", "objects": pieces, "parameters": [" ".join(pieces), "".join(pieces)]}
    response = answer(f"Step 1: {dumps(step)}", f"Step 1: {line_end.join(['add', *pieces])}")
    assert_agree([response], [ONE_STEP], [0], {"min_coverage": 0.0})
