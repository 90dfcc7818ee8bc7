"""Several configurations of one request have the bits of separate runs, and their errors."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import InvalidReference, InvalidRequest, InvalidSetting, Scorer, Scores, ScoringError
from assay.kernels.compiler import JIT
from examples import rollouts
from tests.cases import told
from tests.cases.writing import step
from tests.scoring.agreement import assert_sound, bits
from tests.scoring.test_scorer_settings import OTHER
from tests.strategies import batches, examples, settings

STEP = {"action": "add", "objects": ["pbs"], "parameters": []}
LONG, SHORT = {"steps": [STEP] * 1_025}, {"steps": [STEP]}


def assert_same(scores: Scores, expected: Scores) -> None:
    assert_sound(scores, len(expected))
    assert bits(scores) == bits(expected)
    assert scores.reasons.tolist() == expected.reasons.tolist()
    assert scores.group_index.tolist() == expected.group_index.tolist()
    assert (scores.steps is None) == (expected.steps is None)
    if expected.steps is not None:
        assert list(scores.steps) == list(expected.steps)
        assert scores.alternative.tolist() == expected.alternative.tolist()


@pytest.mark.parametrize("threads", [1, 2])
def test_eight_configurations_of_many_references(threads):
    """Those of the paper's table 21, share by share; also that a request keeps the scorer's own settings."""
    configs = [
        dict(zip(("order", "semantics", "total"), values, strict=True))
        for values in product(("strict", "lcs"), ("sum", "product"), ("product", "sum"))
    ]
    request = rollouts.as_request(list(rollouts.generate(90 if JIT else 2, 4, seed=21)))
    scorer = Scorer(threads=threads, think_prefilled=True)
    configs = [*configs, {"think_prefilled": False}, {"advantage_ddof": 0}]
    separate = [scorer.with_overrides(config).score(**request) for config in configs]
    for scores, alone in zip(scorer.score_configs(configs, **request), separate, strict=True):
        assert_same(scores, alone)
        assert scores.advantages().tobytes() == alone.advantages().tobytes()
    assert len({scores.rewards.tobytes() for scores in separate}) > 5


NEIGHBOURS: dict[str, Any] = OTHER | {
    "min_coverage": 0.0,
    "max_mean_words": 40.0,
    "quantity_error_factor": 0.5,
    "position_decay": 0.5,
    "max_response_bytes": 250,
    "max_steps": 3,
}
"""Another value of each setting, which changes the rewards below."""
NEIGHBOURS.pop("advantage_ddof")


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours_that_differ_in_one_setting_share_nothing_that_depends_on_it(name):
    """What one configuration leaves for the next is computed again where a setting of it differs."""
    reference = [step("add", "pbs|cold water|salt"), step("mix", "cells", "5 ml"), step("spin", "tube", "5 min")]
    near = [step("add", "pbs|warm water"), step("spin", "tube", "300 s"), step("mix", "cells", "9 ml")]
    responses = [told(near), told([*near, near[0]], " 37 °C"), told(reference).replace(" and salt", "")]
    responses += [told(near).replace(" warm", " lukewarm"), told(reference).replace("5 m", "9 m")]
    responses.append(told(reference).removeprefix("<think>"))
    request = {"responses": responses, "references": [{"steps": reference}], "reference_index": [0] * 6}
    base = {"max_mean_words": 4.0, "length_penalty": "absolute"}
    configs = [base, base | {name: NEIGHBOURS[name]}, base]
    score_sets = Scorer().score_configs(configs, **request)
    for config, scores in zip(configs, score_sets, strict=True):
        assert_same(scores, Scorer(**config).score(**request))
    assert bits(score_sets[0]) != bits(score_sets[1]), "the setting makes no difference here"


@given(batches(alternatives=True), st.lists(settings, min_size=1, max_size=6))
@examples(100)
def test_any_configurations(columns, configs):
    separate: list[Scores] = []
    refused: set[tuple[str, str]] = set()
    for config in configs:
        try:
            separate.append(Scorer(**config).score(*columns, steps=True))
        except InvalidReference as error:
            refused |= {(issue.path, issue.reason) for issue in error.issues}
    if refused:
        with pytest.raises(InvalidReference) as caught:
            Scorer().score_configs(configs, *columns)
        assert {(issue.path, issue.reason) for issue in caught.value.issues} == refused
        return
    for scores, expected in zip(Scorer().score_configs(configs, *columns, steps=True), separate, strict=True):
        assert_same(scores, expected)


def issues(error: type[ScoringError], *arguments: Any) -> list[tuple[str, str, str]]:
    """Return (path, reason, configurations named in the detail) of every issue."""
    with pytest.raises(error) as caught:
        Scorer(max_steps=2_000).score_configs(*arguments)
    return [(issue.path, issue.reason, issue.detail.partition(" (configs")[2]) for issue in caught.value.issues]


def test_every_invalid_setting_is_named():
    configs = [{"order": "lsc"}, {}, {"ordr": "lcs", "min_coverage": 2}, ["order"], None, {"max_steps": 2_001}]
    assert issues(InvalidSetting, configs, ["x"], [SHORT]) == [
        ("configs[0].order", "invalid_setting", ""),
        ("configs[2].min_coverage", "invalid_setting", ""),
        ("configs[2].ordr", "unknown_setting", ""),
        ("configs[3]", "wrong_type", ""),
        ("configs[4]", "wrong_type", ""),
        ("configs[5].max_steps", "over_limit", ""),
    ]
    for no_list in ([], {"order": "lcs"}, "lcs", None, iter([{}])):
        assert [path for path, *_ in issues(InvalidSetting, no_list, ["x"], [SHORT])] == ["configs"]


def test_what_is_wrong_with_texts_is_named_once():
    """With the configurations that refuse a reference, if others do not; none has a limit below 1,024 steps."""
    references = [LONG, "Step 1: add", SHORT, {"steps": []}]
    configs = [{}, {"max_steps": 1_024}, {"order": "lcs", "max_steps": 2}, {"max_steps": 1_025}]
    assert issues(InvalidReference, configs, ["x"] * 4, references, [0, 1, 2, 3]) == [
        ("references[0]", "too_long", "[1], configs[2])"),
        ("references[1]", "bad_step_line", ""),
        ("references[3]", "no_steps", ""),
    ]
    assert issues(InvalidReference, configs[1:2], ["x"], [LONG]) == [("references[0]", "too_long", "")]
    assert issues(InvalidRequest, [{}], ["x", 5], [SHORT]) == [("responses[1]", "wrong_type", "")]
    assert issues(InvalidRequest, [{}], ["x"], [SHORT], [1]) == [("reference_index[0]", "index_out_of_range", "")]
