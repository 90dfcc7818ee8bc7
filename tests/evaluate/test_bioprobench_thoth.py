"""PQA, ORD and ERR as the SCORE paper's authors compute them, and the reasons why an order fails."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer
from assay.service.errors import InvalidReference, InvalidRequest
from assay.service.tasks.bioprobench.answers import truth_of
from assay.service.tasks.bioprobench.ord import compared_indices, order_of, order_of_list, steps_in
from assay.service.tasks.bioprobench.pqa import ChoiceQuestion, choice_of, options_in
from assay.service.tasks.evaluation import evaluate
from tests.reference import bioprobench as twin
from tests.strategies import examples

LINES = ["A) 5 ml", "b. 6 ml", "C", "D ", "E)", "B-x", " a : y ", "Add 5 ml", "e、z", "What?", "A) ", "\u00a0C 7 ", "é"]
PIECES = ["A", "b", "C)", "D.", "E", "e", "x", "5 ml", "&", "& 90", "&95.5", "& 0.5", "& 1.5", "& 250"]
PIECES += [")", ":", "é", "_", " ", "  ", "\n", " \n ", "\t", "\u00a0", "a dose", "&" + "9" * 400, "-", "</think>"]
ORDERS = ["[1, 2, 3]", "[2,1,3]", "[0, 1, 2]", "[1,1,2]", "[1,2,3,3]", "(1, 2, 3)", "([2,1,3])", "['2','1','3']"]
ORDERS += ["[1.9,2,3]", "[True,2,3]", "[ 2 , 1,\n3 ]", "[02,1,3]", "[٢,1,3]", "1, 2, 3", "[2,1,3,]", "[1,[2],3]"]
ORDERS += ["[1e999,2,3]", "[-1,2,3]", "[1, 2, 3, 4]", "[1,\u00a02,3]", "#c\n", "</think>", "[/INST]", "[]"]
ORDERS += ["[", "]", "x", " ", "\n", "\f", "\\\n"]
VERDICTS = ["True", "TRUE", "fALSE", "false", "Not ", "maybe", "[ANSWER_START]", "[ANSWER_END]", "</think>", "[/INST]"]
VERDICTS += ["\n", " ", "\r", "\u2028"]


def texts(pieces: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), max_size=7).map("".join)


def conversation(question: str, answer: str, response: str = "") -> dict[str, object]:
    """Return a record as the authors publish them, with a response."""
    turns = [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]
    return {"conversations": turns, "generated_response": response}


@given(texts([*LINES, "\n", "\n", "\r\n", "\u2028"]), texts(PIECES))
@examples(150)
def test_options_are_chosen_by_letter(question, response):
    options = options_in(question)
    assert options == twin.thoth_options(question)
    expected = twin.thoth_pqa(response, options)
    choice = choice_of(response, options)
    if expected is None:
        assert choice == "empty"
    else:
        assert choice.confidence == expected[1]
        option = choice.text if choice.letter is None else f"{choice.letter}) {choice.text}"
        assert " ".join(option.split()) == expected[0]


@given(texts(ORDERS), st.integers(0, 4))
@examples(150)
def test_orders_are_lists_from_one(response, steps):
    order = order_of_list(response, steps)
    assert (None if isinstance(order, str) else order) == twin.thoth_order(response, steps)


@given(st.permutations(range(1, 8)), st.lists(st.integers(1, 7), min_size=7, max_size=7), st.permutations(range(1, 8)))
@examples(100)
def test_pairs_of_indices(indices, equal_steps, right):
    for gold in (right, equal_steps):
        order = compared_indices(indices, gold)
        assert (order.concordant, order.pairs) == twin.thoth_pairs(indices, gold)
        assert order.exact == (indices == gold)


@given(texts(VERDICTS))
@examples(100)
def test_verdicts_in_any_case(response):
    verdict = truth_of(response, any_case=True)
    assert (None if isinstance(verdict, str) else verdict) == twin.thoth_verdict(response)


@pytest.mark.parametrize(
    ("record", "response", "right"),
    [
        ({"answer": "B) 5 ml"}, "b & 90", True),
        ({"answer": "B) 5 ml"}, "C & 90", False),
        ({"answer": "5 ml", "choices": ["4 ml", "5 ml"]}, "B & 90", True),
        ({"answer": "5 ml", "choices": ["4 ml", "5 ml"]}, "A & 90", False),
        ({"answer": "5 ml"}, "A) 5  ml & 90", True),
        ({"answer": "B) 5 ml", "question": "How much?\nA) 4 ml\nB) 5 ml"}, "B) whatever", True),
        ({"answer": "B) 5 ml", "question": "How much? A) 4 ml B) 5 ml"}, "B", False),
        ({"answer": "B) 5 ml", "question": "How much? A) 4 ml B) 5 ml"}, "B: 5 ml & 9", True),
        ({"answer": 5, "choices": ["4 ml", "5"]}, "B", False),
    ],
)
def test_the_options_of_a_question(record, response, right):
    question = ChoiceQuestion.of(record)
    assert question.is_answered_by(choice_of(response, question.options)) is right


QUESTION = "Which volume?\nA) 4 ml\nB) 5 ml\nC) 6 ml"
SORT = "Sort these.\nStep 1: spin\n step 2 : wash \nSTEP 3: spin\nDone."


@pytest.mark.parametrize(
    ("task", "question", "answer", "right"),
    [
        ("bioprobench.pqa", QUESTION, "B) 5 ml", "b"),
        ("bioprobench.ord", SORT, "[3, 2, 1]", "[3, 2, 1]"),
        ("bioprobench.err", "Right?", " FALSE\n", "FALSE"),
    ],
)
def test_published_conversations_are_records_and_references(task, question, answer, right):
    records = [conversation(question, answer, text) for text in (right, "nonsense")]
    result = evaluate(task, records, profile="thoth")
    assert next(iter(result.per_record.values()))[0] == 1.0
    scores = Scorer().score([right, "nonsense"], records[:1], [0, 0], task=task, task_options={"profile": "thoth"})
    assert scores.rewards[0] == 1.0 > scores.rewards[1]


@pytest.mark.parametrize(
    ("task", "record"),
    [
        *(("bioprobench.ord", conversation(SORT, answer)) for answer in ("[1, 2]", "[0, 1, 2]", "[1, 2, True]", "one")),
        ("bioprobench.ord", {"conversations": "x", "generated_response": ""}),
        ("bioprobench.pqa", {"conversations": [{"value": "?"}, {"value": 5}], "generated_response": ""}),
    ],
)
def test_conversations_that_cannot_be_used_are_errors(task, record):
    with pytest.raises(InvalidRequest) as caught:
        evaluate(task, [record])
    (issue,) = caught.value.issues
    assert (issue.path.partition(".")[0], issue.reason) == ("records[0]", "wrong_type")
    with pytest.raises(InvalidReference):
        Scorer().score(["x"], [record], task=task)


def test_the_right_order_is_by_indices_from_1_or_from_0_or_by_texts():
    """As in the authors' script, which without indices takes equal steps for the last one, as no response can."""
    record = {"wrong_steps": ["a", "b", "a"], "correct_steps": ["a", "a", "b"], "generated_response": "[1, 3, 2]"}

    def evaluation(**gold):
        return evaluate("bioprobench.ord", [record | gold], profile="thoth")

    assert evaluation().per_record["kendall_tau"].tolist() == [pytest.approx(1 / 3)]
    for gold, exact in (
        ({"gold_indices": [0, 2, 1]}, 1),
        ({"gold_indices_1based": [1, 3, 2]}, 1),
        ({"gold_indices": [2, 1, 0], "gold_indices_1based": [1, 3, 2]}, 1),
        ({"gold_indices": None}, 0),
    ):
        assert evaluation(**gold).aggregate["exact_match"] == exact
    for gold in ({"gold_indices": [1, 2, 3]}, {"gold_indices_1based": [1, 1, 2]}):
        (failure,) = evaluation(**gold).failed
        assert (failure.reason, failure.of_response) == ("steps_differ", False)
        with pytest.raises(InvalidReference, match=next(iter(gold))):
            Scorer().score(["[1]"], [record | gold], task="bioprobench.ord")


