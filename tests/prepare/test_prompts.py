"""Prompts and their ideal answers: what a prompt shows, the form of answers that scorers read, and the full reward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given

from assay.research.prepare.examples import Example
from assay.research.prepare.prompts import GUIDANCE, SKETCH_AND_FILL, PromptCheck, ideal_answer, messages_of
from assay.research.prepare.split import TRAIN, Libraries
from assay.service.errors import InvalidReference
from assay.service.explain.reading import ReadStep
from assay.service.records.rows.fields import Message
from assay.service.rewards.scorer import Scorer
from assay.service.tasks.bioprobench.answers import END, START, truth_of
from assay.service.tasks.bioprobench.ord import order_of
from assay.service.tasks.bioprobench.pqa import answer_of
from assay.service.tasks.scirecipe_records import TYPES, library_of, violations
from assay.service.tasks.thoth import sections_in
from tests.prepare import by_hand
from tests.strategies import examples, protocols


def system_of(example: Example) -> str:
    return messages_of(example, None)[0]["content"]


def user_of(example: Example, actions: tuple[str, ...] | None = None) -> str:
    return messages_of(example, actions)[1]["content"]


def test_the_worked_example_of_a_prompt_is_a_perfect_answer() -> None:
    answer = SKETCH_AND_FILL[SKETCH_AND_FILL.rindex("<think>") :]
    sections = sections_in(answer)
    assert sections is not None
    assert violations({"reference": answer}) == []
    scores = Scorer().score([answer], [sections.key])
    assert (scores.rewards.tolist(), scores.reasons.tolist()) == ([1.0], ["ok"])
    form = next(line for line in SKETCH_AND_FILL.splitlines() if "…" in line)
    line = form[form.index("Step N") :].replace("N", "1").replace("…", "add")
    answer = f"<think></think><key>{line}</key><orc>Step 1: add</orc><note></note>"
    assert Scorer().score([answer], [line]).rewards[0] == 1


def test_every_type_has_guidance() -> None:
    question = "How is a beaker cleaned?"
    shown = {kind: user_of(by_hand.protocol(type=kind)) for kind in (*TYPES, None, "other", "")}
    guided = {kind: f"{question}\n\n{GUIDANCE[kind]}" for kind in TYPES}
    assert shown == {**guided, **dict.fromkeys((None, "other", ""), question)}


def test_a_library_is_read_from_its_prompt_again() -> None:
    actions = ("spin down", "pick & place", "it's", "a, b")
    assert library_of({"prompt": messages_of(by_hand.protocol(type="safety"), actions)}) == actions
    assert library_of({"query": user_of(by_hand.protocol(), actions)}) == actions
    assert library_of({"prompt": messages_of(by_hand.protocol(type="safety"), None)}) is None


def test_the_forms_of_answers_that_prompts_ask_for_are_what_scorers_read() -> None:
    system = system_of(by_hand.choice())
    form = system[system.index(START) : system.index(END) + len(END)]
    assert answer_of(form.replace("CHOICE", "5 ml").replace("CONFIDENCE", "80")) == ("5 ml", 80, False)
    assert order_of(system_of(by_hand.order()), 3) == [2, 0, 1]
    for dataset in ("bioprobench.err", "bioprobench.rea_err"):
        system = system_of(by_hand.verdict(True, dataset))
        *_, right, wrong = (truth_of(START + text, needs_markers=True) for text in system.split(START))
        assert (right, wrong, "Reason first" in system) == (True, False, dataset == "bioprobench.rea_err")
    assert START not in system_of(by_hand.generation()), "markers are words, which lower the similarity"


def test_what_prompts_show() -> None:
    functions = "Functions:\ndry(vessel)\nrinse(vessel, solvent, seconds)\nstore(…)"
    for example, shown in (
        (by_hand.choice(), "Question:\nAdd ____ of buffer.\n\nChoices:\n- 2 ml\n- 5 ml"),
        (by_hand.choice().replaced(record={}), "Add ____ of buffer."),
        (by_hand.order(), "Sort the steps of 'Cleaning'.\n\nSteps:\n0: dry\n1: rinse\n2: store"),
        (by_hand.generation(), "Give a flat list.\n\nHow is a beaker cleaned?"),
        (by_hand.pseudocode(), f"Title: Cleaning of beakers\n\nRinses and dries.\n\n{functions}"),
    ):
        assert user_of(example) == shown
    for is_correct, degrees in ((True, 60), (False, 600)):  # one of the two steps, and nothing that tells which
        step = f"Step:\nDry the beaker at {degrees} °C."
        about = "\n\nContext:\nPurpose: Clean glass\nStep before: Rinse the beaker"
        assert user_of(by_hand.verdict(is_correct)) == step + about
        for context in ("none", [], {"purpose": ""}):
            assert user_of(by_hand.verdict(is_correct, context=context)) == step


def test_rows_of_other_tasks_keep_their_prompt() -> None:
    own = ({"role": "user", "content": "Sort: a, b. Answer with [ANSWER_START][…][ANSWER_END]."},)
    assert messages_of(by_hand.order().replaced(dataset="rows", prompt=own), None) == list(own)
    question = by_hand.protocol().replaced(dataset="rows", prompt=own)
    assert messages_of(question, None)[0]["content"] == SKETCH_AND_FILL
    with pytest.raises(InvalidReference, match="wrong_steps"):
        messages_of(by_hand.order().replaced(reference={"answer": "5 ml"}), None)


CHECK = PromptCheck(Scorer(threads=1))


def faults(records: Sequence[Example]) -> list[str | None]:
    """Return the sentence of each record's fault, with the prompt that is made of it."""
    libraries = Libraries(0, 0)
    rows: list[tuple[Example, list[Message], tuple[str, ...] | None]] = []
    for record in records:
        actions = libraries.actions_for(record, TRAIN)
        rows.append((record, messages_of(record, actions), actions))
    faults_of_rows = CHECK.faults(rows)
    assert all(fault is None or fault.reason == "ideal_answer" for fault in faults_of_rows)
    return [None if fault is None else fault.detail for fault in faults_of_rows]


