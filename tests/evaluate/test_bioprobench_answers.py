"""BioProBench's answers as the scripts read them: against regular expressions and `ast.literal_eval`."""

from __future__ import annotations

import ast
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.tasks.bioprobench.answers import Unreadable, first_block, generated_text, last_block, truth_of
from assay.service.tasks.bioprobench.ord import MAX_DEPTH, MAX_LENGTH, compared, literal, order_of
from assay.service.tasks.bioprobench.pqa import answer_of
from assay.service.tasks.evaluation import evaluate
from tests.reference import bioprobench as twin
from tests.strategies import examples

PIECES = ["[ANSWER_START]", "[ANSWER_END]", "</think>", "<think>", "[/INST]", "</Structure>", "\n", " ", "\r", "\u2028"]
PQA_PIECES = ["&", "5 µM", "90", "0.95", "101", "٥٠", "²", "-5", "1e2", "\u00a0", "\u200b", "%", "a & 80", "mix 70"]
ERR_PIECES = ["True", "true", "False", "false", "TRUE", "Untrue", "T", "rue"]
ORD_PIECES = ["[0, 1, 2]", "[2,0,1]", "(1, 0, 2)", "{2, 1, 0}", "{0: 1, 1: 2, 2: 0}", "[0,1,2,1]", "0, 2, 1", "[0, 1"]


def mixed(pieces: list[str]) -> st.SearchStrategy[str]:
    """Draw responses of markers and texts between them, most with one complete block."""
    loose = st.lists(st.sampled_from([*PIECES, *pieces]), max_size=8).map("".join)
    return st.one_of(
        loose, st.tuples(loose, loose, loose).map(lambda t: f"{t[0]}[ANSWER_START]{t[1]}[ANSWER_END]{t[2]}")
    )


@given(mixed(PQA_PIECES))
@examples(100)
def test_pqa(response):
    answer = answer_of(response)
    assert (None if isinstance(answer, str) else (answer.text, answer.confidence)) == twin.pqa(response)


@given(mixed(ERR_PIECES), st.booleans())
@examples(100)
def test_verdicts(response, cut):
    verdict = truth_of(response, cut_instruction=cut)
    assert (None if isinstance(verdict, str) else verdict) == twin.verdict(response, cut)


@given(mixed(ORD_PIECES), st.integers(0, 4))
@examples(100)
def test_orders(response, steps):
    found = order_of(response, steps)
    assert (None if isinstance(found, str) else [int(k) for k in found]) == twin.order(response, steps)


@given(mixed(["Wash.", "1. Spin."]))
@examples(60)
def test_blocks_and_generated_text(response):
    blocks = twin.BLOCK.findall(response)
    assert first_block(response) == (blocks[0].strip() if blocks else None)
    assert last_block(response) == (blocks[-1].strip() if blocks else None)
    assert generated_text(response) == twin.generated(response)


@pytest.mark.parametrize("response", [None, 5, 1.5, True, ["[ANSWER_START]True[ANSWER_END]"], {}])
def test_what_is_not_text_has_no_answer(response):
    assert answer_of(response) == truth_of(response) == order_of(response, 2) == "not_text"


@given(st.permutations(range(7)), st.lists(st.sampled_from("abc"), min_size=7, max_size=7), st.integers(0, 3))
@examples(60)
def test_orders_compare_as_all_their_pairs_do(indices, equal_steps, repeats):
    for right in (list("abcdefg"), equal_steps):
        given_order = [right[k] for k in [*indices, *indices[:repeats]]]
        order = compared(given_order, right)
        assert (order.concordant, order.pairs) == twin.pairs_in_order(given_order, right)
        assert order.exact == (given_order == right)
        assert -1 <= order.tau <= 1


# What a literal may be made of; joined in any order they are rarely one, inside brackets more often.
TOKENS = r"""0 1 12 01 1_0 0x1 0b2 1.5 1e3 .5 1j True False None set() ...
    'a' "b" b'\x01' r'\q' '\x4' u'z' f'z' rb'1' '\N{BULLET}' 'é'"""
LITERALS = [*TOKENS.split(), "'''x\ny'''"]
MARKS = [*"[](){},,,:+-#;*=\\'\" \t\f\n\r\0", "\\\n", "\r\n", "# c\n", "\u00a0", "\ud800", "é", "a", "1if", "not"]