def shuffled(steps: int, answer: object) -> dict[str, object]:
    texts = [f"step {k}" for k in range(steps)]
    return {"wrong_steps": texts, "correct_steps": texts, "generated_response": f"[ANSWER_START]{answer}[ANSWER_END]"}


SHARES = {"failed_missing", "failed_extra", "failed_repeated", "failed_base", "failed_unreadable"}


def test_failures_by_reason_and_number_of_steps():
    answers = {5: [0, 1, 2, 3, 4], 3: [1, 0, 2], 4: [0, 1, 2], 12: [*range(1, 13)], 6: [0, 1, 2, 3, 4, 7], 0: []}
    records = [shuffled(steps, answer) for steps, answer in answers.items()]
    records += [shuffled(6, [0, 1, 2, 3, 4, 4]), shuffled(6, "none")]
    evaluation = evaluate("bioprobench.ord", records, by=["steps"], metrics=["usual", *SHARES])
    assert {name: round(8 * evaluation.aggregate[name]) for name in SHARES} == dict.fromkeys(SHARES, 1)
    assert evaluation.aggregate["failed"] == pytest.approx(sum(evaluation.aggregate[name] for name in SHARES))
    assert evaluation.by["steps"]["3-5"]["exact_match"] == 0.5
    assert evaluation.by["steps"]["3-5"]["kendall_tau"] == pytest.approx((10 + 1) / 13)
    assert evaluation.by["steps"]["6-8"]["failed"] == 1.0
    assert not SHARES & evaluate("bioprobench.ord", records).per_record.keys()
    every = evaluate("bioprobench.ord", [shuffled(n, [*range(n)]) for n in [*range(16), 50]], by=["steps"]).by["steps"]
    counts = {"0": 1, "1": 1, "2": 1, "3-5": 3, "6-8": 3, "9-11": 3, "12+": 5}  # as in table 12
    assert [(name, part["count"]) for name, part in every.items()] == list(counts.items())


