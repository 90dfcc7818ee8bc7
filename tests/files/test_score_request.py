"""`assay score` on a request document: the reply of the service."""

from __future__ import annotations

import json
from pathlib import Path

from assay import Scorer
from examples import rollouts as generator
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
