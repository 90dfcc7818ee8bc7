"""A reference as object, as its JSON text and as a list gives the same numbers and the same errors in every face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from assay import ScoringError
from assay.service.cli.main import main
from assay.service.explain.case import case_of
from assay.service.ray.dataset import DatasetScorer
from assay.service.tasks.evaluation import evaluate
from assay.service.wire.problems import Problem
from tests.command_line import RUNNER
from tests.files.any_format import read, write
from tests.http.samples import ADD, PERFECT, REFERENCE, STEPS, SWAPPED
from tests.rewards.faces import SCORER, post_arrow, post_json, reply_of, table_of

OTHER = f"Step 1: {ADD}"
NESTED = json.dumps(STEPS)
GOOD: dict[str, Any] = {
    "steps": STEPS,
    "alternatives": {"any_of": [OTHER, STEPS]},
    "texts of objects as alternatives": {"any_of": [OTHER, NESTED]},
    "a label": {"task": "score", "reference": REFERENCE},
    "a label of alternatives": {"task": None, "reference": [OTHER, REFERENCE]},
    "a label of text of an object": {"task": "score", "reference": json.dumps({"any_of": [OTHER, NESTED]})},
    "a label beside its steps": {"task": "score", **STEPS, "id": "7"},
}
BAD: dict[str, Any] = {
    "other members": {"goal": "5"},
    "no member": {},
    "an alternative without a member": {"any_of": [REFERENCE, "{}"]},
    "no step": {"steps": []},
    "no list of steps": {"steps": "Step 1"},
    "a step that is none": {"steps": ["add"]},
    "a step without fields": {"steps": [STEPS["steps"][0], {}]},
    "no alternative": {"any_of": []},
    "alternatives of alternatives": {"any_of": [{"any_of": [REFERENCE]}]},
    "a bad alternative": {"any_of": [REFERENCE, "prose", NESTED + "x"]},
    "an unknown task": {"task": "scor", "reference": REFERENCE},
    "a label of nothing": {"task": "score", "reference": None},
    "a label of prose": {"task": "score", "reference": "prose"},
}
TEXTS = ["{", '{"steps": [', NESTED + NESTED, f"{{{PERFECT}", "{'steps': []}"]


def as_json(reference: Any) -> Any:
    request = {"responses": [PERFECT, SWAPPED], "references": [reference], "include": ["components", "steps"]}
    try:
        reply = reply_of(post_json(request))
    except Problem as problem:
        return list(map(tuple, problem.issues))
    return reply["rewards"], reply["alternative"], reply["steps"]


def as_arrow(reference: Any, index: Any = None) -> Any:
    column = pa.array([reference, reference] if index is None else [reference])
    if index is not None:
        column = pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), column)
    try:
        reply = table_of(post_arrow({"response": [PERFECT, SWAPPED], "reference": column}, ["components", "steps"]))
    except Problem as problem:
        return list(map(tuple, problem.issues))
    return [reply[name].to_pylist() for name in ("reward", "alternative", "steps")]


def in_process(reference: Any) -> Any:
    try:
        scores = SCORER.score([PERFECT, SWAPPED], [reference], steps=True)
    except ScoringError as error:
        return list(map(tuple, error.issues))
    assert scores.steps is not None
    assert scores.alternative is not None
    return scores.rewards.tolist(), scores.alternative.tolist(), list(scores.steps)


def same(values: Any, expected: Any) -> bool:
    return list(map(list, values)) == list(map(list, expected))


@pytest.mark.parametrize("reference", GOOD.values(), ids=GOOD)
def test_numbers(reference: Any, tmp_path: Path) -> None:
    expected = in_process(reference)
    assert expected[0][0] == 1.0
    forms = [reference, json.dumps(reference), f"\n {json.dumps(reference, indent=2)}\r\n"]
    forms += [reference["any_of"]] if "any_of" in reference else []
    for form in forms:
        assert same(in_process(form), expected)
        assert same(as_json(form), expected)
        assert case_of(SCORER, PERFECT, form).reward == 1.0
        rows = [{"response": text, "reference": form} for text in (PERFECT, SWAPPED)]
        for source in ("jsonl", "parquet"):
            if source == "parquet" and not isinstance(form, str):
                continue
            path, out = write(tmp_path / f"in.{source}", rows), tmp_path / "out.jsonl"
            done = RUNNER.invoke(main, ["score", str(path), "-o", str(out), "--include", "steps", "-q"])
            assert done.exit_code == 0, done.output
            scored_rows = read(out, ())
            assert same([[row[name] for row in scored_rows] for name in ("reward", "alternative", "steps")], expected)
    for text in forms[1:3]:
        assert same(as_arrow(text), expected)
        assert same(as_arrow(text, [0, 0]), expected)
        table = pa.table({"response": [PERFECT, SWAPPED], "reference": [text] * 2})
        scored = DatasetScorer("response", "reference", (None, None), False, 1, {}, True)(table)
        assert scored["reward"].to_pylist() == expected[0]


@pytest.mark.parametrize("reference", BAD.values(), ids=BAD)
def test_errors(reference: Any) -> None:
    expected = in_process(reference)
    assert all(path.startswith("references[0]") for path, _, _ in expected)
    text = json.dumps(reference)
    for issues in (in_process(text), as_json(reference), as_json(text), as_arrow(text), as_arrow(text, [0, 0])):
        assert issues == expected


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_is_no_object(text: str) -> None:
    """Whatever follows the brace, even a whole answer."""
    error = "bad_step_line", "it begins with a brace, but is not the text of one JSON object"
    for issues in (in_process(text), as_json(text), as_arrow(text), as_arrow(text, [0, 0])):
        assert issues == [("references[0]", *error)]
    for issues in (in_process([REFERENCE, text]), as_json([REFERENCE, text]), as_arrow([REFERENCE, text])):
        assert issues == [("references[0].any_of[1]", *error)]
    many = [REFERENCE] * 200
    many[150] = text
    with pytest.raises(ScoringError) as caught:
        SCORER.score([PERFECT] * 200, many)
    assert list(map(tuple, caught.value.issues)) == [("references[150]", *error)]


def test_many_references_with_some_labels_between() -> None:
    references = [REFERENCE, *GOOD.values(), *map(json.dumps, GOOD.values())] * 12
    expected = [1.0] * len(references)
    assert SCORER.score([PERFECT] * len(references), references).rewards.tolist() == expected
    request = {"responses": [PERFECT] * len(references), "references": references}
    assert post_json(request).scores.rewards.tolist() == expected


def test_evaluations_read_text_of_steps() -> None:
    for profile in ("paper", "thoth"):
        for reference in (STEPS, NESTED, {"task": "score", "reference": REFERENCE}):
            done = evaluate("score", [{"response": PERFECT, "reference": reference}], profile=profile)
            assert done.aggregate["order_s"] == 1.0
            assert done.aggregate["step_m"] == 1.0
