"""Settings at their least and greatest values, one by one, in pairs and all at once: every reward is finite."""

from __future__ import annotations

import random
import sys
from itertools import combinations, product
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer, ScoreSettings
from assay.service.settings import NULLABLE
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED
from tests.strategies import examples, references, responses

TINY, HUGE = 5e-324, sys.float_info.max
LIMITS = ("max_response_bytes", "max_steps")
"""Settings that a request can only lower."""

TEXTS = [
    *(PERFECT, SWAPPED, "", "nothing", PERFECT.replace("5 ml of lysis buffer", "it"), PERFECT + " " * 300_000),
    PERFECT.replace("Spin the tube.", "Spin the tube " + "well " * 20_000 + "."),
    PERFECT.replace("Step 2: Spin the tube.", "\n".join(f"Step {k}: Spin." for k in range(2, 1_500))),
]
PLAIN = [REFERENCE, "\n".join(REFERENCE.splitlines()[:1])]


def extremes(name: str) -> list[Any]:
    """Return the least and the greatest values that a setting allows, and all of a choice."""
    field = ScoreSettings.model_fields[name]
    if get_origin(field.annotation) is Literal:
        return list(get_args(field.annotation))
    if field.annotation is bool:
        return [False, True]
    bounds = {key: getattr(entry, key) for entry in field.metadata for key in ("ge", "gt", "le") if hasattr(entry, key)}
    if name in NULLABLE:
        return [None, bounds["ge"], 2**63 - 1]
    if field.annotation is int:
        return [bounds["ge"], bounds.get("le", 2**63 - 1), bounds.get("le", 2**200)]
    return [float(bounds.get("ge", TINY)), float(bounds.get("le", HUGE))]


EXTREMES = {name: extremes(name) for name in ScoreSettings.model_fields}


def check(settings: dict[str, Any], texts: list[str] = TEXTS, references_: list[Any] = PLAIN) -> None:
    """Score texts under some settings; raise AssertionError unless every number is finite."""
    scorer = Scorer(**settings)
    index = [k % len(references_) for k in range(2 * len(texts))]
    scores = scorer.score(texts * 2, references_, index)
    numbers = [scores.rewards, scores.advantages(), *scores.components.values()]
    assert all(np.isfinite(column).all() for column in numbers), settings
    largest = scorer.settings.largest_score
    limits = {"unit": (0, 1), "raw": (0, largest), "double": (0, 2 * largest), "shift": (-largest, largest)}
    low, high = limits[scorer.settings.reward_scale]
    assert ((scores.rewards >= low - 1e-9) & (scores.rewards <= high + 1e-9)).all(), (settings, scores.rewards)


@pytest.mark.attack
@pytest.mark.parametrize("name", EXTREMES)
def test_one_setting_at_its_extremes(name: str) -> None:
    """A setting at the ends of its range, with texts that are short, long, perfect and empty."""
    assert len(EXTREMES[name]) >= 2
    for value in EXTREMES[name]:
        check({name: value})


@pytest.mark.attack
def test_two_settings_at_their_extremes() -> None:
    """Pairs of settings at the ends of their ranges, a sample of them."""
    pairs = [
        {first: value, second: other}
        for first, second in combinations(EXTREMES, 2)
        for value, other in product(EXTREMES[first], EXTREMES[second])
    ]
    for settings in random.Random(5).sample(pairs, 120):
        check(settings)


@pytest.mark.attack
@given(
    st.fixed_dictionaries({name: st.sampled_from(values) for name, values in EXTREMES.items()}),
    st.lists(responses, min_size=1, max_size=4),
    references,
)
@examples(60)
def test_all_settings_at_their_extremes(settings: dict[str, Any], texts: list[str], reference: Any) -> None:
    """Every setting at one of the ends of its range at once, for any texts and for those above."""
    check(settings)
    check(settings, texts, [reference])


@pytest.mark.attack
def test_a_request_with_extreme_settings_is_answered(client: Any) -> None:
    """Configurations with all settings at the ends of their ranges, over HTTP, many in one request."""
    draw = random.Random(6)
    for _ in range(30):
        drawn = [{name: draw.choice(values) for name, values in EXTREMES.items()} for _ in range(8)]
        for settings in drawn:
            settings.update(
                {name: 1 if draw.random() < 0.1 else ScoreSettings.model_fields[name].default for name in LIMITS}
            )
        body = {"responses": TEXTS[:5], "references": [STEPS], "configs": drawn, "include": ["components"]}
        reply = client.post("/v1/score", json=body)
        if reply.status_code == 422:  # STEPS have more than one step
            assert {error["reason"] for error in reply.json()["errors"]} <= {"too_many_steps", "too_long"}, reply.text
            continue
        assert reply.status_code == 200, reply.text
        for scores in reply.json()["configs"]:
            columns = [scores["rewards"], *scores["components"].values()]
            assert all(type(number) in (int, float) for column in columns for number in column)
