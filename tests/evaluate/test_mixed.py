"""Batches of several tasks: each row gets the bits that it gets alone, in the order of the batch."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from assay import InvalidReference, InvalidRequest, InvalidSetting, Scorer, Scores
from assay.kernels.rules import REASONS
from assay.service.rewards.batch import Batch
from assay.service.rewards.batch_tasks import set_options, split_config
from assay.service.rewards.registry import REWARD_TASKS, REWARDS, TASK_COMPONENTS, identity_of, reward_of
from assay.service.tasks.evaluation import every_task
from tests.cases.mixed import OPTIONS, ROWS, Row, columns
from tests.conftest import ROOT

SETTINGS, TASK_OPTIONS = split_config(OPTIONS)
SCORER = Scorer(**SETTINGS)


def score(rows: list[Row]) -> Scores:
    return SCORER.score(**columns(rows), task_options=TASK_OPTIONS)


def bits(scores: Scores) -> list[tuple[Any, ...]]:
    """Return every number of every row, with all of its components."""
    named = [scores.components.get(name, np.zeros(len(scores))).tolist() for name in TASK_COMPONENTS]
    return list(zip(scores.rewards.tolist(), scores.reasons.tolist(), scores.passed.tolist(), *named, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_rows_get_the_same_bits_in_any_mix_as_alone(seed):
    rows = random.Random(seed).sample(ROWS, len(ROWS))
    found = score(rows)
    assert [(row.reward, row.reason, row.passed) for row in rows] == [one[:3] for one in bits(found)]
    assert found.tasks.tolist() == [row.task for row in rows]
    for name in REWARD_TASKS:
        places = [k for k, row in enumerate(rows) if row.task == name]
        given = columns([rows[k] for k in places])
        given.pop("task"), given.pop("groups")
        alone = SCORER.score(**given, task=name, task_options=TASK_OPTIONS.get(name))
        assert alone.is_score == (name == "score")
        assert bits(alone) == [bits(found)[k] for k in places]
        assert alone.task_codes.tolist() == [REWARD_TASKS.index(name)] * len(places)


@pytest.mark.parametrize(
    ("changed", "error", "issues"),
    [
        ({"groups": ["a", None, 1.0]}, InvalidRequest, [("groups[1]", "wrong_type"), ("groups[2]", "wrong_type")]),
        ({"groups": ["a", True, 1]}, InvalidRequest, [("groups[1]", "wrong_type")]),
        ({"groups": ["a"]}, InvalidRequest, [("groups", "wrong_length")]),
        ({"groups": "abc"}, InvalidRequest, [("groups", "wrong_type")]),
        ({"task": ["score", "scor", None]}, InvalidRequest, [("task[1]", "unknown_task"), ("task[2]", "wrong_type")]),
        ({"task": ["score"]}, InvalidRequest, [("task", "wrong_length")]),
        ({"task": "bioprobench.gen"}, InvalidRequest, [("task", "unknown_task")]),
        ({"task": None}, InvalidRequest, [("task", "wrong_type")]),
        (
            {"task_options": {"bioprobench.ord": {"repeat": "last"}, "lexical": 1}},
            InvalidSetting,
            [("config.bioprobench.ord.repeat", "unknown_setting"), ("config.lexical", "wrong_type")],
        ),
        (
            {"references": ["Step 1: add", {"answer": "1"}, "x = 1"]},
            InvalidReference,
            [("references[0]", "bad_step_line"), *((f"references[{k}]", "bad_reference") for k in (1, 2))],
        ),
        (
            {"reference_index": [0, 1, 1]},
            InvalidReference,
            [("references[1]", "bad_reference"), ("references[2]", "unused_reference")],
        ),
    ],
)
def test_errors_name_every_row(changed, error, issues):
    tasks = ["score", "bioprobench.ord", "bioplanner"]
    given = {"task": tasks, "references": [ROWS[0].reference, ROWS[3].reference, "f()"]}
    with pytest.raises(error) as caught:
        Scorer().score(**{"responses": ["a", "b", "c"], **given, **changed})
    assert [(issue.path, issue.reason) for issue in caught.value.issues] == issues
    if error is InvalidReference and "references" in changed:
        assert [issue.detail.partition(": ")[0] for issue in caught.value.issues] == tasks


def test_a_reference_of_two_tasks_and_one_of_no_row_are_errors():
    with pytest.raises(InvalidReference) as caught:
        Scorer().score(["", ""], ["x = 1"], task=["score", "bioplanner"])
    issues = [(issue.path, issue.detail.partition(": ")[0]) for issue in caught.value.issues]
    assert issues == [("references[0]", "score"), ("references[0]", "bioplanner")]
    with pytest.raises(InvalidReference):
        Scorer().score([], ["x"], task="bioprobench.ord")
    empty = Scorer().score([], [], task=[])
    assert (len(empty), tuple(empty.components), empty.reasons.tolist()) == (0, TASK_COMPONENTS, [])


def test_tasks_and_their_numbers():
    tasks = {task.name: task for task in every_task() if task.name == "score" or task.reward is not None}
    assert tasks.keys() == set(REWARD_TASKS)
    of_others = dict.fromkeys(name for task in REWARD_TASKS for name in tasks[task].components)
    assert (*Scorer().score([], [], []).components, *of_others) == TASK_COMPONENTS
    assert tuple(REWARDS[0].reasons) == REASONS
    assert [reward.number for reward in REWARDS] == list(range(len(REWARDS)))
    page = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    for number, name in enumerate(REWARD_TASKS):
        reasons = list(reward_of(name).reasons)
        numbered = ", ".join(f"{code} `{reason}`" for code, reason in enumerate(reasons))
        assert f"| {number} | `{name}` | {numbered} |\n" in page
        assert reasons[0] == "ok"
        assert "too_long" in reasons
        assert reward_of(name).passed_if
        assert set(reward_of(name).passed_if) <= set(TASK_COMPONENTS)


def test_identity_depends_on_the_configuration_alone():
    def identity(scorer: Scorer, options: dict[str, Any]) -> dict[str, str]:
        batch = Batch(task=None, configurations={"config": scorer.columns})
        set_options(batch, options)
        return identity_of(batch)

    default, changed = identity(SCORER, {}), identity(SCORER, TASK_OPTIONS)
    assert default["config_id"] != changed["config_id"] != identity(Scorer(), {})["config_id"]
    assert default == identity(SCORER, {"bioprobench.ord": {"repeats": "last"}})
    assert "|bioprobench.ord.repeats:failed|" in changed["signature"]
    assert changed["signature"].startswith("SCORE|")
