"""The README's lines for OpenRLHF and slime, with rows of `assay prepare` and with every form of a label."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.service.cli.main import main
from assay_client import Client
from assay_client.adapters import for_openrlhf, for_slime
from tests.cases.mixed import ORD
from tests.command_line import RUNNER, read_rows
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED, errors_of, problem_of
from tests.http.trainers.trainer_bytes import EOS, NUMBERS, OPENRLHF, PROMPT, SLIME, TASK_NUMBERS, openrlhf
from tests.prepare.test_alternatives import RECORDS as SEVERAL
from tests.prepare.test_alternatives import answer
from tests.trainers.published import RECORDS, write_records

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text("utf-8")
RIGHT = "[ANSWER_START][2, 0, 1][ANSWER_END]"


def address(trainer: str) -> str:
    """Return the path of the URL in the README's line for a trainer."""
    (path,) = re.findall(rf"^\| {trainer} \| `.*http://HOST:8000(\S+?)[ `]", README, re.MULTILINE)
    return path


@pytest.fixture(scope="module")
def prepare(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that prepares files of records for a trainer, and returns the rows."""
    pytest.importorskip("datasketch")

    def prepare(sources: list[Path], trainer: str, *flags: str) -> list[dict[str, Any]]:
        folder = tmp_path_factory.mktemp("rows") / trainer
        options = "--trainer", trainer, "-o", folder, "--test", "0", "--output-format", "jsonl", "-q", *flags
        done = RUNNER.invoke(main, [str(argument) for argument in ("prepare", *sources, *options)], prog_name="assay")
        assert done.exit_code == 0, done.output
        return read_rows(folder / "train.jsonl")

    return prepare


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write records of four tasks; return their paths, and the path of our example."""
    return [*write_records(tmp_path_factory.mktemp("records")), ROOT / "examples" / "grpo_tiny" / "protocols.jsonl"]


def rewards_of(client: Any, trainer: str, rows: list[dict[str, Any]], responses: list[str]) -> list[float]:
    """Return the reward of each row, sent alone as the trainer does, and check that all have the same numbers."""
    rewards, names = [], set()
    for row, response in zip(rows, responses, strict=True):
        if trainer == "openrlhf":
            reply = client.post(address("OpenRLHF"), json=openrlhf([response + EOS], [row["label"]])).json()
            rewards += reply["rewards"]
            names.add(tuple(reply["extra_logs"]))
        else:
            body = {"prompt": row["prompt"], "response": response + EOS, "label": row["label"]}
            reply = client.post(address("slime"), json=body).json()
            rewards.append(reply.pop("reward"))
            names.add(tuple(reply))
    assert len(names) == 1
    return rewards


@pytest.mark.parametrize("trainer", ["openrlhf", "slime"])
def test_prepared_rows_of_four_tasks(client, prepare, records, trainer, monkeypatch):
    answers = prepare(records, trainer, "--stage", "supervised")
    ideal = [(row["output"] if trainer == "openrlhf" else row["messages"])[-1]["content"] for row in answers]
    rows = prepare(records, trainer)
    assert len(rows) > sum(map(len, RECORDS.values()))
    assert {json.loads(row["label"])["task"] for row in rows} > {"score", "bioprobench.ord"}
    assert rewards_of(client, trainer, rows, ideal) == pytest.approx([1.0] * len(rows))
    monkeypatch.setenv("ASSAY_URL", str(client.base_url))
    scores = Client().score(ideal, [row["label"] for row in rows])
    assert scores.rewards == pytest.approx([1.0] * len(rows))
    assert scores.tasks == [json.loads(row["label"])["task"] for row in rows]


@pytest.mark.parametrize("trainer", ["openrlhf", "slime"])
def test_prepared_rows_with_alternatives(client, prepare, tmp_path, trainer):
    source = tmp_path / "several.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in SEVERAL))
    rows = prepare([source], trainer, "--alternatives", "--similarity", "1")
    assert len(rows) == 2
    assert rewards_of(client, trainer, rows, [answer("spin", "add"), answer("grow")]) == [1.0, 1.0]


LABELS: dict[str, tuple[str, Any, bool]] = {
    "steps": (PERFECT, STEPS, False),
    "alternatives": (PERFECT, {"any_of": [STEPS, REFERENCE]}, False),
    "alternatives that are texts of objects": (PERFECT, {"any_of": [json.dumps(STEPS)]}, False),
    "SCORE": (PERFECT, {"task": "score", "reference": REFERENCE}, True),
    "SCORE by null": (PERFECT, {"task": None, "any_of": [REFERENCE], "reference": None, "steps": None}, True),
    "SCORE's steps": (PERFECT, {"task": "score", **STEPS, "id": 7}, True),
    "alternatives in a label": (PERFECT, {"task": "score", "reference": [REFERENCE, json.dumps(STEPS)]}, True),
    "another task": (RIGHT, {"task": "bioprobench.ord", "reference": ORD}, True),
    "another task's record as text": (RIGHT, {"task": "bioprobench.ord", "reference": json.dumps(ORD)}, True),
    "another task's record": (RIGHT, {"task": "bioprobench.ord", **ORD}, True),
}


@pytest.mark.parametrize("written", [lambda label: label, json.dumps, lambda label: f" \n{json.dumps(label)} "])
@pytest.mark.parametrize(("response", "label", "names_task"), LABELS.values(), ids=LABELS)
def test_a_label_as_object_and_as_text(client, monkeypatch, response, label, names_task, written):
    """It names its task to the address, whose URL says nothing, to the functions and to the client alike."""
    monkeypatch.setenv("ASSAY_URL", str(client.base_url))
    written_label, names = written(label), TASK_NUMBERS if names_task else NUMBERS
    reply = client.post(OPENRLHF, json=openrlhf([response + EOS], [written_label])).json()
    assert (reply["rewards"], tuple(reply["extra_logs"])) == ([1.0], names)
    reply = client.post(SLIME, json={"response": response + EOS, "label": written_label}).json()
    assert (reply.pop("reward"), tuple(reply)) == (1.0, names)
    by_function = for_openrlhf.reward_func([PROMPT + response], [PROMPT], [written_label])
    assert (by_function["rewards"], tuple(by_function["extra_logs"])) == ([1.0], names)
    sample = SimpleNamespace(response=response, label=written_label, metadata={}, index=0)
    assert asyncio.run(for_slime.custom_rm(SimpleNamespace(), sample)) == 1.0
    with Client() as assay:
        assert assay.score_one(response, written_label).reward == 1.0
        assert assay.score([response], [written_label]).rewards == [1.0]
    native = client.post("/v1/score", json={"responses": [response], "references": [written_label]})
    assert native.json()["rewards"] == [1.0]


BAD: dict[str, tuple[Any, str, tuple[str, str]]] = {
    "no object": ('{"task": "score", ', "", ("label", "bad_step_line")),
    "an object and more": (json.dumps(STEPS) + "x", "", ("label", "bad_step_line")),
    "a lone surrogate": ('{"steps": ["\\ud800"]}', "", ("label", "bad_step_line")),
    "too deep": ('{"a":' * 1100 + "1" + "}" * 1100, "", ("label", "bad_step_line")),
    "other members": ({"goal": REFERENCE}, "", ("label", "bad_step_schema")),
    "an unknown task": ({"task": "bioprobench.or", "reference": ORD}, "", ("label.task", "unknown_task")),
    "no name of a task": ({"task": 3, "reference": REFERENCE}, "", ("label.task", "wrong_type")),
    "a label in a label": (
        {"task": "score", "reference": {"task": "score", **STEPS}},
        "",
        ("label", "bad_step_schema"),
    ),
    "another task than the URL's": (
        {"task": "bioprobench.pqa", "answer": "5"},
        "?task=bioprobench.err",
        ("label", "other_task"),
    ),
}


@pytest.mark.parametrize(("label", "query", "error"), BAD.values(), ids=BAD)
def test_a_label_that_says_nothing_is_an_error(client, label, query, error):
    text = label if isinstance(label, str) else json.dumps(label)
    for written in {text} | ({label} if isinstance(label, str) else set()):
        problem = problem_of(client.post(SLIME + query, json={"response": SWAPPED, "label": written}), 422)
        assert errors_of(problem)[0] == error
    if not isinstance(label, str):
        problem = problem_of(client.post(SLIME + query, json={"response": SWAPPED, "label": label}), 422)
        assert errors_of(problem)[0] == error
    if error[1] == "bad_step_line":
        assert problem["errors"][0]["detail"] == "it begins with a brace, but is not the text of one JSON object"


def test_labels_of_several_tasks_in_one_request(client):
    labels = [value[1] for value in LABELS.values()]
    responses = [value[0] for value in LABELS.values()]
    both = [*labels, *map(json.dumps, labels)]
    reply = client.post(OPENRLHF, json=openrlhf(responses * 2, both)).json()
    assert reply["rewards"] == [1.0] * len(both)
    assert tuple(reply["extra_logs"]) == TASK_NUMBERS
    config = {"order": "lcs", "bioprobench.ord": {"repeats": "failed"}}
    native = client.post("/v1/score", json={"responses": responses * 2, "references": both, "config": config}).json()
    assert native["rewards"] == [1.0] * len(both)
    more = {"responses": responses, "references": labels, "configs": [{"order": "lcs"}]}
    assert ("configs", "unknown_field") in errors_of(problem_of(client.post("/v1/score", json=more), 422))
