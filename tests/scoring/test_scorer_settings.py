"""Settings: their ranges, their digest, and what each of them changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from assay import InvalidSetting, Scorer, ScoreSettings, ScoringError, __version__
from assay.service.settings import RULES_VERSION
from tests.cases import answer
from tests.cases.writing import ONE_STEP
from tests.own_process import printed
from tests.reference.reward import DEFAULTS, largest_score
from tests.strategies import examples, settings

OTHER: dict[str, Any] = {
    "order": "lcs",
    "semantics": "product",
    "total": "sum",
    "content_denominator": "max_len",
    "length_penalty": "relative",
    "reward_scale": "raw",
    "min_coverage": 0.9500000000000001,
    "max_mean_words": 29.999999999999996,
    "object_similarity": "max",
    "parameter_similarity": "quantities",
    "coverage": "words",
    "quantity_error_factor": 0.9999999999999999,
    "max_added_words": 0,
    "max_added_numbers": 0,
    "position_decay": 1.5000000000000002,
    "use_step_gap": False,
    "use_length": False,
    "use_position": False,
    "use_order": False,
    "think_prefilled": True,
    "advantage_ddof": 0,
    "max_response_bytes": 262145,
    "max_steps": 1025,
}


BAD: dict[str, list[Any]] = {
    "order": ["STRICT", "", None, 1, ["lcs"]],
    "semantics": ["order", True],
    "total": ["mean"],
    "content_denominator": ["matched "],
    "length_penalty": ["none"],
    "reward_scale": ["UNIT", 2.5],
    "min_coverage": [-0.1, 1.0000000000000002, float("nan"), float("inf"), "0.9", None, True],
    "max_mean_words": [0.9999999999999999, float("nan"), float("inf"), "30", [30]],
    "object_similarity": ["words"],
    "parameter_similarity": ["quantity", None],
    "coverage": ["word", 0.95, None],
    "quantity_error_factor": [0, 1.0000000000000002, 1.5, -0.5, float("nan"), "x", "0.5", None, True],
    "max_added_words": [-1, 0.5, "0", "none", True],
    "max_added_numbers": [-1, 0.5, "0", "none", False],
    "position_decay": [0, -1.5, float("nan"), float("inf"), None],
    "use_step_gap": [0, 1, "true", None],
    "use_length": ["false"],
    "use_position": [1.0],
    "use_order": [None],
    "think_prefilled": [1],
    "advantage_ddof": [2, -1, "1", None, 0.5],
    "max_response_bytes": [0, 1.5, "1", True],
    "max_steps": [0, 10.5, None],
}


def test_every_setting_is_tried_here():
    assert DEFAULTS.keys() == OTHER.keys() == BAD.keys() == ScoreSettings.model_fields.keys()
    assert ScoreSettings().model_dump() == DEFAULTS
    assert Scorer().settings == ScoreSettings()


def issues_of(make: Callable[[], Any]) -> dict[str, str]:
    """Return path and reason of every issue of an InvalidSetting."""
    with pytest.raises(InvalidSetting) as caught:
        make()
    assert isinstance(caught.value, ScoringError)
    assert len({issue.path for issue in caught.value.issues}) == len(caught.value.issues)
    return {issue.path: issue.reason for issue in caught.value.issues}


def test_everything_out_of_range_is_named():
    for name, values in BAD.items():
        for value in values:
            for make in (lambda: Scorer(**{name: value}), lambda: Scorer().with_overrides({name: value})):  # noqa: B023
                assert issues_of(make) == {f"config.{name}": "invalid_setting"}, value
    unknown = ["ordering", "Order", "threads", "self", "settings", "a.b", "", "config_id", "model_config"]
    overrides = {name: values[0] for name, values in BAD.items()} | dict.fromkeys(unknown, 1) | {"order": "lcs"}
    expected = {f"config.{name}": "invalid_setting" for name in BAD if name != "order"}
    expected |= {f"config.{name}": "unknown_setting" for name in unknown}
    assert issues_of(lambda: Scorer().with_overrides(overrides)) == expected


def test_an_unknown_setting_is_answered_with_a_similar_one():
    """Only for the first ones: a request may have many, and the search takes time."""
    with pytest.raises(InvalidSetting) as caught:
        Scorer(**{"position_dacey": 1.0}, **{f"use_length{k}": False for k in range(200)})
    details = {issue.path: issue.detail for issue in caught.value.issues}
    assert details["config.position_dacey"].endswith("did you mean position_decay?")
    assert sum("did you mean" in detail for detail in details.values()) == 16


def test_values_at_the_edge():
    """They are allowed; the rewards there are in test_scorer_extreme_settings.py."""
    edges = ("min_coverage", 0), ("min_coverage", 1), ("max_mean_words", 1), ("position_decay", 5e-324)
    for name, value in (*edges, ("quantity_error_factor", 5e-324), ("quantity_error_factor", 1)):
        assert getattr(Scorer(**{name: value}).settings, name) == value
    for name in ("max_steps", "max_response_bytes"):
        assert getattr(Scorer(**{name: 1}).settings, name) == 1
        for value in (2**62, 2**63 - 1, 2**63, 10**30):
            scorer = Scorer(**{name: value})
            assert scorer.score([answer()], [{"steps": ONE_STEP}]).rewards.tolist() == [1.0]
            assert scorer.config_id != Scorer().config_id
    for scorer in (
        Scorer(min_coverage=-0.0),
        Scorer().with_overrides({"min_coverage": np.float64(-0.0)}),
        Scorer(ScoreSettings.model_validate_strings({"min_coverage": "-1e-999"})),
        Scorer(ScoreSettings.model_validate_json('{"min_coverage": -0.0}')),
    ):
        assert scorer.config_id == Scorer(min_coverage=0.0).config_id
        assert '"min_coverage":0.0' in scorer.settings.model_dump_json()


def test_digest_and_signature_name_the_configuration():
    default, scorers = Scorer(), [Scorer(**{name: value}) for name, value in OTHER.items()]
    for same in (Scorer(**DEFAULTS), Scorer(ScoreSettings()), Scorer(max_mean_words=30, use_order=True)):
        assert (same.config_id, same.signature) == (default.config_id, default.signature)
    assert len({scorer.config_id for scorer in [default, *scorers]}) == len(OTHER) + 1
    assert len({scorer.signature for scorer in [default, *scorers]}) == len(OTHER) + 1
    assert Scorer(**dict(reversed(OTHER.items()))).config_id == Scorer(**OTHER).config_id
    assert Scorer(**OTHER).with_overrides(DEFAULTS).config_id == default.config_id
    script = "from assay import ScoreSettings; print(ScoreSettings().config_id)"  # in a process with other hashes
    assert printed(script) == f"{default.config_id}\n"
    start = f"SCORE|rules:{RULES_VERSION}|order:strict|semantics:sum|total:product|reward:unit|coverage:0.95"
    assert default.signature == f"{start}|v:{__version__}"
    changed = Scorer(order="lcs", reward_scale="raw", min_coverage=1, use_order=False, max_mean_words=12.5).signature
    changed_start = start.replace("strict", "lcs").replace("unit", "raw").replace("0.95", "1")
    assert changed == f"{changed_start}|max_mean_words:12.5|use_order:false|v:{__version__}"
    both = Scorer(coverage="words", min_coverage=0.9).signature
    assert both == f"{start.replace('0.95', '0.9')}|coverage_by:words|v:{__version__}"


@given(settings)
@examples(60)
def test_largest_score(overrides):
    validated = Scorer(**overrides).settings
    assert validated.model_dump() == DEFAULTS | overrides
    assert validated.largest_score == largest_score(DEFAULTS | overrides)


def test_overrides_build_on_the_scorer_and_never_raise_limits():
    scorer = Scorer(order="lcs", reward_scale="raw", max_steps=10, max_response_bytes=1000, threads=1)
    other = scorer.with_overrides({"reward_scale": "double", "max_steps": 10, "max_response_bytes": 999})
    changed = (other.settings.order, other.settings.reward_scale, other.settings.max_response_bytes, other.threads)
    assert changed == ("lcs", "double", 999, 1)
    assert scorer.settings.reward_scale == "raw"
    assert scorer.with_overrides({}) is scorer
    for overrides in ({"max_steps": 11}, {"max_steps": 2**70}, {"max_steps": 11, "order": {1, 2}}):
        assert issues_of(lambda: scorer.with_overrides(overrides))["config.max_steps"] == "over_limit"  # noqa: B023
    assert Scorer(scorer.settings, max_steps=11).settings.max_steps == 11
    with pytest.raises(Exception, match="frozen"):
        scorer.settings.order = "strict"
    assert repr(Scorer()) == "Scorer()"
    assert repr(Scorer(order="lcs", min_coverage=0.9, total="product")) == "Scorer(order='lcs', min_coverage=0.9)"
