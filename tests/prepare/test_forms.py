"""Records of every published form are read by their fields; whatever prevents that is a fault."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.research.prepare.examples import Example, PrepareOptions, key_lines_of, read_example
from assay.research.prepare.prompts import messages_of
from assay.research.prepare.split import with_ids
from assay.service.explain.reading import ReadStep
from assay.service.records.rows.fields import prompt_of
from assay.service.records.rows.rows import Fault, Location, RowPlace
from assay.service.records.rows.shapes import EXAMPLES, FORMS, SHAPES, TASKS
from assay.service.rewards.batch import Batch
from assay.service.rewards.registry import REWARD_TASKS, SCORE, reward_of
from assay.service.scoring.references import ReferenceTexts
from assay.service.tasks.scirecipe_records import library_of, without_instructions
from tests.prepare.published import (
    ANSWER,
    ASKED,
    CHAT,
    ERR,
    EVAL,
    EVERY,
    GEN,
    KEY,
    LAB,
    LIBRARY,
    ORD,
    OWN,
    PQA,
    PROGRAM,
    PROTOCOL,
    QUESTION,
    RIGHT,
    RL,
    ROW,
    SFT,
    STEPS,
    STRUCTURED,
    SYSTEM,
    TEXT,
    TRAIN,
)

PLACE = RowPlace("data/demo.jsonl", Location("line", 3))
GRPO = PrepareOptions()
KNOWLEDGE = PrepareOptions(stage="knowledge")
READ_STEPS = tuple(ReadStep(step["action"], tuple(step["objects"]), tuple(step["parameters"])) for step in STEPS)


def example(record: Any, options: PrepareOptions = GRPO) -> Example:
    found = read_example(record, PLACE, options)
    assert isinstance(found, Example), found
    return found


def fault(record: Any, options: PrepareOptions = GRPO) -> Fault:
    found = read_example(record, PLACE, options)
    assert isinstance(found, Fault), found
    return found


# SciRecipe


@pytest.mark.parametrize("record", [TRAIN, EVAL, RL, SFT, CHAT], ids=["train", "eval", "rl", "sft", "chat"])
def test_every_shape_of_scirecipe_gives_the_same_question_and_steps(record: dict[str, Any]) -> None:
    found = example(record)
    assert (found.dataset, found.task, found.level) == ("scirecipe", "score", "1")
    assert (found.question, found.reference, found.answer) == (QUESTION, KEY, ANSWER)
    assert found.steps == READ_STEPS
    assert found.record is record


def test_sections_may_be_in_their_tags_beside_columns_that_are_null() -> None:
    tagged = {name: f"\n<{name}>\n{TRAIN[name]}\n</{name.upper()}> " for name in ("think", "key", "orc", "note")}
    nulls = dict.fromkeys(["reference", "steps", "task", "choices", "is_correct", "text", "system"])
    assert example({**nulls, **TRAIN, **tagged}).replaced(record={}) == example(TRAIN).replaced(record={})
    names = {"Planning": "planning", " overview_qa": "overview", "specific_step_qa": "specific", "mine": "mine"}
    assert {name: example({**TRAIN, "type": name}).type for name in names} == names
    assert example({**TRAIN, "type": ["planning"]}).type is None


def test_what_only_some_shapes_have() -> None:
    rl = ("weigh", "dissolve", "pour")
    system, asked = {"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}
    for record, name, kind, library, prompt in (
        (TRAIN, "", None, None, None),  # `with_ids` gives it an id
        (EVAL, "7", "planning", ("dissolve", "pour", "weigh"), None),
        (RL, "", None, rl, (system, {**asked, "content": RL["query"]})),
        (SFT, "", None, None, (system, {**asked, "content": ASKED})),
        (CHAT, "", None, rl, tuple(CHAT["messages"][:2])),
        ({**TRAIN, "system": SYSTEM}, "", None, None, (system, asked)),
    ):
        found = example(record)
        assert (found.id, found.type, found.library, found.prompt) == (name, kind, library, prompt)
        assert found.has_distractors == (record is EVAL)
    assert prompt_of(TRAIN) == QUESTION
    assert library_of({"exp_goal": f"{QUESTION} {LIBRARY}"}) == library_of({"query": f"{'İ' * 9} {LIBRARY}"}) == rl
    rollout = example({"query": QUESTION, "reference": KEY, "response": ANSWER})
    assert (rollout.dataset, rollout.answer) == ("rows", None)  # its answer is not a published one


INSTRUCTED = {
    f"{ASKED} {LIBRARY}": QUESTION,
    f"{ASKED}\n{LIBRARY}": QUESTION,
    f"{LIBRARY} {QUESTION}": QUESTION,
    f"  {QUESTION}\n": QUESTION,
    LIBRARY.upper(): "",
    f"A. {LIBRARY} B. {LIBRARY}": f"A. {LIBRARY} B.",
}


def test_instructions_are_removed_from_a_question() -> None:
    assert {prompt: without_instructions(prompt) for prompt in INSTRUCTED} == INSTRUCTED


# Benchmarks


def test_pqa_and_ord() -> None:
    steps = {name: ORD[name] for name in ("wrong_steps", "correct_steps")}
    for record, task, kind, reference in (
        (PQA, "bioprobench.pqa", "parameter", {"answer": "100"}),
        (ORD, "bioprobench.ord", "top", steps),
    ):
        found = example(record)
        assert (found.dataset, found.task, found.type, found.level) == (task, task, kind, None)
        assert (found.question, found.reference, found.id) == (record["question"], reference, record["id"])


@pytest.mark.parametrize(
    ("record", "truth", "step"),
    [(ERR, False, "Melt the agarose on ice."), (RIGHT, True, "Melt the agarose in a microwave.")],
)
@pytest.mark.parametrize("task", [None, "bioprobench.err", "bioprobench.rea_err"])
def test_err_and_rea_err(record: dict[str, Any], truth: bool, step: str, task: str | None) -> None:
    found = example(record, PrepareOptions(task=task))
    assert (found.dataset, found.task) == (task or "bioprobench.err", "bioprobench.err")
    assert (found.reference, found.question) == ({"is_correct": truth}, step)


@pytest.mark.parametrize("task", [None, "lexical", "bioprobench.gen"])
def test_gen(task: str | None) -> None:
    found = example(GEN, PrepareOptions(task=task))
    assert (found.dataset, found.task, found.type, found.level) == ("bioprobench.gen", "lexical", None, "easy")
    assert found.reference == {"reference": "1. Weigh.\n2. Melt.\n3. Pour."}
    assert found.question == "How is a gel made?"
    assert found.prompt == (
        {"role": "system", "content": "You know gels."},
        {"role": "user", "content": "List the steps.\n\nHow is a gel made?"},
    )


def test_bioprot() -> None:
    found = example(PROTOCOL)
    assert (found.dataset, found.task, found.id) == ("bioprot", "bioplanner", "12")
    assert (found.reference, found.question) == ({"ground_truth": PROGRAM}, "Agarose gel\n\nA gel of 1 %.")
    assert found.text == f"Agarose gel\n\nA gel of 1 %.\n\n{PROTOCOL['steps']}"
    described = example({**PROTOCOL, "ai_generated_description": "Pours a gel."})
    assert described.question == "Agarose gel\n\nPours a gel."
    asked = messages_of(found, None)[1]["content"]
    assert asked.startswith("Title: Agarose gel\n\nA gel of 1 %.\n\nFunctions:\n")
    generated = example({**PROTOCOL, "edited_pseudocode": None})
    assert generated.reference == {"ground_truth": PROTOCOL["generated_pseudocode"]}


def test_protocol_qa_is_a_question_of_pqa() -> None:
    found = example(LAB)
    assert (found.dataset, found.task, found.type, found.id) == (
        "labbench.protocolqa",
        "bioprobench.pqa",
        "troubleshooting",
        "b0a1",
    )
    assert found.reference == {"answer": LAB["ideal"]}
    assert found.question == f"{LAB['question']}\n\nProtocol:\n{LAB['protocol']}"
    choices = found.record["choices"]
    assert sorted(choices) == sorted([LAB["ideal"], *LAB["distractors"]])
    reordered = {**LAB, "distractors": LAB["distractors"][::-1]}
    assert (
        example(reordered).record["choices"]
        == choices
        == example(LAB, PrepareOptions(task="bioprobench.pqa")).record["choices"]
    )
    places = {example({**LAB, "id": f"q{number}"}).record["choices"].index(LAB["ideal"]) for number in range(40)}
    assert places == {0, 1, 2, 3}
    assert "CANARY" not in repr(found)
    assert all(choice in messages_of(found, None)[1]["content"] for choice in choices)


# Records of one's own


def test_steps_of_ones_own() -> None:
    found = example({**OWN, "type": "Scaling"})
    assert (found.dataset, found.task, found.type, found.question) == ("rows", "score", "scaling", QUESTION)
    assert (found.steps, found.prompt, found.answer) == (READ_STEPS, None, None)
    assert example({"title": QUESTION, "reference": {"steps": STEPS}}).steps == READ_STEPS
    assert key_lines_of(found.reference) == (found.reference, READ_STEPS)
    named = [{**STEPS[0], "action": action} for action in ("mix", "Mix.", "mix", "dry", "spin down", "wash")]
    for steps, by_steps, by_actions in ((named[:3], "1", "1"), (named[:5], "2", "1"), (named, "2", "2")):
        record = {"goal": QUESTION, "steps": steps, "level": "9"}
        assert example(record).level == by_steps
        assert example(record, PrepareOptions(levels="actions")).level == by_actions
    found = example(TEXT, KNOWLEDGE)
    assert (found.dataset, found.text, found.reference) == ("text", TEXT["text"], None)


def test_rows_of_other_tasks() -> None:
    found = example(ROW)
    assert (found.dataset, found.task, found.reference) == ("rows", "bioprobench.err", {"is_correct": False})
    assert (found.question, found.prompt) == ("Right or wrong?", tuple(ROW["prompt"]))
    as_text = json.dumps({"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"], "note": "x" * 1000})
    found = example({"prompt": "Sort: b, a", "task": "bioprobench.ord", "reference": as_text})
    assert found.reference == {"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]}
    found = example({"prompt": "How?", "task": "lexical", "reference": "Like this.", "type": "A", "level": 3})
    assert (found.reference, found.type, found.level) == ({"reference": "Like this."}, "a", "3")


# Faults


NEAREST = "the fields are of no known form; of the nearest, "
FAULTS: list[tuple[Any, str, str]] = [
    ([1], "not_an_object", ""),
    ({}, "unknown_form", "the fields are of no known form: there are none"),
    ({"gel": 1, "id": 2}, "unknown_form", "the fields are of no known form: 'gel', 'id'"),
    ({"question": "Q", "choices": ["a"]}, "unknown_form", f"{NEAREST}bioprobench.pqa needs 'answer'"),
    ({"text": None, "wrong_steps": ["b"], "is_correct": True}, "unknown_form", f"{NEAREST}bioprobench.err needs 'corr"),
    ({"title": "T", "steps": None, "generated_pseudocode": "f()"}, "unknown_form", f"{NEAREST}bioprot needs 'steps'"),
    (TEXT, "no_question", "--stage knowledge"),
    ({**TRAIN, "key": 'Step 1: {"action": "weigh"}'}, "bad_step_schema", "reference: line 1: "),
    ({**TRAIN, "key": ""}, "no_steps", "reference: it has no step"),
    ({**OWN, "steps": []}, "no_steps", "reference: "),
    ({**OWN, "goal": " "}, "missing_field", ""),
    ({"query": LIBRARY, "reference": KEY}, "missing_field", ""),
    ({"query": "Q", "response": "no sections"}, "missing_field", "'reference', 'key' or 'steps', and no answer"),
    ({**ROW, "task": "chess"}, "unknown_task", ""),
    ({**ROW, "reference": "perhaps"}, "bad_reference", "reference of bioprobench.err: "),
    ({**ROW, "prompt": []}, "missing_field", ""),
    ({**PQA, "answer": "7"}, "bad_reference", "'answer'"),
    ({**LAB, "distractors": None, "files": "lab/1"}, "no_choices", "the answer is open"),
    ({**LAB, "protocol": ""}, "wrong_type", "'protocol'"),
    ({**LAB, "distractors": [1]}, "wrong_type", "'distractors'"),
    ({**LAB, "distractors": [LAB["ideal"]]}, "bad_reference", "twice"),
    ({**LAB, "protocol": "Mix. CANARY c4f9"}, "canary", "'canary'"),
    ({**ORD, "correct_steps": ["Weigh.", "Sleep."]}, "bad_reference", "reference of bioprobench.ord: "),
    ({**ERR, "is_correct": "no"}, "bad_reference", "reference of bioprobench.err: is_correct: "),
    ({**ERR, "corrupted_text": None}, "wrong_type", "'corrupted_text'"),
    ({**ERR, "context": "none"}, "wrong_type", "'context'"),
    ({**GEN, "output": ["", " "]}, "bad_reference", "'output'"),
    ({**PROTOCOL, "title": ""}, "wrong_type", "'title'"),
]


def test_faults_name_what_is_wrong() -> None:
    for record, reason, detail in FAULTS:
        found = fault(record)
        assert (found.reason, detail in found.detail) == (reason, True), found


@pytest.mark.parametrize("form", FORMS)
def test_the_example_of_a_form_is_of_it(form: str) -> None:
    stage = "knowledge" if form in ("text", "protocol") else "grpo"
    assert example(json.loads(EXAMPLES[form]), PrepareOptions(stage=stage)).dataset == form
    assert [*EXAMPLES] == [*FORMS]


# Properties

NAMES = sorted(
    {name for groups in SHAPES.values() for group in groups for name in group}
    | {n for r in (*EVERY, *STRUCTURED) for n in r}
)
PARTS = [part for record in (*EVERY, *STRUCTURED) for part in record.values()]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS | st.sampled_from(PARTS) | st.sampled_from([*TASKS, KEY, ANSWER, LIBRARY]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=3),
    max_leaves=5,
)
RECORDS = st.one_of(
    st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), VALUES, max_size=6),
    st.builds(
        lambda record, changed: {**record, **changed},
        st.sampled_from([*EVERY, *STRUCTURED]),
        st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3),
    ),
    VALUES,
)
OPTIONS = st.builds(
    PrepareOptions, task=st.none() | st.sampled_from(TASKS), stage=st.sampled_from(["knowledge", "supervised", "grpo"])
)


@given(RECORDS, OPTIONS)
def test_any_record_is_an_example_or_a_fault(record: Any, options: PrepareOptions) -> None:
    found = read_example(record, PLACE, options)
    if isinstance(found, Fault):
        assert found.reason.isidentifier()
        assert found.detail
        return
    assert found.dataset in FORMS
    assert found.task in REWARD_TASKS
    assert with_ids([found])[0].id.strip()
    assert found.record is record or found.dataset == "labbench.protocolqa"
    if options.stage == "knowledge" and found.reference is None:
        assert found.text is not None
        return
    assert found.question.strip()
    if found.task == SCORE:
        assert key_lines_of(found.reference) == (found.reference, found.steps)
    else:
        assert reward_of(found.task).read_references(Batch(references=ReferenceTexts([found.reference]))) == [
            found.reference
        ]
