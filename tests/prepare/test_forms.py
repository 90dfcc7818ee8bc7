"""Records of every published form are read by their fields; whatever prevents that is a fault."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.research.prepare.examples import Example, Options, key_lines_of, read_example
from assay.research.prepare.prompts import messages_of
from assay.research.prepare.split import with_ids
from assay.service.explain.reading import Step
from assay.service.records.fields import prompt_of
from assay.service.records.forms import FORMS, SHAPES, TASKS
from assay.service.records.rows import Fault, Location, Place
from assay.service.rewards.batch import Batch
from assay.service.rewards.registry import REWARD_TASKS, SCORE, reward_of
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
    SYSTEM,
    TEXT,
    TRAIN,
)

PLACE = Place("data/demo.jsonl", Location("line", 3))
GRPO = Options()
KNOWLEDGE = Options(stage="knowledge")
READ_STEPS = tuple(Step(step["action"], tuple(step["objects"]), tuple(step["parameters"])) for step in STEPS)


def example(record: Any, options: Options = GRPO) -> Example:
    found = read_example(record, PLACE, options)
    assert isinstance(found, Example), found
    return found


def fault(record: Any, options: Options = GRPO) -> Fault:
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


def test_sections_may_be_in_their_tags() -> None:
    tagged = {name: f"\n<{name}>\n{TRAIN[name]}\n</{name.upper()}> " for name in ("think", "key", "orc", "note")}
    assert example({**TRAIN, **tagged}).replaced(record={}) == example(TRAIN).replaced(record={})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Planning", "planning"),
        (" overview_qa", "overview"),
        ("specific_step_qa", "specific"),
        ("mine", "mine"),
        (["planning"], None),
    ],
)
def test_types_have_the_names_of_the_data_set(name: Any, kind: str | None) -> None:
    assert example({**TRAIN, "type": name}).type == kind


def test_the_question_of_a_published_record_is_its_prompt_for_every_command() -> None:
    assert prompt_of(TRAIN) == QUESTION
    assert library_of({"exp_goal": f"{QUESTION} {LIBRARY}"}) == ("weigh", "dissolve", "pour")


@pytest.mark.parametrize("record", [TRAIN, EVAL, RL, SFT, OWN])
def test_a_named_task_does_not_change_what_is_recognized(record: dict[str, Any]) -> None:
    assert example(record, Options(task=SCORE)) == example(record)
    assert example({**record, "task": SCORE}).replaced(record=record) == example(record)


def test_what_only_some_shapes_have() -> None:
    libraries = {"train": None, "eval": ("dissolve", "pour", "weigh"), "rl": ("weigh", "dissolve", "pour"), "sft": None}
    records = {"train": TRAIN, "eval": EVAL, "rl": RL, "sft": SFT}
    assert {name: example(record).library for name, record in records.items()} == libraries
    assert example(CHAT).library == libraries["rl"]
    assert [name for name, record in records.items() if example(record).has_distractors] == ["eval"]
    assert {name: example(record).id for name, record in records.items()} == {
        **dict.fromkeys(("train", "rl", "sft"), ""),  # `with_ids` gives them one
        "eval": "7",
    }
    assert example(EVAL).type == "planning"


def test_prompts_are_those_that_a_record_has() -> None:
    system = {"role": "system", "content": SYSTEM}
    assert example(RL).prompt == (system, {"role": "user", "content": RL["query"]})
    assert example(SFT).prompt == (system, {"role": "user", "content": ASKED})
    assert example(CHAT).prompt == tuple(CHAT["messages"][:2])
    assert example(TRAIN).prompt is None
    assert example({**TRAIN, "system": SYSTEM}).prompt == (system, {"role": "user", "content": QUESTION})


def test_columns_have_nulls_where_a_record_has_no_field() -> None:
    nulls = dict.fromkeys(["reference", "steps", "task", "choices", "is_correct", "text", "system"])
    assert example({**nulls, **TRAIN}).replaced(record={}) == example(TRAIN).replaced(record={})


def test_the_answer_of_a_rollout_is_not_taken_for_the_published_one() -> None:
    found = example({"query": QUESTION, "reference": KEY, "response": ANSWER})
    assert (found.dataset, found.answer) == ("rows", None)


@pytest.mark.parametrize(("steps", "level"), [(3, "1"), (4, "2")])
def test_level_is_that_of_the_number_of_steps(steps: int, level: str) -> None:
    assert example({"goal": QUESTION, "steps": STEPS[:1] * steps, "level": "9"}).level == level


@pytest.mark.parametrize(
    ("prompt", "question"),
    [
        (f"{ASKED} {LIBRARY}", QUESTION),
        (f"{ASKED}\n{LIBRARY}", QUESTION),
        (f"{QUESTION} {LIBRARY}", QUESTION),
        (f"{LIBRARY} {QUESTION}", QUESTION),
        (LIBRARY.upper(), ""),
        (f"{'İ' * 9}. {LIBRARY}", f"{'İ' * 9}."),
        (f"A. {LIBRARY} B. {LIBRARY}", f"A. {LIBRARY} B."),
        ("Is it true that one can only use the following actions: none?",) * 2,
        (f"  {QUESTION}\n", QUESTION),
    ],
)
def test_instructions_are_removed_from_a_question(prompt: str, question: str) -> None:
    assert without_instructions(prompt) == question


def test_letters_that_grow_in_lower_case_do_not_move_the_library() -> None:
    assert library_of({"query": f"{'İ' * 9} {LIBRARY}"}) == ("weigh", "dissolve", "pour")


# Benchmarks


def test_pqa() -> None:
    found = example(PQA)
    assert (found.dataset, found.task, found.type, found.level) == (*["bioprobench.pqa"] * 2, "parameter", None)
    assert (found.question, found.reference, found.id) == (PQA["question"], {"answer": "100"}, "PQA-1")


def test_ord() -> None:
    found = example(ORD)
    assert (found.dataset, found.task, found.type) == (*["bioprobench.ord"] * 2, "top")
    assert found.reference == {name: ORD[name] for name in ("wrong_steps", "correct_steps")}


@pytest.mark.parametrize(
    ("record", "truth", "step"),
    [(ERR, False, "Melt the agarose on ice."), (RIGHT, True, "Melt the agarose in a microwave.")],
)
@pytest.mark.parametrize("task", [None, "bioprobench.err", "bioprobench.rea_err"])
def test_err_and_rea_err(record: dict[str, Any], truth: bool, step: str, task: str | None) -> None:
    found = example(record, Options(task=task))
    assert (found.dataset, found.task) == (task or "bioprobench.err", "bioprobench.err")
    assert (found.reference, found.question) == ({"is_correct": truth}, step)


@pytest.mark.parametrize("task", [None, "lexical", "bioprobench.gen"])
def test_gen(task: str | None) -> None:
    found = example(GEN, Options(task=task))
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


def test_a_program_that_is_not_python_serves_the_stage_of_knowledge_only() -> None:
    broken = {**PROTOCOL, "edited_pseudocode": "mix(3M_salt=1)"}
    assert fault(broken) == (
        "bad_reference",
        "reference of bioplanner: ground_truth: The text, or a definition in it, is not Python.",
    )
    assert example(broken, KNOWLEDGE).replaced(reference=None, answer=None, record={}) == example(PROTOCOL).replaced(
        reference=None, answer=None, record={}
    )


# Records of one's own


def test_steps_of_ones_own() -> None:
    found = example({**OWN, "type": "Scaling"})
    assert (found.dataset, found.task, found.type, found.question) == ("rows", "score", "scaling", QUESTION)
    assert (found.steps, found.prompt, found.answer) == (READ_STEPS, None, None)
    assert example({"title": QUESTION, "reference": {"steps": STEPS}}).steps == READ_STEPS
    assert key_lines_of(found.reference) == (found.reference, READ_STEPS)


def test_rows_of_other_tasks() -> None:
    found = example(ROW)
    assert (found.dataset, found.task, found.reference) == ("rows", "bioprobench.err", {"is_correct": False})
    assert (found.question, found.prompt) == ("Right or wrong?", tuple(ROW["prompt"]))
    as_text = json.dumps({"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"], "note": "x" * 1000})
    found = example({"prompt": "Sort: b, a", "task": "bioprobench.ord", "reference": as_text})
    assert found.reference == {"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]}
    found = example({"prompt": "How?", "task": "lexical", "reference": "Like this.", "type": "A", "level": 3})
    assert (found.reference, found.type, found.level) == ({"reference": "Like this."}, "a", "3")


def test_the_task_of_all_records_may_be_given() -> None:
    asked = {"prompt": "Right or wrong?", "reference": True}
    assert example(asked, Options(task="bioprobench.err")).reference == {"is_correct": True}
    assert example(asked, Options(task="bioprobench.rea_err")).task == "bioprobench.err"
    conversation = [{"from": "human", "value": "A or B?"}, {"from": "gpt", "value": "B"}]
    found = example({"conversations": conversation}, Options(task="bioprobench.pqa"))
    assert (found.question, found.reference) == ("A or B?", {"question": "A or B?", "answer": "B"})


def test_a_text_serves_the_stage_of_knowledge_only() -> None:
    found = example(TEXT, KNOWLEDGE)
    assert (found.dataset, found.text, found.reference) == ("text", TEXT["text"], None)
    assert fault(TEXT) == ("no_question", "a text without a question is used only with --stage knowledge")


# Faults

BAD_KEY = 'Step 1: {"action": "weigh"}'


@pytest.mark.parametrize(
    ("record", "reason", "detail"),
    [
        ([1], "not_an_object", "the row is not a JSON object"),
        ({}, "unknown_form", f"the fields are of no known form; the forms are {', '.join(FORMS)}"),
        (
            {"question": "Q", "choices": ["a"]},
            "unknown_form",
            "the fields are of no known form; of the nearest, bioprobench.pqa needs 'answer'",
        ),
        (
            {"text": None, "wrong_steps": ["b"], "is_correct": True},
            "unknown_form",
            "the fields are of no known form; of the nearest, "
            "bioprobench.err needs 'corrupted_text' or 'corrected_text'; "
            "bioprobench.rea_err needs 'corrupted_text' or 'corrected_text'",
        ),
        (
            {"title": "T", "steps": None, "generated_pseudocode": "f()"},
            "unknown_form",
            "the fields are of no known form; of the nearest, bioprot needs 'steps'",
        ),
        (
            {**TRAIN, "key": BAD_KEY},
            "bad_step_schema",
            "reference: line 1: missing fields objects, parameters",
        ),
        ({**TRAIN, "key": ""}, "no_steps", "reference: it has no step: a line such as 'Step 1: {...}' is needed"),
        ({**OWN, "steps": []}, "no_steps", "reference: a reference must have at least one step"),
        ({**OWN, "steps": ["weigh"]}, "bad_step_schema", None),
        ({**OWN, "goal": " "}, "missing_field", None),
        ({"query": LIBRARY, "reference": KEY}, "missing_field", None),
        (
            {"query": "Q", "response": "no sections"},
            "missing_field",
            "no field 'reference', 'key' or 'steps', and no answer with the four sections instead",
        ),
        ({**ROW, "task": "chess"}, "unknown_task", None),
        (
            {**ROW, "reference": "perhaps"},
            "bad_reference",
            "reference of bioprobench.err: it is neither an object nor an object as JSON text",
        ),
        ({**ROW, "prompt": []}, "missing_field", None),
        ({**PQA, "answer": "7"}, "bad_reference", "the field 'answer' is not one of 'choices'"),
        ({**PQA, "choices": ["50", 100]}, "wrong_type", "the field 'choices' is not a list of texts"),
        (
            {**ORD, "correct_steps": ["Weigh.", "Sleep."]},
            "bad_reference",
            "reference of bioprobench.ord: wrong_steps does not begin with the steps of correct_steps, in any order",
        ),
        (
            {**ERR, "is_correct": "no"},
            "bad_reference",
            "reference of bioprobench.err: is_correct: must be a boolean",
        ),
        (
            {**ERR, "corrupted_text": None},
            "wrong_type",
            "the field 'corrupted_text' is not a text, or is blank",
        ),
        ({**ERR, "context": "none"}, "wrong_type", "the field 'context' is not an object"),
        ({**GEN, "output": ["", " "]}, "bad_reference", "the field 'output' has no step"),
        ({**GEN, "output": 3}, "wrong_type", None),
        ({**PROTOCOL, "title": ""}, "wrong_type", "the field 'title' is not a text, or is blank"),
    ],
)
def test_faults(record: Any, reason: str, detail: str | None) -> None:
    found = fault(record)
    assert found.reason == reason
    assert detail is None or found.detail == detail


# Properties

NAMES = sorted(
    {name for groups in SHAPES.values() for group in groups for name in group} | {n for r in EVERY for n in r}
)
PARTS = [part for record in EVERY for part in record.values()]
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
        st.sampled_from(EVERY),
        st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3),
    ),
    VALUES,
)
OPTIONS = st.builds(
    Options, task=st.none() | st.sampled_from(TASKS), stage=st.sampled_from(["knowledge", "supervised", "grpo"])
)


@given(RECORDS, OPTIONS)
def test_any_record_is_an_example_or_a_fault(record: Any, options: Options) -> None:
    found = read_example(record, PLACE, options)
    if isinstance(found, Fault):
        assert found.reason.isidentifier()
        assert found.detail
        return
    assert found.dataset in FORMS
    assert found.task in REWARD_TASKS
    assert with_ids([found])[0].id.strip()
    assert found.record is record
    if options.stage == "knowledge" and found.reference is None:
        assert found.text is not None
        return
    assert found.question.strip()
    if found.task == SCORE:
        assert key_lines_of(found.reference) == (found.reference, found.steps)
    else:
        assert reward_of(found.task).read_references(Batch(references=[found.reference])) == [found.reference]
