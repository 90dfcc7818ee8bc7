"""Suggestions are changes that were made: rescoring their response gives what they promise."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer
from assay.kernels.compiler import JIT
from assay.service.explain.alignment import common_path
from tests.cases import answer, told
from tests.cases.writing import ORC, step
from tests.explain.recomputing import LABORATORY, explained
from tests.reference.lcs import lcs_length
from tests.strategies import examples, rollouts

R = [step("harvest", "cells"), step("wash", "cells", "pbs"), step("lyse", "cells", "5 min"), step("spin", "lysate")]
REFERENCE = {"steps": R}


def suggested(response: str, settings: dict | None = None, most: int = 5) -> list[dict]:
    """Return the suggestions, each checked by rescoring."""
    settings = settings or {}
    document = explained(response, REFERENCE, settings, most)
    for suggestion in document["suggestions"]:
        assert_promise_kept(document, suggestion, response, REFERENCE, settings)
    assert len(document["suggestions"]) <= most
    gains = [suggestion["gain"] for suggestion in document["suggestions"]]
    assert gains == sorted(gains, reverse=True)
    return document["suggestions"]


def assert_promise_kept(document: dict, suggestion: dict, response: str, reference: object, settings: dict) -> None:
    changed = response if suggestion["response"] is None else suggestion["response"]
    scores = Scorer(**settings | suggestion["config"]).score([changed], [reference])
    assert scores.rewards[0] == suggestion["reward"]
    assert suggestion["reward"] - document["reward"] == suggestion["gain"]
    assert scores.reasons[0] == suggestion["reason"]
    after = {name: column[0] for name, column in scores.components.items()}
    before = document["components"]
    listed = [(change["name"], change["before"], change["after"]) for change in suggestion["changes"]]
    assert listed == [(name, before[name], after[name]) for name in before if before[name] != after[name]]
    assert suggestion["gain"] > 0 or (suggestion["kind"] in ("mend", "skeleton") and suggestion["gain"] == 0)


GEL = [step("shake", "gel")] * 9


@pytest.mark.parametrize(
    ("response", "kind", "changed", "taken"),
    [
        (told([R[0], R[2], R[1], R[3]]), "swap_steps", [2, 3], []),
        (told([*R, step("store", "lysate")]), "drop_step", [5], []),
        (told(R[:2] + R[3:]), "add_step", [], [3]),
        (told([*R[:3], step("spin", "pellet")]), "use_objects", [4], [4]),
        (told([*R[:2], step("lyse", "cells", "9 h"), R[3]]), "use_parameters", [3], [3]),
        (told([*R[:2], step("break", "cells", "5 min"), R[3]]), "use_action", [3], [3]),
        (told([R[3], *R[:3]]), "move_step", [1], [4]),
        (told(R, " so" * 40), "shorten_prose", [1, 2, 3, 4], []),
        (told([R[0], *GEL]), "replace_steps", [*range(2, 11)], [2, 3, 4]),
    ],
)
def test_the_change_that_was_made_is_the_one_to_take_back(response, kind, changed, taken):
    best = suggested(response)[0]
    assert (best["kind"], best["steps"], best["reference_steps"], best["reward"]) == (kind, changed, taken, 1.0)
    if kind == "swap_steps":
        assert best["text"].startswith("Swap steps 2 and 3: order 0.0000 → 1.0000, ")


GOOD = told(R)


DAMAGED = {
    "no <think>": GOOD.replace("<think>", ""),
    "no think at all": GOOD.replace("<think>t</think>\n", ""),
    "no </think>": GOOD.replace("</think>", ""),
    "no <orc>": GOOD.replace("<orc>", ""),
    "no note": GOOD.partition("<note>")[0],
    "no </note>": GOOD.partition("</note>")[0],
    "words between": GOOD.replace("<key>", "so: <key>"),
    "no </orc>": GOOD.replace("</orc>", ""),
    "cut off": GOOD.partition("</orc>")[0],
    "key number": GOOD.replace("Step 2", "Step 7", 1),
    "orc number": GOOD[::-1].replace("2 petS", "7 petS", 1)[::-1],
    "prose of a step": GOOD.replace("\nStep 4: spin and lysate", ""),
    "words": GOOD.replace("spin and lysate", "see above"),
    "a line too many": GOOD.replace("\n</key>", "\n- done\n</key>"),
    "prose too much": GOOD.replace("\n</orc>", "\nStep 5: done\n</orc>"),
}


def test_failed_gates_are_repaired():
    unrepaired = {}
    for name, damaged in DAMAGED.items():
        best = next((suggestion for suggestion in suggested(damaged) if suggestion["kind"] == "mend"), None)
        if best is None or (best["reason"], best["reward"]) != ("ok", 1.0):
            unrepaired[name] = best
    assert unrepaired == {}


def test_the_setting_is_suggested_where_the_prompt_has_opened_think():
    suggestions = suggested(GOOD.removeprefix("<think>"))
    setting = next(suggestion for suggestion in suggestions if suggestion["kind"] == "setting")
    assert (setting["config"], setting["response"], setting["reward"]) == ({"think_prefilled": True}, None, 1.0)


@pytest.mark.parametrize("response", ["", "…", answer(""), answer("nonsense", ORC), "x" * 300_000])
def test_what_cannot_be_repaired_has_no_suggestion(response):
    assert suggested(response) == []


def test_nothing_is_suggested_for_the_best_reward_nor_where_none_is_wanted():
    assert suggested(GOOD) == []
    assert suggested(told(R[::-1]), most=0) == []
    assert len(suggested(told(R[::-1]), most=1)) == 1


@given(rollouts(), st.sampled_from([{}, LABORATORY, LABORATORY | {"max_added_words": 10**6}]))
@examples(60)
def test_promises_are_kept(rollout, settings):
    response, reference = rollout
    document = explained(response, reference, settings, 20)
    for suggestion in document["suggestions"]:
        assert_promise_kept(document, suggestion, response, reference, settings)


@given(st.text("abc", max_size=40), st.text("abcd", max_size=40))
@examples(200)
def test_common_path(a, b):
    path = common_path(a, b)
    assert [a[i] for i, _ in path] == [b[j] for _, j in path]
    assert all(p[0] < q[0] and p[1] < q[1] for p, q in pairwise(path))
    assert len(path) == lcs_length(a, b)


def test_time_is_bounded():
    """The largest response that a service accepts by default: the limit of bytes leaves few candidates."""
    most = 1024 if JIT else 24
    lines = [
        json.dumps({"action": f"act{k % 7}", "objects": [f"o{k}" * 8], "parameters": ["5 min"]}) for k in range(most)
    ]
    key = "\n".join(f"Step {k}: {line}" for k, line in enumerate(lines, 1))
    orc = "\n".join(f"Step {k}: {line}" for k, line in enumerate(lines, 1))
    started = time.perf_counter()
    document = explained(answer(key, orc), "\n".join(key.split("\n")[::-1]), {"length_penalty": "relative"}, 20)
    assert document["suggestions"]
    assert time.perf_counter() - started < 60


def test_suggested_responses_over_the_limit_are_left_out():
    long = told([R[0], R[2], R[1], R[3]]).replace("<think>t", "<think>" + "t" * 70_000)
    best = explained(long, REFERENCE, {}, 1)["suggestions"][0]
    assert best["response"] is None
    assert best["reward"] == 1.0