@given(st.lists(st.sampled_from([*LITERALS, *MARKS, ", "]), max_size=8).map("".join), st.sampled_from("0[({:"))
@examples(300)
def test_literals_are_those_of_python(inside, bracket):
    text = {"0": inside, "[": f"[{inside}]", "(": f"({inside},)", "{": f"{{{inside}}}", ":": f"{{0:{inside}}}"}[bracket]
    text = text.strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, OverflowError, RecursionError, MemoryError):
        with pytest.raises(Unreadable):
            literal(text)
    else:
        assert repr(literal(text)) == repr(expected)


def test_literals_have_limits():
    for deep in (MAX_DEPTH - 1, MAX_DEPTH):
        assert literal("[" * deep + "]" * deep) is not None
    for text in [
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
        "[" * MAX_LENGTH,
        "[" * MAX_DEPTH + "0 0",
        "-" * 1000 + "1",
        "-" * (MAX_LENGTH - 1) + "1",
        "1+" * 30_000 + "1",
        f"{'9' * 400}+1j",
        f"[{'9' * 5000}]",
        "{[]: 1}",
        "[0" + " " * MAX_LENGTH + "]",
    ]:
        with pytest.raises(Unreadable):
            literal(text)
    assert literal(f"{'[' * MAX_DEPTH}{']' * MAX_DEPTH},") is not None


def test_faults_of_records_are_not_the_model_s():
    shown = (
        (["a", "x"], "[ANSWER_START][0,1][ANSWER_END]"),
        ("ab", "nothing"),
        ("bac", "[ANSWER_START][1,0][ANSWER_END]"),
    )
    records = [
        {"wrong_steps": list(steps), "correct_steps": ["a", "b"], "generated_response": text} for steps, text in shown
    ]
    found = evaluate("bioprobench.ord", records)
    assert [(f.record, f.reason, f.of_response) for f in found.failed] == [
        (0, "steps_differ", False),
        (1, "no_markers", True),
    ]
    assert found.per_record["exact_match"][2] == 1
    (failure,) = evaluate("bioprobench.err", [{"generated_response": "True"}]).failed
    assert (failure.reason, failure.of_response) == ("no_gold", False)


def test_rea_err_judges_each_id_once_where_asked():
    """The public judge appends its judgements to its input, so that every id occurs twice."""
    judged = {"id": "7", "is_correct": False, "generated_response": "False", "LLM_judge": "True", "corrupted_text": "x"}
    bare = {name: value for name, value in judged.items() if name != "LLM_judge"}
    records = [bare, judged, {**bare, "id": "8"}, {**bare, "id": None}]
    found = evaluate("bioprobench.rea_err", records, deduplicate=True)
    assert [str(value) for value in found.per_record["accuracy"]] == ["nan", "1.0", "1.0", "1.0"]
    assert found.aggregate["consistency"] == 1.0
    assert found.aggregate["consistency_eq8"] == pytest.approx(1 / 3)
    asked = []

    def judge(record, response):
        asked.append((record["id"], response))
        return "[ANSWER_START]False[ANSWER_END]"

    judged_now = evaluate("bioprobench.rea_err", records, judge=judge)
    assert [name for name, _ in asked] == ["7", "8", None]
    assert judged_now.aggregate["consistency"] == 0.25
    assert {response for _, response in asked} == {"False"}
    without = evaluate("bioprobench.rea_err", [bare])
    assert without.aggregate["consistency"] is without.aggregate["consistency_eq8"] is None


def test_a_fraction_for_a_confidence_is_reported():
    texts = ["a & 95", "a & 0.95", "a & 95.", "a & .9", "none"]
    records = [{"answer": "a", "generated_response": f"[ANSWER_START]{text}[ANSWER_END]"} for text in texts]
    found = evaluate("bioprobench.pqa", records)
    assert found.per_record["fractional_confidence"].tolist()[:4] == [0, 1, 0, 1]
    assert found.aggregate["fractional_confidence"] == 0.5
    assert [text.partition(" have")[0] for text in found.warnings] == ["2 of 4 answers that were read"]
    assert evaluate("bioprobench.pqa", records[::2]).warnings == []
