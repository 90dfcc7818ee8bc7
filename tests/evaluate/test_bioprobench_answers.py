"""BioProBench's answers as the scripts read them, and the steps of generated protocols, against textbook twins."""

from __future__ import annotations

import ast
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.errors import InvalidRequest
from assay.service.tasks.bioprobench import gen
from assay.service.tasks.bioprobench.answers import UnreadableAnswer, first_block, generated_text, last_block, truth_of
from assay.service.tasks.bioprobench.gen import generated_steps, matched
from assay.service.tasks.bioprobench.ord import MAX_DEPTH, MAX_LENGTH, compared, literal, order_of
from assay.service.tasks.bioprobench.pqa import answer_of
from assay.service.tasks.evaluation import evaluate
from assay.service.tasks.text.embedders import embedded, hashed_words
from tests.reference import bioprobench as twin
from tests.reference.bioprobench import step_shares
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
    order = order_of(response, steps)
    assert (None if isinstance(order, str) else [int(k) for k in order]) == twin.order(response, steps)


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
        with pytest.raises(UnreadableAnswer):
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
        "-" * (MAX_LENGTH - 1) + "1",
        "1+" * 30_000 + "1",
        f"{'9' * 400}+1j",
        f"[{'9' * 5000}]",
        "{[]: 1}",
        "[0" + " " * MAX_LENGTH + "]",
    ]:
        with pytest.raises(UnreadableAnswer):
            literal(text)
    assert literal(f"{'[' * MAX_DEPTH}{']' * MAX_DEPTH},") is not None


def test_rea_err_judges_each_id_once_where_asked():
    """The public judge appends its judgements to its input, so that every id occurs twice."""
    judged = {"id": "7", "is_correct": False, "generated_response": "False", "LLM_judge": "True", "corrupted_text": "x"}
    bare = {name: value for name, value in judged.items() if name != "LLM_judge"}
    records = [bare, judged, {**bare, "id": "8"}, {**bare, "id": None}]
    evaluation = evaluate("bioprobench.rea_err", records, deduplicate=True)
    assert [str(value) for value in evaluation.per_record["accuracy"]] == ["nan", "1.0", "1.0", "1.0"]
    assert evaluation.aggregate["consistency"] == 1.0
    assert evaluation.aggregate["consistency_eq8"] == pytest.approx(1 / 3)
    judged_now = evaluate(
        "bioprobench.rea_err", records, judge=lambda record, response: "[ANSWER_START]False[ANSWER_END]"
    )
    assert judged_now.aggregate["consistency"] == 0.25


STEPS = st.lists(st.sampled_from(["wash", "wash cells", "cells", "spin", "spin 5 ml", "the cells", "5"]), max_size=5)


@given(STEPS, STEPS)
@examples(40)
def test_steps(reference, generated):
    vectors = embedded(hashed_words, [*reference, *generated], "x")
    deltas = [0.7, 0.0, 0.5, 0.95]
    near = matched(reference, generated, vectors, deltas)
    if not reference or not generated:
        assert [counts.tolist() for counts in near] == [[0] * len(deltas)] * 2
        return
    cosine = [[float(vectors[a] @ vectors[b]) for b in generated] for a in reference]
    for k, delta in enumerate(deltas):
        shares = near[0][k] / len(reference), near[1][k] / len(generated)
        assert shares == pytest.approx(step_shares(cosine, delta), abs=1e-12)


def test_steps_in_blocks(monkeypatch):
    reference, generated = ["a", "b", "c", "a b", "d"], ["b", "e", "a b", "x"]
    vectors = embedded(hashed_words, [*reference, *generated], "x")
    whole = matched(reference, generated, vectors, [0.7])
    monkeypatch.setattr(gen, "CELLS", 6)
    assert matched(reference, generated, vectors, [0.7]) == whole == ([3], [2])


def test_empty_generations():
    """Those with the best precision are a warning."""
    assert generated_steps(" 1. Wash. \n\n \t\n- Spin.\r\n") == ["1. Wash.", "- Spin."]
    empty = {"output": ["Wash."], "generated_response": "<think>no</think>"}
    records = [{"output": ["Wash."], "generated_response": text} for text in ("", "Wash.", " ")]
    for option, precision in (("one", 1.0), ("zero", 0.0)):
        options = {"embedder": "hashed_words", "empty_step_precision": option}
        means = evaluate("bioprobench.gen", [empty], **options).aggregate
        assert means["step_precision"] == precision
        assert means["step_recall"] == means["rouge_l"] == means["keyword_f1"] == 0.0
        warnings = evaluate("bioprobench.gen", records, **options).warnings
        assert [text.startswith("2 responses are empty") for text in warnings] == [True] * (option == "one")
        assert evaluate("bioprobench.gen", records, metrics=["keyword_f1"], **options).warnings == []


def test_a_sweep_of_delta_embeds_once():
    """Its columns are those of evaluations with each value as delta."""
    texts: list[str] = []

    def counted(several):
        texts.extend(several)
        return hashed_words(several)

    records = [
        {"output": ["Wash the cells.", "Spin the tubes for 5 min."], "generated_response": "Wash cells.\nSpin tubes."},
        {"output": ["Add pbs."], "generated_response": "Add cold pbs."},
        {"output": "a text", "generated_response": "Add cold pbs."},
    ]
    names = ["step_recall"]
    swept = evaluate("bioprobench.gen", records, embedder=counted, delta_sweep=[0.4, 0.9], metrics=names)
    assert len(texts) == len(set(texts)) == 6
    for delta, column in ((0.4, "step_recall@0.4"), (0.7, "step_recall"), (0.9, "step_recall@0.9")):
        alone = evaluate("bioprobench.gen", records, embedder="hashed_words", delta=delta, metrics=names)
        assert np.array_equal(swept.per_record[column], alone.per_record["step_recall"], equal_nan=True)
        assert swept.aggregate[column] == alone.aggregate["step_recall"]
        assert swept.counts[column] == 2
    with pytest.raises(InvalidRequest) as caught:
        evaluate("bioprobench.gen", records, delta=1.5, delta_sweep=[0.5, -1])
    assert [issue.path for issue in caught.value.issues] == ["options.delta", "options.delta_sweep[1]"]
    with pytest.raises(InvalidRequest, match=r"options\.delta_sweep: .*32"):
        evaluate("bioprobench.gen", records, delta_sweep=[0.5] * 33)
