"""Several configurations of one request have the bits of separate runs, and their errors."""

from __future__ import annotations

from itertools import product
from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import InvalidReference, InvalidRequest, InvalidSetting, Scorer, Scores, ScoringError
from assay.kernels.compiler import JIT
from assay.research.conformance import read_vectors
from examples import rollouts
from tests.cases import answer, told
from tests.cases.writing import step
from tests.scoring.agreement import assert_sound, bits
from tests.scoring.test_scorer_settings import OTHER
from tests.strategies import batches, examples, settings

TABLE_21: list[dict[str, Any]] = [
    dict(zip(("order", "semantics", "total"), values, strict=True))
    for values in product(("strict", "lcs"), ("sum", "product"), ("product", "sum"))
]
OTHERS: list[dict[str, Any]] = [
    {},
    *({name: False} for name in ("use_step_gap", "use_length", "use_position", "use_order")),
    *({"reward_scale": scale} for scale in ("raw", "double", "shift")),
    *({"min_coverage": least} for least in (0.0, 0.8, 1.0)),
    *({"position_decay": decay, "object_similarity": kind} for decay in (0.5, 3.0) for kind in ("fallback", "max")),
    {"content_denominator": "max_len", "length_penalty": "relative", "max_mean_words": 8.5, "advantage_ddof": 0},
    {"think_prefilled": True},
    {"max_response_bytes": 2_000, "order": "lcs"},
]
STEP = {"action": "add", "objects": ["pbs"], "parameters": []}
LONG, SHORT = {"steps": [STEP] * 3}, {"steps": [STEP]}


def batch(prompts: int, samples: int) -> dict[str, Any]:
    return rollouts.as_request(list(rollouts.generate(prompts, samples, seed=21)))


def assert_same(scores: Scores, expected: Scores) -> None:
    assert_sound(scores, len(expected))
    assert bits(scores) == bits(expected)
    assert scores.reasons.tolist() == expected.reasons.tolist()
    assert scores.group_index.tolist() == expected.group_index.tolist()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("prompts", [3 if JIT else 1, 90 if JIT else 2], ids=["few references", "in shares"])
def test_the_bits_of_separate_runs(prompts, threads):
    request, scorer = batch(prompts, 4), Scorer(threads=threads)
    configs = [*OTHERS, *TABLE_21]
    found = scorer.score_configs(configs, **request)
    for config, scores in zip(configs, found, strict=True):
        alone = scorer.with_overrides(config).score(**request)
        assert_same(scores, alone)
        assert scores.advantages().tobytes() == alone.advantages().tobytes()
    assert len({scores.rewards.tobytes() for scores in found}) > len(configs) / 2


