"""Prompts: what they show and do not show, and that the forms of answers in them are those that scorers read."""

from __future__ import annotations

import pytest

from assay.research.prepare.examples import Example
from assay.research.prepare.prompts import GUIDANCE, SKETCH_AND_FILL, messages_of
from assay.service.errors import InvalidReference
from assay.service.rewards.scorer import Scorer
from assay.service.tasks.bioprobench.answers import END, START, truth_of
from assay.service.tasks.bioprobench.ord import order_of
from assay.service.tasks.bioprobench.pqa import answer_of
from assay.service.tasks.scirecipe_records import TYPES, library_of, violations
from assay.service.tasks.thoth import sections_in
from tests.prepare import by_hand


def system_of(example: Example) -> str:
    return messages_of(example, None)[0]["content"]


def user_of(example: Example, actions: tuple[str, ...] | None = None) -> str:
    return messages_of(example, actions)[1]["content"]


class TestProtocol:
    def test_worked_example_is_a_perfect_answer(self) -> None:
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

    def test_every_type_has_guidance(self) -> None:
        assert tuple(GUIDANCE) == TYPES
        for kind in TYPES:
            assert user_of(by_hand.protocol(type=kind)) == f"How is a beaker cleaned?\n\n{GUIDANCE[kind]}"
        for other in (None, "other", ""):
            assert user_of(by_hand.protocol(type=other)) == "How is a beaker cleaned?"

    def test_library_is_read_from_the_prompt_again(self) -> None:
        actions = ("spin down", "pick & place", "it's", "a, b")
        assert library_of({"prompt": messages_of(by_hand.protocol(type="safety"), actions)}) == actions
        assert library_of({"query": user_of(by_hand.protocol(), actions)}) == actions
        assert library_of({"prompt": messages_of(by_hand.protocol(type="safety"), None)}) is None


class TestChoice:
    def test_form_of_the_answer_is_what_the_scorer_reads(self) -> None:
        system = system_of(by_hand.choice())
        form = system[system.index(START) : system.index(END) + len(END)]
        assert answer_of(form.replace("CHOICE", "5 ml").replace("CONFIDENCE", "80")) == ("5 ml", 80, False)
        assert user_of(by_hand.choice()) == "Question:\nAdd ____ of buffer.\n\nChoices:\n- 2 ml\n- 5 ml"
        assert user_of(by_hand.choice().replaced(record={})) == "Add ____ of buffer."


class TestOrder:
    def test_form_of_the_answer_is_what_the_scorer_reads(self) -> None:
        assert order_of(system_of(by_hand.order()), 3) == [2, 0, 1]
        assert user_of(by_hand.order()) == "Sort the steps of 'Cleaning'.\n\nSteps:\n0: dry\n1: rinse\n2: store"


class TestVerdict:
    @pytest.mark.parametrize("dataset", ["bioprobench.err", "bioprobench.rea_err"])
    def test_forms_of_the_answer_are_what_the_scorer_reads(self, dataset: str) -> None:
        """One of the two steps is shown, and nothing that tells which."""
        system = system_of(by_hand.verdict(True, dataset))
        *_, right, wrong = (truth_of(START + text, needs_markers=True) for text in system.split(START))
        assert (right, wrong, "Reason first" in system) == (True, False, dataset == "bioprobench.rea_err")
        for is_correct, degrees in ((True, 60), (False, 600)):
            step = f"Step:\nDry the beaker at {degrees} °C."
            about = "\n\nContext:\nPurpose: Clean glass\nStep before: Rinse the beaker"
            assert user_of(by_hand.verdict(is_correct, dataset)) == step + about
            for context in ("none", [], {"purpose": ""}):
                assert user_of(by_hand.verdict(is_correct, dataset, context)) == step


def test_generations_and_programs() -> None:
    assert user_of(by_hand.generation()) == "Give a flat list.\n\nHow is a beaker cleaned?"
    assert START not in system_of(by_hand.generation()), "markers are words, which lower the similarity"
    functions = "Functions:\ndry(vessel)\nrinse(vessel, solvent, seconds)\nstore(…)"
    assert user_of(by_hand.pseudocode()) == f"Title: Cleaning of beakers\n\nRinses and dries.\n\n{functions}"


def test_rows_of_other_tasks_keep_their_prompt() -> None:
    own = ({"role": "user", "content": "Sort: a, b. Answer with [ANSWER_START][…][ANSWER_END]."},)
    row = by_hand.order().replaced(dataset="rows", prompt=own)
    assert messages_of(row, None) == list(own)
    question = by_hand.protocol().replaced(dataset="rows", prompt=own)
    assert messages_of(question, None)[0]["content"] == SKETCH_AND_FILL
    with pytest.raises(InvalidReference, match="wrong_steps"):
        messages_of(by_hand.order().replaced(reference={"answer": "5 ml"}), None)
