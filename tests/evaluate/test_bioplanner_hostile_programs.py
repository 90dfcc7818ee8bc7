"""Any text of a model is a result with a reason, and a shared reference is read once."""

from __future__ import annotations

import ast
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer
from assay.kernels.sequences import levenshtein_distances
from assay.service.tasks.bioprobench import ord as ordering
from assay.service.tasks.evaluation import evaluate
from assay.service.tasks.text.tokens import compare_sequences, pieces
from tests.strategies import examples

pytestmark = pytest.mark.attack

TRUE = 'wash(cells="HeLa", times="3")\nspin(cells="HeLa")\n'

PROGRAMS = {
    "sum": f"f({'1+' * 2_500}1)",
    "powers": f"f({'1**' * 2_500}1)",
    "nots": f"f({'not ' * 2_500}x)",
    "signs": f"f({'-' * 2_500}1)",
    "attributes": f"f(a{'.b' * 2_500})",
    "calls of calls": f"f{'()' * 2_500}",
    "subscripts": f"f(a{'[0]' * 2_500})",
    "conditions": f"f({'a if b else ' * 2_500}c)",
    "lambdas": f"f({'lambda:' * 2_500}c)",
    "lambdas between": f"f({'a or lambda: b and ' * 70}c)",
    "comparisons": f"f({'a<' * 10_000}b)",
    "brackets": "f(" * 2_500 + ")" * 2_500,
    "brackets within the limit": "f(" * 50 + ")" * 50,
    "lists": f"f({'[' * 49}{']' * 49})",
    "hexadecimal": f"f(0x{'f' * 10_000})",
    "decimal": f"f({'9' * 10_000})",
    "float": f"f({'9' * 10_000}.0, 1e999, -1e999, 1e999j)",
    "starred": "f(*a, **b, *c)",
    "strings": """f("a" 'b' f"{x!r:>{y}}" b'c')""",
    "format of quotes": """f(f"{f'{x}'}" "\\\\")""",
    "format of everything": """f(f"{x['a']} {y['b']}" '"' "'" '''"''')""",
    "null": "f('\0')",
    "surrogate": "f('\ud800')",
    "escaped surrogate": r"f('\ud800', '\N{DIGIT ONE}')",
    "byte order mark": "\ufefff(1)",
    "indentation": "\n".join(" " * k + "if x:" for k in range(120)) + "\n" + " " * 120 + "f()",
    "branches": "if a:\n f()\n" + "elif a:\n f()\n" * 3_000,
    "decorators": "@f\n" * 3_000 + "def g(): f()",
    "walrus": f"f({'(a:=' * 45}1{')' * 45})",
    "comprehensions": f"f([x {'for x in y ' * 2_500}])",
    "parameters": f"def f({','.join(f'a{k}' for k in range(5_000))}): pass\nf(1)",
    "matches": f"match x:\n case {'[' * 45}{']' * 45}: f(1)",
    "names": "ﬁ(x=1); K(ſ=2)",
    "empty": "",
}


FAILURES = {"syntax_error", "too_large", "attribute_call", "too_many_functions"}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_any_program_is_a_result(name):
    program = PROGRAMS[name]
    scores = Scorer().score([program, TRUE], [TRUE], [0, 0], task="bioplanner")
    assert scores.reasons[0] in ("ok", "syntax_error", "too_large", "no_calls")
    assert scores.rewards[1] == 1
    for mode in ("upstream", "fixed"):
        records = [
            {"ground_truth": TRUE, "prediction_code": program},
            {"ground_truth": program, "prediction_code": TRUE, "prediction_functions": program},
            {"ground_truth": TRUE, "prediction_code": TRUE},
        ]
        result = evaluate("bioplanner", records, mode=mode)
        assert result.per_record["levenshtein_normalized"][2] == 0
        assert {failure.reason for failure in result.failed} <= FAILURES
        assert 2 not in {failure.record for failure in result.failed} or mode == "upstream"


def test_what_cannot_be_written_out_costs_only_the_metrics_of_arguments():
    record = {"ground_truth": TRUE, "prediction_code": f"{TRUE}\nspin(cells=0x{'f' * 10_000})"}
    result = evaluate("bioplanner", [record, {**record, "prediction_code": TRUE}], mode="fixed")
    assert [(failure.record, failure.reason, failure.of_response) for failure in result.failed] == [
        (0, "too_large", True)
    ]
    assert math.isnan(result.per_record["argument_bleu"][0])
    assert result.per_record["argument_bleu"][1] > 0
    assert result.per_record["levenshtein"][0] == 1
    assert Scorer().score([record["prediction_code"]], [TRUE], task="bioplanner").reasons.tolist() == ["ok"]


