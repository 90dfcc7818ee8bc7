"""The text of an explanation: within the width of a terminal, with the contents of the steps."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from assay import Scorer
from assay.service.explain import suggestions
from assay.service.explain.explanation import explain
from assay.service.explain.terminal import _columns, as_text
from assay.service.wording import format_reward, format_reward_change
from tests.cases import answer, told
from tests.cases.writing import step
from tests.command_line import ROOT
from tests.explain.recomputing import LABORATORY

WASH = step("wash", "HEK293 cells|adherent fibroblasts", "5000 µl of ice-cold PBS|three times")
STAIN = step("染色", "緩衝液|抗体溶液", "室温で三十分間振とうしながら|1:50")
MINE = [step("harvest", "HEK293 cells", "300 x g"), WASH, STAIN, step("discard", "supernatant")]
THEIRS = [step("harvest", "HEK293 cells", "300 x g"), WASH | {"parameters": ["5 ml of ice-cold PBS", "three times"]}]
THEIRS += [STAIN | {"objects": ["緩衝液", "二次抗体"]}, step("image", "cells " * 30)]
LONG = told([step("add " * 40, "x" * 200, "5 min")])


def shown(response: str, width: int | None = 80, **settings: str) -> str:
    return as_text(explain(Scorer(**settings), response, {"steps": THEIRS}), width)


@pytest.mark.parametrize("width", [60, 72, 80, 100])
@pytest.mark.parametrize("response", [told(MINE), told(MINE[::-1]), LONG, answer("- x"), "染色" * 99], ids=range(5))
def test_no_line_is_wider_than_the_terminal(response, width):
    text = click.unstyle(shown(response, width, order="lcs", reward_scale="shift"))
    assert max(map(_columns, text.split("\n"))) <= width


def test_steps_are_shown_with_what_differs():
    text = click.unstyle(shown(told(MINE)))
    part = text.partition("Steps of the response ─ steps of the reference\n")[2].partition("\n\n")[0]
    assert part.split("\n") == [
        "    1 ─ 1   harvest: HEK293 cells (300 x g)",
        "            agrees",
        "    2 ─ 2   wash: HEK293 cells, adherent fibroblasts (5000 µl of ice-cold PBS,…",
        "            Obj 1.0000  Par 0.5556  m 1.0000  → 1.2778",
        "            parameters −5 ml of ice-cold PBS",
        "                       +5000 µl of ice-cold PBS",
        "    3 ─ 3   染色: 緩衝液, 抗体溶液 (室温で三十分間振とうしながら, 1:50)",
        "            Obj 0.3333  Par 0.0000  m 1.0000  → 0.3333",
        "            objects    −二次抗体",
        "                       +抗体溶液",
        "    4 ─ ·   discard: supernatant",
        "            not in the reference",
        "    · ─ 4   image: cells cells cells cells cells cells cells cells cells cells…",
        "            not in the response",
    ]
    hint = (
        "5000 μl is 5 ml: numbers and units are compared as written; parameter_similarity = quantities would count it."
    )
    assert f" Hints step 2 {hint} " in " ".join(text.split())


def test_terms_that_are_equal_are_shown():
    mine = [step("add", "pbs", "500 µl|for 5 min"), step("spin", "tube", "60 s")]
    theirs = [step("add", "pbs", "0.5 ml|for 3 min"), step("spin", "tube", "1 min")]
    explanation = explain(Scorer(parameter_similarity="quantities"), told(mine), {"steps": theirs})
    text = click.unstyle(as_text(explanation, 80))
    part = text.partition("Steps of the response ─ steps of the reference\n")[2].partition("\n\n")[0]
    assert part.split("\n") == [
        "    1 ─ 1   add: pbs (500 µl, for 5 min)",
        "            Obj 1.0000  Par 0.5000  m 1.0000  → 1.2500",
        "            parameters 500 μl = 0.5 ml",
        "                       −for 3 min",
        "                       +for 5 min",
        "            quantities write 3 min instead of 5 min",
        "    2 ─ 2   spin: tube (60 s)",
        "            agrees",
        "            parameters 60 s = 1 min",
    ]


def test_alternatives_and_numbers_of_the_prose_are_shown():
    steps = [step("add", "pbs", "5 ml"), step("spin", "tube", "60 s")]
    response = told(steps, " at 4 °C")
    reference = {"any_of": [{"steps": steps[::-1]}, {"steps": steps}]}
    text = click.unstyle(as_text(explain(Scorer(max_added_numbers=1), response, reference), 80))
    assert text.startswith("Reward 0.0000 of at most 1.0000 (alternative 1 of 2): <orc> has 2 numbers of its")
    assert "  ✗ added numbers  2 numbers only in the prose, at most 1\n" in text
    assert "\nNumbers that only the prose has\n  step 1    4\n  step 2    4\n" in text
    text = click.unstyle(as_text(explain(Scorer(max_added_numbers=2), response, reference), 80))
    assert text.startswith("Reward 1.0000 of at most 1.0000 (alternative 2 of 2): no deductions.")
    assert "\nReference: alternative 2 of 2 counts\n     1    0.3879  2 steps\n  ✓  2    1.0000  2 steps\n" in text
    assert "; added numbers: 2 numbers only in the prose, at most 2" in " ".join(text.split())


def test_the_samples_in_the_documentation_are_what_is_printed(monkeypatch, tmp_path):
    page = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    whole, *parts = re.findall(r"```text\n(.*?)\n```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], {})
    rollout = json.loads(Path("rollout.json").read_bytes())
    assert click.unstyle(as_text(explain(Scorer(), **rollout), 80)) == whole
    rollout["response"] = rollout["response"].replace("0.25 ml", "25 ml")
    text = click.unstyle(as_text(explain(Scorer(**LABORATORY), **rollout), 80))
    assert [part in text for part in parts] == [True, True]


def test_where_the_budget_ends_it_is_said(monkeypatch):
    monkeypatch.setattr(suggestions, "MAX_CANDIDATES", 20)
    steps = [step(f"act{k}", f"object {k}") for k in range(6)]
    explanation = explain(Scorer(), told(steps[::-1]), {"steps": steps}, 1)
    assert "(among the 20 edits tried)\n" in click.unstyle(as_text(explanation, 80))
    assert (explanation.tried, explanation.exhaustive) == (20, False)
    monkeypatch.setattr(suggestions, "MAX_CANDIDATE_BYTES", 4000)
    explanation = explain(Scorer(), told(steps[::-1]), {"steps": steps}, 1)
    assert explanation.tried < 20
    assert explanation.exhaustive is False


def test_rewards_have_four_decimals_and_changes_a_sign():
    rewards = {0.6040: "0.6040", 1.0: "1.0000", 0.99998: "0.99998", -1.25: "−1.2500", -0.0: "0.0000"}
    changes = {0.4: "+0.4000", -0.1219: "−0.1219", 0.0: "0.0000", 1e-17: "0.0000", -1e-17: "0.0000", 2e-5: "+0.00002"}
    assert [format_reward(value) for value in rewards] == [*rewards.values()]
    assert [format_reward_change(value) for value in changes] == [*changes.values()]
