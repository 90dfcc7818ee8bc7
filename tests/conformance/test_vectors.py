"""The published test vectors: what is in them, and that every way into Assay gives their values."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import Any

import httpx
import pytest

from assay import Scorer, ScoreSettings, evaluate
from assay.kernels.rules import REASONS
from assay.kernels.score import COMPONENTS
from assay.research.conformance import KINDS, Vector, VectorsNotFound, compare, own_answer, read_vectors
from assay.service.settings import RULES_VERSION
from tests.vectors import make

Answers = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def cases() -> list[Vector]:
    return read_vectors()


@pytest.fixture(scope="module")
def generated() -> dict[str, bytes]:
    return make.files()


@pytest.fixture(scope="module")
def scored(cases: list[Vector]) -> list[Vector]:
    """Return the rewards whose references can be read."""
    return [case for case in cases if case.row["kind"] == "score" and "error" not in case.expected]


def check(cases: list[Vector], answers: Answers, exact: bool = False) -> None:
    found = compare(cases, answers, exact)
    assert found.differences == []
    assert found.left_out == {}
    assert found.cases.total() == len(cases) > 20


def by_config(cases: list[Vector]) -> dict[str, list[Vector]]:
    found = defaultdict(list)
    for case in cases:
        found[json.dumps(case.row["config"], sort_keys=True)].append(case)
    return found


def answers_of(cases: list[Vector], rewards: Any, reasons: Any, components: Any) -> Answers:
    return {
        case.id: {
            "reward": float(rewards[k]),
            "reason": str(reasons[k]),
            "components": {name: float(column[k]) for name, column in components.items()},
        }
        for k, case in enumerate(cases)
    }


def test_the_files_are_what_the_twin_gives(generated):
    written = {path.name: path.read_bytes() for path in make.FOLDER.glob("*.json*")}
    assert written.keys() == generated.keys()
    different = [name for name, content in generated.items() if written[name] != content]
    assert different == [], "run `python -m tests.vectors.make` and look at what it changes"


def test_a_value_keeps_until_the_rules_have_another_version(monkeypatch, tmp_path, generated):
    """What `digests.json` remembers is compared by input: neither a new id nor a new case hides a change."""
    known = json.loads(make.DIGESTS.read_bytes())
    rows = {kind: make.read(kind) for kind in KINDS}
    assert known["rules_version"] == RULES_VERSION
    assert known["cases"].keys() == {make.digests_of(kind, row)[0] for kind, cases in rows.items() for row in cases}
    assert make.changed(rows, known) == []
    first = rows["score"][0]
    rows["score"][0] = first | {"id": "score/new/name", "expected": first["expected"] | {"reward": 0.5}}
    rows["words"].append(rows["words"][0] | {"text": "a text that nobody had"})
    assert make.changed(rows, known) == ["score/new/name"]
    assert make.changed(rows, known | {"rules_version": "another"}) == []
    known["cases"][next(iter(known["cases"]))] = "0" * 16
    path = tmp_path / "digests.json"
    path.write_text(json.dumps(known))
    monkeypatch.setattr(make, "DIGESTS", path)
    monkeypatch.setattr(make, "FOLDER", tmp_path)
    monkeypatch.setattr(make, "files", lambda: generated)
    with pytest.raises(SystemExit, match="1 known cases"):
        make.main()
    assert [file.name for file in tmp_path.iterdir()] == ["digests.json"]


def test_they_cover_every_reason_and_every_value_of_every_setting(cases):
    scores = [case for case in cases if case.row["kind"] == "score"]
    assert {case.expected.get("reason") for case in scores} == {*REASONS, None}
    errors = {case.expected["error"] for case in scores if "error" in case.expected}
    assert errors == {"too_long", "no_steps", "bad_step_line", "bad_step_json", "bad_step_schema"}
    given = defaultdict(set)
    for case in scores:
        for name, value in case.row["config"].items():
            given[name].add(value)
    for name, field in ScoreSettings.model_fields.items():
        choices = getattr(field.annotation, "__args__", (True, False) if field.annotation is bool else ())
        assert given[name] >= set(choices), name
        assert given[name] - {field.default}, name
    groups = {case.group for case in cases}
    assert groups >= {"score/coverage", "score/numbering", "score/limits", "evaluate/paper", "evaluate/thoth"}


def test_ids_are_unique_and_long_texts_are_joined(cases):
    assert len({case.id for case in cases}) == len(cases) == 2_221
    (longest,) = [case for case in cases if case.id == "score/limits/characters-at-262144-bytes"]
    assert longest.row["response"] == "µ" * 131_072
    text = "a" + "xy\n" * 1_000 + "b" * 60
    assert make.compact(text) == [["a", 1], ["xy\n", 1_000], ["b", 60]]
    assert make.compact("ab" * 900) == "ab" * 900


def test_assay_one_by_one(cases):
    """Rewards and metrics have the bits of the twin; advantages do not, as their sums are rounded in another order."""
    answers = {case.id: own_answer(case.row) for case in cases}
    check(cases, answers)
    check([case for case in cases if case.row["kind"] != "advantages"], answers, exact=True)


def test_assay_in_batches(scored):
    answers = {}
    for config, some in by_config(scored).items():
        responses, references = [case.row["response"] for case in some], [case.row["reference"] for case in some]
        scores = Scorer(**json.loads(config)).score(responses, references)
        answers |= answers_of(some, scores.rewards, scores.reasons, scores.components)
    check(scored, answers, exact=True)


def test_evaluations_in_batches(cases):
    for profile in ("paper", "thoth"):
        some = [case for case in cases if case.row.get("profile") == profile]
        records = [{name: case.row[name] for name in ("response", "reference")} for case in some]
        result = evaluate("score", records, profile=profile)
        failed = {failure.record: failure.reason for failure in result.failed}
        answers = {
            case.id: {"error": failed[k]}
            if k in failed
            else {"metrics": {name: float(column[k]) for name, column in result.per_record.items()}}
            for k, case in enumerate(some)
        }
        check(some, answers)
        read = [case.expected["metrics"] for case in some if "metrics" in case.expected]
        assert result.aggregate["count"] == len(some) == len(read) + len(failed)
        for name in result.per_record:
            mean = math.fsum(metrics[name] for metrics in read) / len(read)
            assert result.aggregate[name] == pytest.approx(mean, abs=1e-9), name


def test_http(client: httpx.Client, scored):
    answers = {}
    for config, some in by_config(scored).items():
        request = {
            "responses": [case.row["response"] for case in some],
            "references": [case.row["reference"] for case in some],
            "config": json.loads(config),
            "include": ["components"],
        }
        document = client.post("/v1/score", json=request).json()
        assert document["signature"] == ScoreSettings(**request["config"]).signature
        answers |= answers_of(some, document["rewards"], document["reasons"], document["components"])
    check(scored, answers, exact=True)


def test_http_names_what_is_wrong_with_references(client: httpx.Client, cases):
    some = [case for case in cases if case.row["kind"] == "score" and "error" in case.expected]
    assert not any(case.row["config"] for case in some)
    references = [case.row["reference"] for case in some]
    reply = client.post("/v1/score", json={"responses": ["x"], "references": references, "reference_index": [0]})
    assert [(error["path"], error["reason"]) for error in reply.json()["errors"]] == [
        (f"references[{k}]", case.expected["error"]) for k, case in enumerate(some)
    ]


def test_arrow(client: httpx.Client, scored):
    pa = pytest.importorskip("pyarrow")
    some = [case for case in scored if isinstance(case.row["reference"], str) and not case.row["config"]]
    table = pa.table({name: [case.row[name] for case in some] for name in ("response", "reference")})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    media_type = {"content-type": "application/vnd.apache.arrow.stream"}
    reply = client.post("/v1/score?include=components", content=sink.getvalue().to_pybytes(), headers=media_type)
    result = pa.ipc.open_stream(reply.content).read_all()
    components = {name: result[name].to_numpy() for name in COMPONENTS}
    check(some, answers_of(some, result["reward"].to_numpy(), result["reason"].to_pylist(), components), exact=True)


def test_a_wrong_answer_is_found(cases):
    case = cases[0]
    right = {"id": case.id, **case.expected}
    assert compare([case], {case.id: right}).differences == []
    for wrong in ({"reward": math.nan}, {"reason": "no_steps"}, {"components": {"order": 2}}):
        (difference,) = compare([case], {case.id: right | wrong}).differences
        assert difference.id == case.id
        assert difference.field.startswith(*wrong)


def test_the_tolerance(cases):
    case = next(case for case in cases if case.expected.get("reward") == 1)
    for off, exact, passes in [(9e-10, False, True), (1.1e-9, False, False), (0, True, True), (1e-15, True, False)]:
        reward = case.expected["reward"] - off
        found = compare([case], {case.id: {**case.expected, "reward": reward}}, exact)
        assert (found.differences == []) == passes
    for value in (True, None, "1.0", [1.0], 10**400):
        assert compare([case], {case.id: {**case.expected, "reward": value}}).differences
    assert compare([case], {case.id: {**case.expected, "reward": 1}}, exact=True).differences == []


def test_vectors_of_another_version(monkeypatch, tmp_path):
    monkeypatch.setattr("assay.research.conformance.FOLDER", tmp_path)
    with pytest.raises(VectorsNotFound, match=r"score\.jsonl: No such file"):
        read_vectors()
    (tmp_path / "words.jsonl").write_text('{"vectors":"words","rules_version":"0","cases":0}\n')
    with pytest.raises(VectorsNotFound, match="is incomplete, or not for version"):
        read_vectors(["words"])
