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
    extracted = read_example(record, PLACE, options)
    assert isinstance(extracted, Example), extracted
    return extracted


def fault(record: Any, options: PrepareOptions = GRPO) -> Fault:
    extracted = read_example(record, PLACE, options)
    assert isinstance(extracted, Fault), extracted
    return extracted


# SciRecipe


@pytest.mark.parametrize("record", [TRAIN, EVAL, RL, SFT, CHAT], ids=["train", "eval", "rl", "sft", "chat"])
def test_every_shape_of_scirecipe_gives_the_same_question_and_steps(record: dict[str, Any]) -> None:
    extracted = example(record)
    assert (extracted.dataset, extracted.task, extracted.level) == ("scirecipe", "score", "1")
    assert (extracted.question, extracted.reference, extracted.answer) == (QUESTION, KEY, ANSWER)
    assert extracted.steps == READ_STEPS
    assert extracted.record is record


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
        extracted = example(record)
        assert (extracted.id, extracted.type, extracted.library, extracted.prompt) == (
            name,
            kind,
            library,
            prompt,
        )
        assert extracted.has_distractors == (record is EVAL)
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
        extracted = example(record)
        assert (extracted.dataset, extracted.task, extracted.type, extracted.level) == (
            task,
            task,
            kind,
            None,
        )
        assert (extracted.question, extracted.reference, extracted.id) == (
            record["question"],
            reference,
            record["id"],
        )


@pytest.mark.parametrize(
    ("record", "truth", "step"),
    [(ERR, False, "Melt the agarose on ice."), (RIGHT, True, "Melt the agarose in a microwave.")],
)
@pytest.mark.parametrize("task", [None, "bioprobench.err", "bioprobench.rea_err"])
def test_err_and_rea_err(record: dict[str, Any], truth: bool, step: str, task: str | None) -> None:
    extracted = example(record, PrepareOptions(task=task))
    assert (extracted.dataset, extracted.task) == (task or "bioprobench.err", "bioprobench.err")
    assert (extracted.reference, extracted.question) == ({"is_correct": truth}, step)


@pytest.mark.parametrize("task", [None, "lexical", "bioprobench.gen"])
def test_gen(task: str | None) -> None:
    extracted = example(GEN, PrepareOptions(task=task))
    assert (extracted.dataset, extracted.task, extracted.type, extracted.level) == (
        "bioprobench.gen",
        "lexical",
        None,
        "easy",
    )
    assert extracted.reference == {"reference": "1. Weigh.\n2. Melt.\n3. Pour."}
    assert extracted.question == "How is a gel made?"
    assert extracted.prompt == (
        {"role": "system", "content": "You know gels."},
        {"role": "user", "content": "List the steps.\n\nHow is a gel made?"},
    )


def test_bioprot() -> None:
    extracted = example(PROTOCOL)
    assert (extracted.dataset, extracted.task, extracted.id) == ("bioprot", "bioplanner", "12")
    assert (extracted.reference, extracted.question) == (
        {"ground_truth": PROGRAM},
        "Agarose gel\n\nA gel of 1 %.",
    )
    assert extracted.text == f"Agarose gel\n\nA gel of 1 %.\n\n{PROTOCOL['steps']}"
    described = example({**PROTOCOL, "ai_generated_description": "Pours a gel."})
    assert described.question == "Agarose gel\n\nPours a gel."
    asked = messages_of(extracted, None)[1]["content"]
    assert asked.startswith("Title: Agarose gel\n\nA gel of 1 %.\n\nFunctions:\n")
    generated = example({**PROTOCOL, "edited_pseudocode": None})
    assert generated.reference == {"ground_truth": PROTOCOL["generated_pseudocode"]}


def test_protocol_qa_is_a_question_of_pqa() -> None:
    extracted = example(LAB)
    assert (extracted.dataset, extracted.task, extracted.type, extracted.id) == (
        "labbench.protocolqa",
        "bioprobench.pqa",
        "troubleshooting",
        "b0a1",
    )
    assert extracted.reference == {"answer": LAB["ideal"]}
    assert extracted.question == f"{LAB['question']}\n\nProtocol:\n{LAB['protocol']}"
    choices = extracted.record["choices"]
    assert sorted(choices) == sorted([LAB["ideal"], *LAB["distractors"]])
    reordered = {**LAB, "distractors": LAB["distractors"][::-1]}
    assert (
        example(reordered).record["choices"]
        == choices
        == example(LAB, PrepareOptions(task="bioprobench.pqa")).record["choices"]
    )
    places = {example({**LAB, "id": f"q{number}"}).record["choices"].index(LAB["ideal"]) for number in range(40)}
    assert places == {0, 1, 2, 3}
    assert "CANARY" not in repr(extracted)
    assert all(choice in messages_of(extracted, None)[1]["content"] for choice in choices)


# Records of one's own


def test_steps_of_ones_own() -> None:
    extracted = example({**OWN, "type": "Scaling"})
    assert (extracted.dataset, extracted.task, extracted.type, extracted.question) == (
        "rows",
        "score",
        "scaling",
        QUESTION,
    )
    assert (extracted.steps, extracted.prompt, extracted.answer) == (READ_STEPS, None, None)
    assert example({"title": QUESTION, "reference": {"steps": STEPS}}).steps == READ_STEPS
    assert key_lines_of(extracted.reference) == (extracted.reference, READ_STEPS)
    named = [{**STEPS[0], "action": action} for action in ("mix", "Mix.", "mix", "dry", "spin down", "wash")]
    for steps, by_steps, by_actions in ((named[:3], "1", "1"), (named[:5], "2", "1"), (named, "2", "2")):
        record = {"goal": QUESTION, "steps": steps, "level": "9"}
        assert example(record).level == by_steps
        assert example(record, PrepareOptions(levels="actions")).level == by_actions
    extracted = example(TEXT, KNOWLEDGE)
    assert (extracted.dataset, extracted.text, extracted.reference) == ("text", TEXT["text"], None)


def test_rows_of_other_tasks() -> None:
    extracted = example(ROW)
    assert (extracted.dataset, extracted.task, extracted.reference) == (
        "rows",
        "bioprobench.err",
        {"is_correct": False},
    )
    assert (extracted.question, extracted.prompt) == ("Right or wrong?", tuple(ROW["prompt"]))
    as_text = json.dumps({"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"], "note": "x" * 1000})
    extracted = example({"prompt": "Sort: b, a", "task": "bioprobench.ord", "reference": as_text})
    assert extracted.reference == {"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]}
    extracted = example({"prompt": "How?", "task": "lexical", "reference": "Like this.", "type": "A", "level": 3})
    assert (extracted.reference, extracted.type, extracted.level) == (
        {"reference": "Like this."},
        "a",
        "3",
    )


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
        actual = fault(record)
        assert (actual.reason, detail in actual.detail) == (reason, True), actual


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
    extracted = read_example(record, PLACE, options)
    if isinstance(extracted, Fault):
        assert extracted.reason.isidentifier()
        assert extracted.detail
        return
    assert extracted.dataset in FORMS
    assert extracted.task in REWARD_TASKS
    assert with_ids([extracted])[0].id.strip()
    assert extracted.record is record or extracted.dataset == "labbench.protocolqa"
    if options.stage == "knowledge" and extracted.reference is None:
        assert extracted.text is not None
        return
    assert extracted.question.strip()
    if extracted.task == SCORE:
        assert key_lines_of(extracted.reference) == (extracted.reference, extracted.steps)
    else:
        assert reward_of(extracted.task).read_references(Batch(references=ReferenceTexts([extracted.reference]))) == [
            extracted.reference
        ]