def fault_of(record: Example) -> str | None:
    """Return the fault of a record between two valid ones of other tasks."""
    first, fault, last = faults([by_hand.choice(), record, by_hand.protocol()])
    assert first is None
    assert last is None
    return fault


def steps_of(protocol: list[dict[str, Any]]) -> list[ReadStep]:
    return [ReadStep(step["action"], tuple(step["objects"]), tuple(step["parameters"])) for step in protocol]


def test_the_ideal_answer_of_a_protocol() -> None:
    answer = ideal_answer(by_hand.protocol())
    key, prose = (answer.partition(f"<{name}>\n")[2].partition(f"\n</{name}>")[0] for name in ("key", "orc"))
    assert key.splitlines() == [
        'Step 1: {"action": "rinse", "objects": ["beaker", "ethanol"], "parameters": ["70%", "10 s"]}',
        'Step 2: {"action": "dry", "objects": ["beaker"], "parameters": ["60 °c", "1 h"]}',
    ]
    assert prose.splitlines() == ["Step 1: Rinse beaker, ethanol (70%; 10 s).", "Step 2: Dry beaker (60 °c; 1 h)."]
    assert violations({"reference": answer}) == []


def test_ideal_answers_between_markers() -> None:
    for example, answer in (
        (by_hand.choice(), "5 ml & 100"),
        (by_hand.order(), "[1, 0, 2]"),
        (by_hand.order("baba", "aabb"), "[1, 3, 0, 2]"),
        (by_hand.verdict(True), "True"),
        (by_hand.verdict(False), "False"),
    ):
        assert ideal_answer(example) == f"[ANSWER_START]{answer}[ANSWER_END]"
    assert ideal_answer(by_hand.generation()) == "1. Rinse the beaker.\n2. Dry it for an hour."


def test_an_ideal_program_calls_and_does_not_define() -> None:
    assert ideal_answer(by_hand.pseudocode()).splitlines() == [
        "# The protocol",
        'for vessel in ["a", "b"]:',
        '    rinse(vessel, solvent="ethanol")',
        "    dry(vessel)",
        "store(vessel)",
    ]
    code = '@mark\r\ndef a(x):\r\n  return "\x0c"\r\na(1)\x0c\r\nb(2)'  # with other line ends
    assert ideal_answer(by_hand.pseudocode(code)).split() == ["a(1)", "b(2)"]


def test_ideal_answers_get_the_full_reward() -> None:
    assert faults(by_hand.ALL) == [None] * len(by_hand.ALL)
    assert faults([]) == []
    assert fault_of(by_hand.order("babc", "abbc")) is None  # with equal steps


@examples(100)
@given(protocols)
def test_the_ideal_answer_of_any_protocol_gets_the_full_reward(protocol: list[dict[str, Any]]) -> None:
    assert faults([by_hand.protocol(steps_of(protocol), library=())]) == [None]


def test_prose_that_must_be_long_is_a_fault() -> None:
    """The mean of words a step counts, 2 and 59 or 57, and 30 is the most."""
    long = [ReadStep("mix", tuple(f"reagent {k}" for k in range(29)), ()), ReadStep("add", ("tube",), ())]
    fault = fault_of(by_hand.protocol(long)) or ""
    assert fault.startswith("the ideal answer gets 0.0328 of 1: a step has 30.5 words on average")
    fits = [long[0]._replace(objects=long[0].objects[1:]), long[1]]
    assert fault_of(by_hand.protocol(fits)) is None


def test_a_library_that_lacks_actions_is_a_fault() -> None:
    """A prompt of the record's own, whose library the check reads."""
    own = [{"role": "user", "content": 'Clean it. You can only use the following actions: "rinse".'}]
    [fault] = CHECK.faults([(by_hand.protocol(), own, None)])
    assert fault == ("ideal_answer", "the prompt's library of actions lacks 1 of the reference's")
    actions = ("rinse", 'dry "well"')
    [fault] = CHECK.faults([(by_hand.protocol(), messages_of(by_hand.protocol(), actions), actions)])
    assert fault == ("ideal_answer", "the library of actions cannot be read from the prompt again")


def test_answers_that_cannot_be_read_are_faults() -> None:
    records = [by_hand.protocol([ReadStep("add", ("tube </key> <orc>",), ())])]
    records += [by_hand.choice(answer, [answer, "2 ml"]) for answer in ("salt & water", " 5 ml", 5)]
    details = [fault_of(record) or "" for record in records]
    assert [fault.partition(": ")[0] for fault in details] == ["the ideal answer gets 0 of 1"] * 4
    repeated = fault_of(by_hand.order("aab", "abb"))  # the same steps, but not as often
    assert repeated is not None
    assert "more than once" in repeated
