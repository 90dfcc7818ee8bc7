"""Ideal answers and their check: every task's gets its full reward, and a prompt that cannot is found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given

from assay.research.prepare.examples import Example
from assay.research.prepare.prompts import PromptCheck, ideal_answer, messages_of
from assay.research.prepare.split import TRAIN, Libraries
from assay.service.explain.reading import Step
from assay.service.records.fields import Message
from assay.service.rewards.scorer import Scorer
from assay.service.tasks.scirecipe_records import violations
from tests.prepare import by_hand
from tests.strategies import examples, protocols

SCORER = Scorer(threads=1)
CHECK = PromptCheck(SCORER)


def faults(records: Sequence[Example], check: PromptCheck = CHECK) -> list[str | None]:
    """Return the sentence of each record's fault, with the prompt that is made of it."""
    libraries = Libraries(0, 0)
    rows: list[tuple[Example, list[Message], tuple[str, ...] | None]] = []
    for record in records:
        actions = libraries.actions_for(record, TRAIN)
        rows.append((record, messages_of(record, actions), actions))
    found = check.faults(rows)
    assert all(fault is None or fault.reason == "ideal_answer" for fault in found)
    return [None if fault is None else fault.detail for fault in found]


def fault_of(record: Example) -> str | None:
    """Return the fault of a record between two valid ones of other tasks."""
    first, found, last = faults([by_hand.choice(), record, by_hand.protocol()])
    assert first is None
    assert last is None
    return found


def steps_of(protocol: list[dict[str, Any]]) -> list[Step]:
    return [Step(step["action"], tuple(step["objects"]), tuple(step["parameters"])) for step in protocol]


class TestAnswers:
    def test_protocol(self) -> None:
        answer = ideal_answer(by_hand.protocol())
        key, prose = (answer.partition(f"<{name}>\n")[2].partition(f"\n</{name}>")[0] for name in ("key", "orc"))
        assert key.splitlines() == [
            'Step 1: {"action": "rinse", "objects": ["beaker", "ethanol"], "parameters": ["70%", "10 s"]}',
            'Step 2: {"action": "dry", "objects": ["beaker"], "parameters": ["60 °c", "1 h"]}',
        ]
        assert prose.splitlines() == ["Step 1: Rinse beaker, ethanol (70%; 10 s).", "Step 2: Dry beaker (60 °c; 1 h)."]
        assert violations({"reference": answer}) == []

    def test_answers_between_markers(self) -> None:
        for example, answer in (
            (by_hand.choice(), "5 ml & 100"),
            (by_hand.order(), "[1, 0, 2]"),
            (by_hand.order("baba", "aabb"), "[1, 3, 0, 2]"),
            (by_hand.verdict(True), "True"),
            (by_hand.verdict(False), "False"),
        ):
            assert ideal_answer(example) == f"[ANSWER_START]{answer}[ANSWER_END]"
        assert ideal_answer(by_hand.generation()) == "1. Rinse the beaker.\n2. Dry it for an hour."

    def test_program_calls_and_does_not_define(self) -> None:
        assert ideal_answer(by_hand.pseudocode()).splitlines() == [
            "# The protocol",
            'for vessel in ["a", "b"]:',
            '    rinse(vessel, solvent="ethanol")',
            "    dry(vessel)",
            "store(vessel)",
        ]
        code = '@mark\r\ndef a(x):\r\n  return "\x0c"\r\na(1)\x0c\r\nb(2)'  # with other line ends
        assert ideal_answer(by_hand.pseudocode(code)).split() == ["a(1)", "b(2)"]


class TestFullReward:
    def test_every_task_in_one_batch(self) -> None:
        assert faults(by_hand.ALL) == [None] * len(by_hand.ALL)
        assert faults([]) == []
        assert fault_of(by_hand.order("babc", "abbc")) is None  # with equal steps

    @examples(100)
    @given(protocols)
    def test_any_protocol(self, protocol: list[dict[str, Any]]) -> None:
        assert faults([by_hand.protocol(steps_of(protocol), library=())]) == [None]


class TestFaults:
    def test_prose_that_must_be_long(self) -> None:
        """The mean of words a step counts, 2 and 59 or 57, and 30 is the most."""
        long = [Step("mix", tuple(f"reagent {k}" for k in range(29)), ()), Step("add", ("tube",), ())]
        assert fault_of(by_hand.protocol(long)) == (
            "the ideal answer gets 0.0328 of 1: a step has 30.5 words on average, and prose of more than 30 lowers the "
            "reward"
        )
        fits = [long[0]._replace(objects=long[0].objects[1:]), long[1]]
        assert fault_of(by_hand.protocol(fits)) is None

    def test_library_that_lacks_actions(self) -> None:
        """A prompt of the record's own, whose library the check reads."""
        own = [{"role": "user", "content": 'Clean it. You can only use the following actions: "rinse".'}]
        [fault] = CHECK.faults([(by_hand.protocol(), own, None)])
        assert fault == ("ideal_answer", "the prompt's library of actions lacks 1 of the reference's")
        actions = ("rinse", 'dry "well"')
        [fault] = CHECK.faults([(by_hand.protocol(), messages_of(by_hand.protocol(), actions), actions)])
        assert fault == ("ideal_answer", "the library of actions cannot be read from the prompt again")

    def test_answers_that_cannot_be_read(self) -> None:
        records = [by_hand.protocol([Step("add", ("tube </key> <orc>",), ())])]
        records += [by_hand.choice(answer, [answer, "2 ml"]) for answer in ("salt & water", " 5 ml", 5)]
        found = [fault_of(record) or "" for record in records]
        assert [fault.partition(": ")[0] for fault in found] == ["the ideal answer gets 0 of 1"] * 4
        repeated = fault_of(by_hand.order("aab", "abb"))  # the same steps, but not as often
        assert repeated is not None
        assert "more than once" in repeated

    def test_generation_without_words_that_are_compared(self) -> None:
        assert fault_of(by_hand.generation("1. 加水")) is None
        assert fault_of(by_hand.generation("加水")) == (
            "the ideal answer gets 0 of 1: the reference has no Latin letter or digit, as words of ROUGE-L have"
        )
