"""`assay score` on a request document: the reply of the service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay import Scorer
from assay.service.rewards.registry import TASK_COMPONENTS
from examples import rollouts as generator
from tests.cases.mixed import OPTIONS, ROWS, columns
from tests.command_line import KEY_LINE, REFERENCE, RESPONSE, read_rows


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_the_reply_is_that_of_the_service(call, tmp_path: Path, example_rollouts) -> None:
    request = generator.as_request(example_rollouts)
    asked = {**request, "config": {"order": "lcs"}, "include": ["components"]}
    source, target = write(tmp_path / "in.json", asked), tmp_path / "out.json"
    assert call("score", source, "-o", target, "--include", "advantages", "--reward-scale", "raw").exit_code == 0
    scorer = Scorer(order="lcs", reward_scale="raw")
    scores = scorer.score(request["responses"], request["references"], request["reference_index"])
    assert json.loads(target.read_bytes()) == {
        "rewards": scores.rewards.tolist(),
        "reasons": scores.reasons.tolist(),
        "components": {name: column.tolist() for name, column in scores.components.items()},
        "advantages": scores.advantages().tolist(),
        "config_id": scorer.config_id,
        "signature": scorer.signature,
    }


def test_rows_of_a_request(call, tmp_path: Path) -> None:
    request = {"references": [REFERENCE, KEY_LINE], "responses": [RESPONSE, "x", "y"], "reference_index": [1, 0, 1]}
    source, target = write(tmp_path / "in.json", request), tmp_path / "out.jsonl"
    assert call("score", source, "-o", target, "--include", "advantages").exit_code == 0
    first, second, third = read_rows(target)
    assert first.pop("advantage") == -third.pop("advantage") > 0
    assert first == {"response": RESPONSE, "reference": KEY_LINE, "reward": 1.0, "reason": "ok"}
    assert second.pop("advantage") == 0
    assert second == {"response": "x", "reference": REFERENCE, "reward": 0.0, "reason": "missing_sections"}
    assert third == {"response": "y", "reference": KEY_LINE, "reward": 0.0, "reason": "missing_sections"}


def test_configs_of_a_request(call, tmp_path: Path, example_rollouts) -> None:
    request = generator.as_request(example_rollouts)
    source, target = write(tmp_path / "in.json", request | {"configs": [{"order": "lcs"}]}), tmp_path / "out.json"
    assert call("score", source, "-o", target).exit_code == 0
    found = json.loads(target.read_bytes())["configs"]
    assert [each["rewards"] for each in found] == [Scorer(order="lcs").score(**request).rewards.tolist()]
    result = call("score", source, "-o", tmp_path / "out.jsonl")
    assert result.exit_code == 1
    assert "configs: rows have the results of one configuration" in result.stderr


def test_every_validation_error_is_listed(call, tmp_path: Path) -> None:
    request = {"references": [KEY_LINE, "", "no"], "responses": ["x", 5, "y"]}
    request |= {"config": {"ordre": 1}, "surplus": 0}
    source = write(tmp_path / "in.json", request)
    for target, read in (
        (tmp_path / "out.json", lambda path: json.loads(path.read_bytes())),
        (tmp_path / "out.jsonl", lambda path: read_rows(path)[0]),
    ):
        result = call("score", source, "-o", target)
        assert result.exit_code == 1
        document = read(target)
        paths = [error["path"] for error in document["errors"]]
        assert sorted(paths) == sorted(["references[1]", "references[2]", "responses[1]", "config.ordre", "surplus"])
        assert document["error_count"] == len(paths)
        for path in paths:
            assert f"{source}: {path}: " in result.stderr


def test_an_object_that_is_not_a_request(call, tmp_path: Path) -> None:
    source, target = write(tmp_path / "in.json", {"rows": []}), tmp_path / "out.json"
    result = call("score", source, "-o", target)
    assert result.exit_code == 1
    assert {error["path"] for error in json.loads(target.read_bytes())["errors"]} == {"rows", "references", "responses"}


@pytest.mark.parametrize("ending", ["json", "jsonl", "parquet"])
def test_tasks_and_groups_are_those_of_the_service(call, tmp_path: Path, ending: str) -> None:
    """The reply is that to the request; other formats have a row for each response."""
    request = {**columns(), "config": OPTIONS, "include": ["components", "advantages"]}
    request["groups"] = [2**100 + group if isinstance(group, int) else group for group in request["groups"]]
    source, target = write(tmp_path / "in.json", request), tmp_path / f"out.{ending}"
    page = tmp_path / "report.html"
    if ending == "parquet":
        pytest.importorskip("pyarrow")
        request["groups"] = [str(group) for group in request["groups"]]
        write(source, request)
    result = call("score", source, "-o", target, "--report", page)
    assert result.exit_code == 0, result.stderr
    assert f"{sum(row.task != 'score' for row in ROWS)} rows of other tasks" in page.read_text()
    options = {name: value for name, value in OPTIONS.items() if name != "order"}
    named = {name: request[name] for name in ("reference_index", "groups", "task")}
    scores = Scorer(order="lcs").score(request["responses"], request["references"], task_options=options, **named)
    if ending == "json":
        reply = json.loads(target.read_bytes())
        assert reply["rewards"] == scores.rewards.tolist() == [row.reward for row in ROWS]
        assert reply["components"] == {name: column.tolist() for name, column in scores.components.items()}
        assert reply["advantages"] == scores.advantages().tolist()
        return
    if ending == "jsonl":
        found = read_rows(target)
    else:
        from tests.files.any_format import read

        found = read(target, TASK_COMPONENTS)
    assert [row["reward"] for row in found] == scores.rewards.tolist()
    assert [row["advantage"] for row in found] == scores.advantages().tolist()
    assert [row["components"] for row in found] == [
        {name: column[k] for name, column in scores.components.items()} for k in range(len(ROWS))
    ]
    assert [(row["task"], row["group"]) for row in found] == list(zip(request["task"], request["groups"], strict=True))


def test_every_error_of_a_mixed_request_is_listed(call, tmp_path: Path) -> None:
    request = {"references": [KEY_LINE, 5], "responses": ["x", "y"], "task": ["score", "bioprobench.ord"]}
    source, target = write(tmp_path / "in.json", request), tmp_path / "out.json"
    assert call("score", source, "-o", target).exit_code == 1
    (error,) = json.loads(target.read_bytes())["errors"]
    assert error["path"] == "references[1]"
    assert error["detail"].startswith("bioprobench.ord: ")
    write(source, {**request, "task": ["score", "bioprobench.odr"]})
    result = call("score", source, "-o", target)
    assert result.exit_code == 1
    assert "task[1]: must be one of" in result.stderr