@pytest.mark.parametrize(
    ("line", "steps"),
    [
        ("step 1: a", ["a"]),
        (" STEP  2:b ", ["b"]),
        ("Step 3:", []),
        ("Step 4: ", [""]),
        ("Step ٣: c", ["c"]),
        ("Step x: a", []),
        ("a Step 5: b", []),
    ],
)
def test_steps_of_a_question(line, steps):
    assert steps_in(line) == steps


@given(st.lists(st.integers(-1, 5), max_size=6), st.integers(0, 4), st.sampled_from([0, 1]))
@examples(200)
def test_reasons_of_failed_orders(indices, steps, first):
    """Every list of integers that is not an order of the steps fails for one reason."""
    text = str(indices)
    order = order_of_list(text, steps) if first else order_of(f"[ANSWER_START]{text}[ANSWER_END]", steps, once=True)
    right = list(range(first, first + steps))
    if sorted(indices) == right:
        assert order == indices
    elif set(indices) == {index + 1 - 2 * first for index in right} and steps:
        assert order == ("zero_based" if first else "one_based")
    elif set(indices) - set(right):
        assert order == "extra_steps"
    else:
        assert order == ("repeats" if len(set(indices)) < len(indices) else "missing_steps")


def test_answers_that_name_a_choice_by_its_text_are_counted() -> None:
    """Profile thoth looks for a letter, so that right answers in BioProBench's form are wrong; a warning says so."""
    texts = ("[ANSWER_START]5 ml & 90[ANSWER_END]", "A", "[ANSWER_START]7 ml & 90[ANSWER_END]")
    records = [{"answer": "5 ml", "choices": ["4 ml", "5 ml"], "generated_response": text} for text in texts]
    (warning,) = evaluate("bioprobench.pqa", records, profile="thoth").warnings
    assert warning.startswith("1 of 3 answers name their choice by its text")
    assert evaluate("bioprobench.pqa", records).warnings == []
