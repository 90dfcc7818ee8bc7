"""SCORE's evaluation metrics: the textbook twins, and any content of texts."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.errors import InvalidRequest
from assay.service.tasks import evaluate
from assay.service.tasks.evaluation import task_named
from tests.conftest import ROOT
from tests.reference.protocol_metrics import adherence, paper_metrics, predicted_steps
from tests.reference.scorer import UnreadableReferenceError, parse_reference
from tests.reference.thoth_metrics import thoth_metrics
from tests.reference.words import words
from tests.strategies import (
    answers,
    batches,
    damaged_answers,
    doubtful_references,
    examples,
    protocols,
    rollouts,
    texts,
)

NAMES = ("step_m", "order_s", "order_lcs", "order_tau", "semantic_a", "mean_obj", "mean_par", "mean_position")
TOLERANCE = 1e-9
STEP = '{"action": "add", "objects": ["pbs"], "parameters": ["5 ml"]}'


def told(key: str, orc: str = "") -> str:
    return f"<think>t</think><key>{key}</key><orc>{orc}</orc><note>n</note>"


def measured(response, reference, **options) -> dict[str, float]:
    result = evaluate("score", [{"response": response, "reference": reference}], **options)
    return {name: float(column[0]) for name, column in result.per_record.items()}


def off(numbers: dict[str, float], expected: dict[str, float]) -> dict[str, tuple[float, float]]:
    return {k: (numbers[k], v) for k, v in expected.items() if not abs(numbers[k] - v) <= TOLERANCE}


def test_elements_that_are_no_strings_are_left_out_in_profile_thoth():
    """A number among the elements is one element less; a number in their place is a fault of the whole record."""
    mixed = STEP.replace('["pbs"]', '[5, "pbs", null, ["x"]]').replace('["5 ml"]', '[7, "5 ml", true]')
    measures = measured(told(f"Step 1: {mixed}"), told(f"Step 1: {STEP}"), profile="thoth")
    assert measures == dict.fromkeys(NAMES, 1.0) | {"order_tau": 0.0, "semantic_a": 1.5}
    for text in (STEP.replace('["pbs"]', "5"), STEP.replace('["5 ml"]', "5"), STEP.replace('"add"', "5")):
        measures = measured(told(f"Step 1: {text}"), told(f"Step 1: {STEP}"), profile="thoth")
        assert measures == dict.fromkeys(NAMES, 0.0)


@given(batches())
@examples(80)
def test_paper_profile_is_its_twin(batch):
    responses, references, index = batch
    records = [{"response": text, "reference": references[k]} for text, k in zip(responses, index, strict=True)]
    result = evaluate("score", records)
    parsed = [parse_reference(reference) for reference in references]
    for row, (response, k) in enumerate(zip(responses, index, strict=True)):
        numbers = {name: float(column[row]) for name, column in result.per_record.items()}
        assert off(numbers, paper_metrics(predicted_steps(response), parsed[k])) == {}
    levels = result.groups if result.groups else evaluate("score", records, by=["level"]).groups["level"]
    assert levels == [str(1 if len(parsed[k]) < 4 else 2) for k in index]


@given(rollouts(), st.lists(st.sampled_from(["add", "Spin", "centrifuge", "wash twice", "µ", "—"]), max_size=4))
@examples(80)
def test_adherence_is_its_twin(rollout, extra):
    response, reference = rollout
    expected = parse_reference(reference)
    library = [" ".join(step.action) for step in expected[::2]] + extra
    record = {"response": response, "reference": reference, "action_new": library}
    result = evaluate("score", [record], metrics=["outside_library", "distractors_taken"])
    allowed = {tuple(words(action)) for action in library} - {()}
    wanted = adherence(predicted_steps(response), expected, allowed) if allowed else None
    numbers = [float(column[0]) for column in result.per_record.values()]
    assert numbers == pytest.approx([math.nan] * 2 if wanted is None else list(wanted), nan_ok=True)


LINES = [
    *(f"Step 1: {STEP}", f"step  2 :{STEP} ", f" Step 3: {STEP}", f"Step ١: {STEP}", "Step 4: {}"),
    *('Step 5: {"action": "Mix "}', 'Step 6: {"action": null, "objects": []}', "Step 10: " + "[" * 200),
    'Step 7: {"action": "mix", "objects": "PBS", "parameters": {"a b": 1, " ": 2}}',
    'Step 8: {"action": "mix", "objects": [1, null, " Tube "], "parameters": [NaN]}',
    'Step 9: {"action": "mix", "objects": 5}',
    *("\u2028", "\x85", "<key>", "</key>\u00a0<orc>", "<think>x</think>\u00a0<key>", "</orc> <note></note>"),
    "µl ΜG ",
]
LOOSE = st.one_of(
    protocols.flatmap(answers),
    protocols.flatmap(damaged_answers),
    st.lists(st.one_of(st.sampled_from(LINES), texts), max_size=8).map("\n".join),
)


@given(LOOSE, LOOSE)
@examples(200)
def test_thoth_profile_is_its_twin(response, reference):
    measures = measured(response, reference, profile="thoth")
    assert off(measures, thoth_metrics(response, reference)) == {}


@given(doubtful_references, LOOSE)
@examples(80)
def test_an_unreadable_reference_fails_its_record_alone(reference, response):
    good = {"response": told(f"Step 1: {STEP}"), "reference": f"Step 1: {STEP}"}
    result = evaluate("score", [good, {"response": response, "reference": reference}, good], by=["level"])
    try:
        parse_reference(reference)
        reason = None
    except UnreadableReferenceError as error:
        reason = error.reason
    assert [(f.record, f.reason, f.of_response) for f in result.failed] == ([(1, reason, False)] if reason else [])
    for column in result.per_record.values():
        assert np.isnan(column).tolist() == [False, reason is not None, False]
    assert result.aggregate["count"] == 3
    assert set(result.by["level"]) == {"1"} | ({"unknown"} if reason else {result.groups["level"][1]})
    assert all(task_named("score").failures[f.reason] for f in result.failed)


def test_gates_and_numbers_do_not_matter_and_what_cannot_be_read_has_no_steps():
    reference = f"Step 1: {STEP}\nStep 2: {STEP}"
    expected = dict.fromkeys(NAMES, 1.0) | {"semantic_a": 1.5}
    assert measured(told(f"Step 7: {STEP}\nStep 7: {STEP}"), reference) == expected
    assert measured(told(f"Step 1: {STEP}\nStep 2: {STEP}", "nothing of it"), reference) == expected
    nothing = dict.fromkeys(NAMES, 0.0)
    for response in ("", "Step 1: {}", told(""), told("Step 1: {]"), told(f"Step 1: {STEP}\nx"), "x" * 262_145):
        assert measured(response, f"Step 1: {STEP}") == nothing
    assert measured(told("\n".join(f"Step {k}: {STEP}" for k in range(1_025))), f"Step 1: {STEP}") == nothing


def test_the_profiles_part_where_the_page_says():
    """Position after a miss, numbers of lines, an empty object, the reading of a reference."""
    mix, spin = STEP.replace("add", "mix"), STEP.replace("add", "spin")
    reference = f"Step 1: {STEP}\nStep 2: {spin}"
    after_a_miss = told(f"Step 1: {STEP}\nStep 2: {mix}\nStep 3: {spin}")
    assert measured(after_a_miss, reference)["order_tau"] == 1.0
    assert measured(after_a_miss, reference, profile="thoth")["order_tau"] == 0.0
    with_a_line = told(f"Step 1: {STEP}\nsome words\nStep 2: {spin}")
    assert measured(with_a_line, reference)["order_s"] == 0.0
    assert measured(with_a_line, reference, profile="thoth") == {
        **dict.fromkeys(NAMES, 1.0),
        "step_m": 0.0,
        "semantic_a": 1.5,
    }
    assert measured(f"Step 1: {STEP}\nStep 2: {{}}\nStep 3: {spin}", reference, profile="thoth")["order_s"] == 1.0
    assert measured("nothing", "no reference either", profile="thoth") == {
        **dict.fromkeys(NAMES, 0.0),
        "step_m": 1.0,
        "order_s": 1.0,
        "order_lcs": 1.0,
    }


def test_thoth_is_bounded():
    result = evaluate("score", [{"response": "x" * 1_000_001, "reference": "y"}], profile="thoth")
    assert [failure.reason for failure in result.failed] == ["too_long"]
    many = "\n".join(f'Step {k}: {{"action": "a{k % 7}"}}' for k in range(20_000))
    assert measured(many, many, profile="thoth")["order_lcs"] == 1.0


def test_references_as_steps_and_as_published_records():
    steps = {"steps": [json.loads(STEP)]}
    response = told(f"Step 1: {STEP}")
    for profile in ("paper", "thoth"):
        assert measured(response, steps, profile=profile)["semantic_a"] == 1.5
        (column,) = evaluate(
            "score", [{"response": response, "key": f"Step 1: {STEP}\n"}], profile=profile, metrics=["semantic_a"]
        ).per_record.values()
        assert column.tolist() == [1.5]
        failed = evaluate("score", [{"response": response, "reference": {"steps": []}}], profile=profile).failed
        assert [failure.reason for failure in failed] == ["no_steps"]
        unopened = response.removeprefix("<think>"), f"Step 1: {STEP}"
        assert measured(*unopened, profile=profile)["semantic_a"] == 0.0
        assert measured(*unopened, profile=profile, think_prefilled=True)["semantic_a"] == 1.5


def test_groups():
    four = "\n".join(f"Step {k}: {STEP}" for k in range(4))
    good, bad = told(f"Step 1: {STEP}"), "nothing"
    records = [
        {"response": good, "reference": f"Step 1: {STEP}", "type": "safety"},
        {"response": bad, "reference": f"Step 1: {STEP}", "type": "planning"},
        {"response": bad, "reference": four, "type": "planning", "level": 1},
        {"response": bad, "reference": four, "type": None},
    ]
    by = evaluate("score", records, by=["type", "level", "field"]).by
    assert {value: group["count"] for value, group in by["type"].items()} == {"planning": 2, "safety": 1, "unknown": 1}
    assert {value: group["count"] for value, group in by["level"].items()} == {"1": 3, "2": 1}
    assert {value: group["count"] for value, group in by["field"].items()} == {"unknown": 4}
    assert by["type"]["safety"]["order_s"] == 1.0
    assert by["level"]["1"]["step_m"] == pytest.approx(1 / 3)
    nothing = evaluate("score", [], by=["level"])
    assert (nothing.aggregate, nothing.by) == ({"count": 0, **dict.fromkeys(NAMES)}, {"level": {}})


def test_wrong_calls_are_refused():
    with pytest.raises(InvalidRequest, match=r"options.metrics\[1\]"):
        evaluate("score", [], metrics=["step_m", "step_n"])
    with pytest.raises(InvalidRequest, match="must be one of: score"):
        evaluate("scores", [])
    with pytest.raises(InvalidRequest, match="a list of records"):
        evaluate("score", "records")


def test_importing_it_is_quick():
    """The dependencies of a task are loaded when it is used."""
    code = "import sys, assay.service.tasks; print(*sys.modules); assay.service.tasks.TASKS; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    bare, with_tasks = map(str.split, shown.stdout.splitlines())
    assert not {"numpy", "pydantic", "orjson"} & set(bare)
    assert not {"numba", "fastapi", "nltk", "sacrebleu", "torch", "pyarrow"} & set(with_tasks)
