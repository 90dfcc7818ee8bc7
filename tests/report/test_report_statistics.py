"""What a report collects: values, groups, examples, and signs of reward hacking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.research.reports.statistics import (
    EXAMPLES,
    MAX_LABEL,
    MAX_LENGTH,
    SIGNS,
    Examples,
    RewardGroups,
    Tallies,
    prompt_label,
    split_parts,
)
from assay.service.records.jobs.summary import QUANTILES, Values, quantiles
from assay.service.records.rows.rows import Location, Rollout
from assay.service.wording import shortened
from tests.cases import told
from tests.cases.writing import answer, step
from tests.strategies import examples


@given(st.lists(st.lists(st.floats(-0.5, 2.0), max_size=30), max_size=6))
@examples(50)
def test_values(pieces):
    values = Values()
    assert values.all().tolist() == []
    for piece in pieces:
        values.add(np.array(piece))
        assert len(values.all()) >= len(piece)
    everything = [value for piece in pieces for value in piece]
    assert values.all().tolist() == everything
    if everything:
        assert list(quantiles(values.all()).values()) == np.quantile(everything, list(QUANTILES.values())).tolist()


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.1, 0.3, 0.30000000000000004, 1.0])), max_size=40))
@examples(100)
def test_groups(rows):
    groups = RewardGroups()
    for k, (group, reward) in enumerate(rows):
        groups.add({"prompt": group, "x": 1}, Location("line", k + 1), reward)
    order = list(dict.fromkeys(group for group, _ in rows))
    assert len(groups) == len(order)
    for actual, group in zip(groups, order, strict=True):
        rewards = np.array([reward for other, reward in rows if other == group])
        assert actual.size == len(rewards)
        assert actual.mean == pytest.approx(rewards.mean())
        assert actual.deviation == pytest.approx(rewards.std(ddof=1) if len(rewards) > 1 else 0.0, abs=1e-9)
        assert actual.flat == (len(rewards) > 1 and len(set(rewards.round(9).tolist())) == 1)
        assert not (actual.flat and actual.deviation), "the last bit is no spread"
        assert actual.first.number == 1 + [other for other, _ in rows].index(group)


def test_groups_are_bounded_and_have_short_labels():
    groups = RewardGroups(max_groups=3)
    for k in range(10):
        groups.add(f"prompt {k % 5}", Location("line", k), 0.5)
    assert (len(groups), groups.left_out) == (3, 4)
    assert [group.size for group in groups] == [2, 2, 2]
    groups = RewardGroups()
    for k, prompt in enumerate(({"a": 1, "b": 2}, {"b": 2, "a": 1}, "\ud800")):
        groups.add(prompt, Location("line", k), 0.5)
    assert [group.size for group in groups] == [2, 1]
    assert prompt_label("short\n prompt") == "short prompt"
    assert prompt_label({"goal": "x"}) == '{"goal":"x"}'
    label = prompt_label("system " * 1000 + "the\nquestion")
    assert label.startswith("system system")
    assert label.endswith("system the question")
    assert MAX_LABEL - 10 < len(label) <= MAX_LABEL + 3
    assert shortened("a" + " " * 10_000 + "b", 20) == "a … b"


def rollout(k: int, response: str = "r") -> Rollout:
    return Rollout(Location("line", k), b"", response=response, reference="x")


def test_examples():
    kept = Examples()
    for k in range(1000):
        kept.add(rollout(k), (k * 7919 % 1000) / 1000, 0)
        kept.add(rollout(10_000 + k), 0.0, 3)
    assert [example.reward for example in kept.best()] == [0.999, 0.998, 0.997]
    assert [example.reward for example in kept.worst()] == [0.0, 0.001, 0.002]
    assert [example.reason for example in kept.by_reason()] == ["missing_sections"]
    kept = Examples()
    for k in range(10):
        kept.add(rollout(k), 0.5, 0)
    assert [example.location.number for example in kept.best()] == [0, 1, 2]  # of equal rewards, the first stay
    assert kept.worst() == []
    assert EXAMPLES == 3
    kept.add(rollout(1, "x" * (MAX_LENGTH + 1)), 0.0, 1)
    (example,) = kept.by_reason()
    assert not example.whole
    assert len(example.response) < 10_000


R = [step("add", "cells|pbs", "5 ml"), step("spin", "cells", "5 min"), step("store", "pellet"), step("add", "dmem")]
HONEST = told(R, ", gently and with care")
WORDS = " ".join(f"word{k}" for k in range(80))


def shown(response: str, reference: object = None, prefilled: bool = False) -> set[str]:
    """Return the names of the signs that a response shows."""
    tallies = Tallies()
    rollout = Rollout(Location("line", 1), b"", response=response, reference=reference or {"steps": R})
    tallies.add(rollout, split_parts(response.encode(), prefilled), 0.5)
    return {name for name, tally in tallies.by_sign.items() if tally.number}


def test_signs_that_depend_on_the_reference():
    assert shown(HONEST) == set()
    assert shown(HONEST.removeprefix("<think>"), prefilled=True) == set()
    assert shown(HONEST, told(R)) == set()
    key = 'Step 1: {"action": "add", "objects": ["pbs"], "parameters": []}'
    assert shown(answer(key, key), {"steps": R[:1]}) == {"key_as_prose"}
    assert shown(told([*R, R[1]]), {"steps": [*R, R[1]]}) == set()  # repeated there, too
    assert "copied_reference" in shown(HONEST, HONEST.replace("\n", "\n\n"))
    lines = HONEST.partition("<key>\n")[2].partition("\n</key>")[0]
    assert "copied_reference" in shown(HONEST, lines)
    assert "copied_reference" not in shown(HONEST, lines.replace("5 ml", "5  ml"))
    assert shown(HONEST, {"any_of": [lines, {"steps": R}]}) == {"copied_reference"}
    short = told(R[:1])
    assert shown(short, {"any_of": [{"steps": R}, told(R)]}) == {"too_few_steps"}
    assert shown(short, {"any_of": [{"steps": R}, {"steps": R[:1]}]}) == set()


@pytest.mark.parametrize(
    ("response", "found"),
    [
        (told([*R, R[1]]), {"duplicate_steps"}),
        (told(R, " so" * 30), {"padding"}),
        ("x" * 2000 + HONEST, {"padding"}),
        (HONEST + "x" * 2000, {"padding"}),
        (HONEST.replace("gently", WORDS, 1), set()),
        (told([step("add"), step("spin"), step("store")]), {"trivial_steps"}),
        (told(R[:1]), {"too_few_steps"}),
        (HONEST.replace("<think>t<", "<think> <"), {"empty_sections"}),
        (HONEST.replace("<note>n<", "<note><"), {"empty_sections"}),
    ],
)
def test_signs(response, found):
    assert shown(response) == found


def test_tallies():
    tallies = Tallies()
    for k, reward in enumerate([1.0, 0.0, 0.5]):
        response = told(R) + ("x" * 2000 if k == 0 else "")
        rollout = Rollout(Location("line", k + 1), b"", response=response, reference={"steps": R})
        tallies.add(rollout, split_parts(response.encode()), reward)
    tally = tallies.by_sign["padding"]
    assert (tally.number, tally.mean, [location.number for location in tally.locations]) == (1, 1.0, [1])
    assert tallies.mean_without("padding") == 0.25
    assert tallies.mean_without("trivial_steps") == 0.5
    assert tallies.share("padding") == pytest.approx(1 / 3)
    assert [name for name in tallies.by_sign if tallies.is_suspicious(name)] == ["padding"]
    assert len({sign.name for sign in SIGNS}) == len(SIGNS)
