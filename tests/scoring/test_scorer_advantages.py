"""Group advantages: (r − mean) / std of the responses of one reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import InvalidRequest, Scorer
from assay.service.rewards.scores import group_advantages
from tests.cases import told
from tests.reference.advantages import advantages as twin
from tests.strategies import examples

STEPS = [{"action": action, "objects": ["pbs"], "parameters": []} for action in ("add", "mix", "spin", "wash")]
REFERENCES = [{"steps": STEPS}, {"steps": STEPS[::-1]}, {"steps": STEPS[:2]}]
RESPONSES = [told(STEPS), told(STEPS[:3]), told(STEPS[::-1]), "", told(STEPS[1:]), told(STEPS[:1])]


def check(rewards: list[float], groups: list[int], ddof: int) -> list[float]:
    """Return the kernel's advantages, after comparing them with the twin's."""
    advantages = group_advantages(np.array(rewards, float), np.array(groups, np.int64), ddof)
    assert advantages.dtype == np.float64
    assert advantages.tolist() == twin(rewards, groups, ddof)
    return advantages.tolist()


@pytest.mark.parametrize("ddof", [0, 1])
def test_of_scores(ddof):
    for index in ([0] * 6, [2, 2, 0, 1, 1, 0]):
        scores = Scorer(advantage_ddof=ddof, order="lcs").score(RESPONSES, REFERENCES, index)
        assert len(set(scores.rewards.tolist())) > 2
        assert scores.advantages().tolist() == twin(scores.rewards.tolist(), index, ddof)


@pytest.mark.parametrize("ddof", [0, 1])
def test_by_hand(ddof):
    half = math.sqrt(1 / (1 + ddof))
    assert check([1.0, 0.0], [5, 5], ddof) == pytest.approx([half, -half])
    assert check([0.0, 1.0, 2.0, 9.0], [3, 3, 3, 1], 1) == pytest.approx([-1, 0, 1, 0])
    for reward in (0.0, 1.0, 0.1, 1 / 3, -1.25, 1e-308, 5e-324, 7.0):
        zeros = check([reward] * 7 + [0.5], [4] * 7 + [2], ddof)
        assert [value.hex() for value in zeros] == [(0.0).hex()] * 8, "not even -0.0"
    # Rewards that differ by rounding alone are equal: the last bit of two sums would become a full advantage.
    assert check([0.8755555555555554, 0.8755555555555556], [0, 0], ddof) == [0.0, 0.0]
    assert check([0.0, 1e-9, 5e-10, 1.0, 0.0], [0, 0, 0, 1, 1], ddof)[:3] == [0.0, 0.0, 0.0]
    assert check([0.0, 1.1e-9], [0, 0], ddof) == pytest.approx([-half, half])


def test_references_with_one_response_each():
    """That is a mistake: one reference for each row, and no index. Named groups of one are none: a partial batch."""
    for responses, references, index in (
        (RESPONSES[:1], REFERENCES, [2]),
        (RESPONSES[:3], REFERENCES, [0, 1, 2]),
        (RESPONSES[:3], REFERENCES, None),
        (RESPONSES[:2], [REFERENCES[0]] * 3, [0, 2]),  # two references of equal text are two groups
    ):
        scores = Scorer().score(responses, references, index)
        with pytest.raises(InvalidRequest) as caught:
            scores.advantages()
        assert [(issue.path, issue.reason) for issue in caught.value.issues] == [("include", "no_group")]
        assert scores.rewards.shape == (len(responses),), "the rewards are there all the same"
    assert Scorer().score(RESPONSES[:2], [REFERENCES[0]] * 3, [2, 2]).advantages().any()
    assert group_advantages(np.array([1.0, 0.0, 0.5]), np.array([2, 0, 1]), 1).tolist() == [0.0] * 3
    assert Scorer().score(RESPONSES[:3], REFERENCES, [0, 1, 2], [7, "7", "b"]).advantages().tolist() == [0.0] * 3


@pytest.mark.parametrize(
    ("groups", "issues"),
    [
        *((groups, [("groups", "wrong_type")]) for groups in ("ab", b"ab", {"a": 0, "b": 1}, 5, np.zeros((2, 1), int))),
        (["a"], [("groups", "wrong_length")]),
        (["a", "b", "c"], [("groups", "wrong_length")]),
        ([True, None], [("groups[0]", "wrong_type"), ("groups[1]", "wrong_type")]),
        ([[1], "a", 2.0], [("groups", "wrong_length"), ("groups[0]", "wrong_type")]),
    ],
)
def test_wrong_groups(groups, issues):
    with pytest.raises(InvalidRequest) as caught:
        Scorer().score(RESPONSES[:2], REFERENCES[:1], [0, 0], groups)
    assert [(issue.path, issue.reason) for issue in caught.value.issues] == issues


@pytest.mark.parametrize("groups", [["a", "b"], np.array([1, 2]), np.array(["a", "b"]), ("a", 1)], ids=str)
def test_groups_may_be_any_sequence(groups):
    assert Scorer().score(RESPONSES[:2], REFERENCES[:1], [0, 0], groups).group_index.tolist() == [0, 1]


def test_an_empty_batch_has_no_advantages():
    for groups in (None, []):
        assert Scorer().score([], [], groups=groups).advantages().shape == (0,)


rewards_and_groups = st.lists(
    st.tuples(st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(-1.25, 5, width=32)), st.integers(0, 4)),
    min_size=2,
    max_size=30,
)


@given(rewards_and_groups, st.sampled_from([0, 1]), st.randoms(use_true_random=False))
@examples(200)
def test_against_twin(pairs, ddof, shuffle):
    """Bit for bit, and whatever the order of the rows."""
    rewards, groups = [reward for reward, _ in pairs], [group for _, group in pairs]
    if len(set(groups)) == len(groups):
        groups[0] = groups[1]
    advantages = check(rewards, groups, ddof)
    assert np.isfinite(advantages).all()
    order = shuffle.sample(range(len(rewards)), len(rewards))
    assert check([rewards[k] for k in order], [groups[k] for k in order], ddof) == [advantages[k] for k in order]
