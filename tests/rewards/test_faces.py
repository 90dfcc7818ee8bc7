"""Any batch of any tasks gets the same rewards, or the same issues, from `Scorer.score`, as JSON and as Arrow."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from assay import Scores, ScoringError
from assay.service.rewards.registry import REWARD_TASKS
from assay.service.wire.json_codec import Answer
from assay.service.wire.problems import Problem
from tests.cases.mixed import ROWS
from tests.http.samples import STEPS
from tests.rewards.faces import SCORER, post_arrow, post_json
from tests.strategies import examples

TEXTS = [row.response for row in ROWS if len(row.response) < 1000] + ["", "prose"]
TEXT_REFERENCES = [*sorted({row.reference_text for row in ROWS}), "", "Step 1: add", "f(", "x" * 262_145]
RECORDS = [STEPS, {"steps": []}, {"steps": 5}, {"is_correct": True}, {"answer": 1}, {}, 5, None, []]
NAMES = [*REWARD_TASKS, "scor", "bioprobench.gen"]
OPTIONS = {
    "bioprobench.ord": [{"repeats": "failed"}, {"repeat": 1}, {"repeats": "x"}, {"metrics": []}],
    "lexical": [{"reward": "rouge_l"}, {"reward": 5, "more": 1}, 5],
}


def some_batch(random: Random) -> dict[str, Any]:
    """Return the fields of a request, most of them valid: those of text alone, in a third of all batches."""
    text_only, spoiled = random.random() < 0.4, random.random() < 0.4

    def spoil(value: Any, *others: Any) -> Any:
        return random.choice(others) if spoiled and random.random() < 0.15 else value

    n = random.randrange(6)
    batch: dict[str, Any] = {
        "references": [spoil(random.choice(ROWS).reference_text, *TEXT_REFERENCES) for _ in range(random.randrange(5))],
        "responses": [random.choice(TEXTS) for _ in range(n)],
    }
    m = len(batch["references"])
    names = [random.choice(REWARD_TASKS) for _ in range(n)]
    if m and (text_only or random.random() < 0.7):
        batch["reference_index"] = [random.randrange(m) for _ in range(n)]
    if random.random() < 0.7:
        batch["task"] = [spoil(name, *NAMES) for name in names]
    elif random.random() < 0.7:
        names = [random.choice(REWARD_TASKS)] * n
        batch["task"] = spoil(names[0] if n else "score", *NAMES)
    else:
        names = ["score"] * n
    if random.random() < 0.8:  # references that suit their tasks
        rows = [random.choice([row for row in ROWS if row.task == name]) for name in names]
        batch |= {"references": [spoil(row.reference_text, *TEXT_REFERENCES) for row in rows]}
        batch["reference_index"] = list(range(n))
    if random.random() < 0.5:
        batch["groups"] = [random.choice("ab") for _ in range(n)]
    if not text_only:
        batch["references"] = [spoil(item, *TEXT_REFERENCES, *RECORDS) for item in batch["references"]]
        batch["responses"] = [spoil(item, 5, None, ["a"]) for item in batch["responses"]]
        for name, others in (("reference_index", (99, -1, "0", 1.5, True, None)), ("groups", (1, None, 1.5, True, []))):
            if name in batch:
                batch[name] = spoil([spoil(entry, *others) for entry in batch[name]], batch[name][1:], [0] * 7)
        if isinstance(batch.get("task"), list):
            batch["task"] = spoil([spoil(name, None, 5, ["score"]) for name in batch["task"]], ["score"] * 7)
    batch["config"] = some_options(random, batch.get("task", "score"), spoil)
    return batch


def some_options(random: Random, task: Any, spoil: Any) -> dict[str, Any]:
    if not isinstance(task, list):
        invalid = [{"more": 1}] if task == "score" else [{"more": 1}, {"by": []}, {"repeats": "failed"}]
        return spoil(OPTIONS.get(task, [{}])[0], *invalid)
    chosen = {name: spoil(several[0], *several) for name, several in OPTIONS.items() if random.random() < 0.5}
    return spoil(chosen, chosen | {"ordr": 1})


def in_process(batch: dict[str, Any]) -> Any:
    columns = {name: value for name, value in batch.items() if name not in ("config", "include")}
    try:
        return bits(SCORER.score(**columns, task_options=batch["config"]))
    except ScoringError as error:
        return issues(error)


def as_json(batch: dict[str, Any], include: list[str]) -> Any:
    return over_http(lambda: post_json(batch | {"include": include}))


def as_arrow(batch: dict[str, Any], include: list[str]) -> Any:
    """Send a batch of texts alone, whose references are a dictionary."""
    index = pa.array(batch.get("reference_index", []), pa.int32())
    columns = {
        "response": pa.array(batch["responses"], pa.string()),
        "reference": pa.DictionaryArray.from_arrays(index, pa.array(batch["references"], pa.string())),
    }
    if "groups" in batch:
        columns["group"] = pa.array(batch["groups"], pa.string())
    task = batch.get("task", "")
    if isinstance(task, list):
        columns["task"], task = pa.array(task, pa.string()), ""
    return over_http(lambda: post_arrow(columns, include, batch["config"], task))


def over_http(post: Callable[[], Answer]) -> Any:
    try:
        return bits(post().scores)
    except Problem as problem:
        return issues(problem)


def issues(error: Any) -> list[tuple[str, ...]]:
    """Return path and reason of every issue, and the detail of a reference; the task of a stream is in its query."""
    return [
        issue if issue.path.startswith("references[") else (issue.path.removeprefix("query."), issue.reason)
        for issue in error.issues
    ]


def bits(scores: Scores) -> list[Any]:
    assert np.isfinite(scores.measures).all()
    return [scores.rewards.tobytes(), scores.reasons.tolist(), scores.tasks.tolist(), scores.measures.tobytes()]


def is_text(batch: dict[str, Any]) -> bool:
    """Return whether a stream can hold a batch: there are rows, each with a text, a reference and a name."""
    n, index = len(batch["responses"]), batch.get("reference_index", [])
    task = batch.get("task", "score")
    texts = [
        *batch["responses"],
        *batch["references"],
        *batch.get("groups", []),
        *(task if type(task) is list else [task]),
    ]
    fits = all(type(k) is int and 0 <= k < len(batch["references"]) for k in index)
    lengths = {len(index), *(len(batch[name]) for name in ("groups", "task") if type(batch.get(name)) is list)}
    return n > 0 and fits and lengths == {n} and {type(text) for text in texts} <= {str}


@given(st.randoms(use_true_random=False))
@examples(400)
def test_every_face_gives_the_same_rewards_or_the_same_issues(random):
    batch = some_batch(random)
    expected = in_process(batch)
    assert as_json(batch, []) == expected
    if is_text(batch):
        assert as_arrow(batch, []) == expected
        both = ["components", "advantages"]
        with_advantages = as_json(batch, both)
        assert as_arrow(batch, both) == with_advantages
        assert with_advantages in (expected, [("include", "no_group")]) or with_advantages == with_no_group(expected)


def with_no_group(listed: list[Any]) -> list[Any]:
    return [("include", "no_group"), *listed]