NEIGHBOURS: dict[str, Any] = OTHER | {
    "min_coverage": 0.0,
    "max_mean_words": 40.0,
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
    near = [step("add", "pbs|warm water"), step("spin", "tube", "5 min"), step("mix", "cells", "9 ml")]
    responses = [told(near), told([*near, near[0]]), told(reference).replace(" and salt", "")]
    responses.append(told(reference).removeprefix("<think>"))
    request = {"responses": responses, "references": [{"steps": reference}], "reference_index": [0] * 4}
    base = {"max_mean_words": 4.0, "length_penalty": "absolute"}
    configs = [base, base | {name: NEIGHBOURS[name]}, base]
    found = Scorer().score_configs(configs, **request)
    for config, scores in zip(configs, found, strict=True):
        assert_same(scores, Scorer(**config).score(**request))
    assert bits(found[0]) != bits(found[1]), "the setting makes no difference here"


def test_groups():
    request = batch(2, 4) | {"groups": ["a", "b"] * 4}
    scores, other = Scorer().score_configs([{}, {"advantage_ddof": 0}], **request)
    assert scores.advantages().tobytes() == Scorer().score(**request).advantages().tobytes()
    assert other.advantages().tobytes() == Scorer(advantage_ddof=0).score(**request).advantages().tobytes()


def test_vectors_under_each_others_settings():
    """Also under those of a scorer with other settings."""
    groups = ("score/sections", "score/lines", "score/gates", "score/content", "score/total")
    cases = [case for case in read_vectors(["score"]) if case.group in groups and "max_steps" not in case.row["config"]]
    cases = cases[:: 1 if JIT else 25]
    configs = list({repr(case.row["config"]): case.row["config"] for case in cases}.values())
    columns = [case.row["response"] for case in cases], [case.row["reference"] for case in cases]
    for scorer in (Scorer(), Scorer(order="lcs", reward_scale="raw")):
        for config, scores in zip(configs, scorer.score_configs(configs, *columns), strict=True):
            assert_same(scores, scorer.with_overrides(config).score(*columns))


@given(batches(), st.lists(settings, min_size=1, max_size=6))
@examples(60)
def test_any_configurations(columns, configs):
    separate: list[Scores] = []
    refused: set[tuple[str, str]] = set()
    for config in configs:
        try:
            separate.append(Scorer(**config).score(*columns))
        except InvalidReference as error:
            refused |= {(issue.path, issue.reason) for issue in error.issues}
    if refused:
        with pytest.raises(InvalidReference) as caught:
            Scorer().score_configs(configs, *columns)
        assert {(issue.path, issue.reason) for issue in caught.value.issues} == refused
        return
    for scores, expected in zip(Scorer().score_configs(configs, *columns), separate, strict=True):
        assert_same(scores, expected)


def issues(error: type[ScoringError], *arguments: Any) -> list[tuple[str, str]]:
    """Return (path, detail) of every issue."""
    with pytest.raises(error) as caught:
        Scorer(max_steps=100).score_configs(*arguments)
    return [(issue.path, issue.detail) for issue in caught.value.issues]


def test_every_invalid_setting_is_named():
    configs = [{"order": "lsc"}, {}, {"ordr": "lcs", "min_coverage": 2}, ["order"], None, {"max_steps": 101}]
    assert issues(InvalidSetting, configs, ["x"], [SHORT]) == [
        ("configs[0].order", "must be one of: strict, lcs"),
        ("configs[2].min_coverage", "must be at most 1"),
        ("configs[2].ordr", "there is no setting of this name; did you mean order?"),
        ("configs[3]", "must be an object"),
        ("configs[4]", "must be an object"),
        ("configs[5].max_steps", "must be at most 100, the server's own limit"),
    ]
    for no_list in ([], {}, {"order": "lcs"}, "lcs", None, iter([{}])):
        assert [path for path, _ in issues(InvalidSetting, no_list, ["x"], [SHORT])] == ["configs"]


def test_what_is_wrong_with_texts_is_named_once():
    """With the configurations that refuse a reference, if others do not."""
    references = [LONG, "Step 1: add", SHORT, {"steps": []}]
    configs = [{}, {"max_steps": 2}, {"order": "lcs", "max_steps": 2}, {"max_steps": 3}]
    assert issues(InvalidReference, configs, ["x"] * 4, references, [0, 1, 2, 3]) == [
        ("references[0]", "it has more than 2 steps (configs[1], configs[2])"),
        ("references[1]", "line 1 is not of the form 'Step N: {...}'"),
        ("references[3]", "a reference must have at least one step"),
    ]
    assert issues(InvalidReference, [{"max_steps": 2}], ["x"], [LONG]) == [
        ("references[0]", "it has more than 2 steps")
    ]
    assert issues(InvalidRequest, [{}], ["x", 5], [SHORT]) == [("responses[1]", "must be a string")]
    assert [path for path, _ in issues(InvalidRequest, [{}], ["x"], [SHORT], [1])] == ["reference_index[0]"]


def test_a_scorer_keeps_its_own_settings():
    prefilled = answer().removeprefix("<think>")
    scorer = Scorer(think_prefilled=True)
    own, opened = scorer.score_configs([{}, {"think_prefilled": False}], [prefilled], [SHORT])
    assert own.reasons.tolist() == ["ok"]
    assert opened.reasons.tolist() == ["think_not_opened"]
    assert [len(scores) for scores in scorer.score_configs([{}, {"order": "lcs"}], [], [])] == [0, 0]


@pytest.mark.skipif(not JIT, reason="the kernels are not compiled")
def test_eight_configurations_cost_less_than_four_runs():
    """On one thread, whose CPU time other processes do not change much: about 1.2 times one run."""
    request, scorer = batch(40, 8), Scorer(threads=1)
    scorer.score_configs(TABLE_21, **request)

    def cost(*configs: dict[str, Any]) -> float:
        before = thread_time()
        scorer.score_configs(configs, **request)
        return thread_time() - before

    assert min(cost(*TABLE_21) for _ in range(7)) < 3 * min(cost({}) for _ in range(7))