FRAGMENTS = st.sampled_from(
    [*"()[]{}.,:+-*~@=\\'\"\n\t 01fx#\0\ud800é𝟙", "not ", "lambda:", "await ", "if x else ", "0x", "1e999", "f(", "..."]
) | st.sampled_from(["**", 'f"', "{x}", "def f():\n ", "class A:\n ", "=>", ":=", "yield ", "import "])


@given(st.lists(st.tuples(FRAGMENTS, st.integers(1, 400)), max_size=8))
@examples(150)
def test_programs_of_repeated_pieces_are_results(parts):
    program = "".join(piece * times for piece, times in parts)
    scores = Scorer().score([program, f"f({program})"], [TRUE], [0, 0], task="bioplanner")
    assert np.isfinite(scores.rewards).all()
    for mode in ("upstream", "fixed"):
        evaluate("bioplanner", [{"ground_truth": TRUE, "prediction_code": f"f({program})"}], mode=mode)


def test_one_reference_is_read_once(monkeypatch):
    texts: list[str] = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda text, **options: texts.append(text) or parse(text, **options))
    Scorer().score(["f()"] * 50, [TRUE], task="bioplanner")
    assert texts.count(TRUE) <= 2  # when the reference is checked, and for the rewards
    asked: list[int] = []
    fault = ordering.record_fault
    monkeypatch.setattr(ordering, "record_fault", lambda record: asked.append(1) or fault(record))
    steps = [f"step {k}" for k in range(5)]
    reference = {"wrong_steps": steps, "correct_steps": steps}
    Scorer().score(["[ANSWER_START][0][ANSWER_END]"] * 50, [reference], task="bioprobench.ord")
    assert len(asked) == 2


def processor_seconds(task: str, options: dict[str, str], responses: list[str], reference: object) -> float:
    started = time.process_time()
    Scorer().score(responses, [reference], [0] * len(responses), task=task, task_options=options)
    return time.process_time() - started


STEPS = [f"{k}" for k in range(10_000)]
SHUFFLED = {"wrong_steps": STEPS, "correct_steps": STEPS}
TURNS = "\n".join(f"Step {k}: wash" for k in range(9_000)), str([*range(1, 9_001)])
CONVERSATION = {"conversations": [{"from": "human", "value": TURNS[0]}, {"from": "gpt", "value": TURNS[1]}]}
QUESTION = {"question": "A) 5 ml\n" * 25_000, "answer": "A) 5 ml"}
THOTH = {"profile": "thoth"}

LONG = {
    "bioplanner": ("bioplanner", {}, "f()", "wash(cells='HeLa')\n" * 3_000),
    "ord": ("bioprobench.ord", {}, "[ANSWER_START][0][ANSWER_END]", SHUFFLED),
    "ord of indices": ("bioprobench.ord", THOTH, "[1]", SHUFFLED),
    "ord of a conversation": ("bioprobench.ord", THOTH, "[1]", CONVERSATION),
    "pqa by letter": ("bioprobench.pqa", THOTH, "A", QUESTION),
}


@pytest.mark.parametrize("name", sorted(LONG))
def test_many_responses_to_one_long_reference_cost_little_more_than_one(name):
    task, options, response, reference = LONG[name]
    single = processor_seconds(task, options, [response], reference)
    many = processor_seconds(task, options, [response] * 40, reference)
    assert many < 6 * single + 0.5, (single, many)


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 15))
@examples(100)
def test_pieces_are_all_rows_in_order(sizes, most):
    parts = list(pieces(sizes, most))
    assert [size for piece in parts for size in sizes[piece]] == sizes
    assert all(sum(sizes[piece]) <= most or piece.stop - piece.start == 1 for piece in parts)


def test_distances_do_not_depend_on_the_pieces(monkeypatch):
    pairs = [(["a"] * (k % 7), ["a", "b"] * (k % 5)) for k in range(60)]
    expected = compare_sequences(levenshtein_distances, pairs).tolist()
    monkeypatch.setattr("assay.service.tasks.text.tokens.NAMES_AT_ONCE", 10)
    assert compare_sequences(levenshtein_distances, pairs).tolist() == expected
