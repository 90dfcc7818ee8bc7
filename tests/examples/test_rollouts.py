"""The generator of example rollouts: the same bytes everywhere, every kind of fault, useful rewards."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path
from statistics import mean

import pytest

from assay.kernels.rules import REASONS
from examples import rollouts
from tests.reference.scorer import parse_reference, score

EXAMPLES = Path(rollouts.__file__).parent
CHECKED_IN = ["--prompts", "4", "--samples", "5", "--seed", "7"]


@pytest.fixture(scope="module")
def many() -> list[dict[str, str]]:
    return list(rollouts.generate(400, 5, seed=0))


@pytest.fixture(scope="module")
def results(many):
    request = rollouts.as_request(many)
    return score(request["responses"], request["references"], request["reference_index"])


def test_checked_in_file_is_what_the_generator_writes(tmp_path):
    written = tmp_path / "rollouts.jsonl"
    subprocess.run([sys.executable, EXAMPLES / "rollouts.py", *CHECKED_IN, "-o", written], check=True)
    assert written.read_bytes() == (EXAMPLES / "rollouts.jsonl").read_bytes()


def test_standard_output():
    command = [sys.executable, EXAMPLES / "rollouts.py", "--prompts", "2", "--samples", "3", "--seed", "5"]
    lines = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\n")
    assert [json.loads(line) for line in lines if line] == list(rollouts.generate(2, 3, 5))


def test_checked_in_rewards_vary(example_rollouts):
    request = rollouts.as_request(example_rollouts)
    found = score(request["responses"], request["references"], request["reference_index"])
    assert len({result["reason"] for result in found}) >= 4
    assert sum(result["reward"] > 0.9 for result in found) >= 3
    assert sum(0 < result["reward"] < 0.9 for result in found) >= 4


def test_groups_depend_on_seed_and_number_only(many):
    assert list(rollouts.generate(3, 5, seed=0)) == many[:15]
    assert [r["response"] for r in rollouts.generate(3, 2, seed=0)] == [
        many[k]["response"] for k in (0, 1, 5, 6, 10, 11)
    ]
    assert list(rollouts.generate(3, 5, seed=1)) != many[:15]


def test_fields(many):
    assert all(list(rollout) == ["id", "prompt", "reference", "response"] for rollout in many)
    assert len({rollout["id"] for rollout in many}) == len(many)


def test_request(many):
    request = rollouts.as_request(many)
    assert list(request) == ["references", "responses", "reference_index"]
    assert len(request["references"]) == len(set(request["references"])) == 400
    for rollout, response, k in zip(many, request["responses"], request["reference_index"], strict=True):
        assert (rollout["response"], rollout["reference"]) == (response, request["references"][k])


def test_every_reason_occurs(results):
    shares = Counter(result["reason"] for result in results)
    assert shares.keys() == set(REASONS)
    assert 0.6 <= shares["ok"] / len(results) <= 0.75


def test_rewards_are_spread(results):
    assert all(math.isfinite(value) for r in results for name, value in r.items() if name != "reason")
    rewards = [result["reward"] for result in results if result["reason"] == "ok"]
    assert sum(reward > 0.99 for reward in rewards) > 0.1 * len(rewards)
    assert sum(0.1 < reward < 0.9 for reward in rewards) > 0.3 * len(rewards)
    assert sum(result["mean_words"] > 30 for result in results) > 0.05 * len(results)
    assert any(0 < result["coverage"] < 0.95 for result in results)


def test_responses_have_the_size_of_real_ones(many):
    assert 1800 <= mean(len(rollout["response"].encode()) for rollout in many) <= 2600


def test_references_are_readable_and_full_marks_for_themselves(many):
    references = list(dict.fromkeys(rollout["reference"] for rollout in many))
    assert all(parse_reference(reference) for reference in references)
    answers = [reference for reference in references if reference.startswith("<think>")]
    assert 0.7 * len(references) < len(answers) < len(references)
    assert {(result["reason"], result["semantics"]) for result in score(answers, answers)} == {("ok", 2.5)}


@pytest.mark.parametrize("template", rollouts.TEMPLATES["protocols"], ids=lambda template: template["name"])
def test_all_steps_of_a_protocol_can_be_written_and_answered_wrongly(template):
    dice = rollouts.Dice(template["name"])
    protocol = rollouts.new_protocol(dice, {**template, "steps": template["steps"].replace("? ", "")})
    assert 4 <= len(protocol.steps) <= 10
    assert len(protocol.think) == 8
    steps = protocol.steps + protocol.extra
    assert all(step.objects and step.aside for step in steps)
    assert all(part.text not in part.wrong for step in steps for part in step.parts)
    assert {step.action for step in protocol.steps} <= rollouts.ANSWERS["synonyms"].keys()
    text = rollouts.written(rollouts.draft(dice, protocol, steps))
    assert "{" not in text.split("<orc>")[1]
    (result,) = score([text], [text])
    assert (result["reason"], result["coverage"], result["content"]) == ("ok", 1, 1.5)
