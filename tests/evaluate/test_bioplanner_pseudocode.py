"""BioPlanner's metrics: the script's reading against its regular expressions, and the reading by Python's grammar."""

from __future__ import annotations

import ast
import math
import random
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.tasks.bioplanner import Program, calls_by_script, defined_functions, precision_recall
from assay.service.tasks.bioprobench.answers import UnreadableAnswer, depth
from assay.service.tasks.evaluation import evaluate
from tests.reference import bioplanner as twin
from tests.strategies import examples

PIECES = [
    *("def f(a):", "\n    pass\n", "f(a='1')", 'g(b="x y", c="z")', "f()", "g", "a=", "# f(a='2')", "o.run(a='1')")
]
PIECES += ['h(a="it\'s")', "f (a='1')", "range(3)", "é(x='1')", "x='", "f(g(a='1'))", "", *"() \n\"'=,"]
FUNCTIONS = "def wash(cells, times):\n    pass\n\ndef spin(cells):\n    pass\n"
TRUE = f'{FUNCTIONS}\nwash(cells="HeLa", times="3")\nspin(cells="HeLa")\nwash(cells="HeLa", times="1")\n'


def evaluated(prediction: str, true: str = TRUE, functions: str = FUNCTIONS, **options):
    record = {"ground_truth": true, "prediction_code": prediction, "prediction_functions": functions}
    return evaluate("bioplanner", [record], **options)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@examples(200)
def test_stated_calls_are_those_of_the_expressions(code):
    assert calls_by_script(code) == twin.stated(code)


@given(
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
)
@examples(40)
def test_shares_of_functions(prediction, true):
    means = evaluated(prediction, true, functions="").aggregate
    ours, theirs = set(twin.stated(prediction)), set(twin.stated(true))
    for name, share in (("precision", twin.share(theirs, ours)), ("recall", twin.share(ours, theirs))):
        assert means[f"function_{name}"] == (None if share is None else pytest.approx(share, abs=1e-12))


def random_program(dice: random.Random, names: list[str]) -> str:
    lines = []
    for _ in range(dice.randrange(12)):
        call = f'{dice.choice(names)}(a="{dice.randrange(3)}")'
        lines.append(dice.choice([call, f"x = {call}", f"for i in y:\n    {call}", f"{dice.choice(names)}({call})"]))
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(4))
def test_distances_of_random_programs(seed):
    dice = random.Random(seed)
    names = ["wash", "spin", "mix"]
    functions = "".join(f"def {name}(a):\n    pass\n" for name in names[:2])
    records = [
        {
            "ground_truth": random_program(dice, names),
            "prediction_functions": functions,
            "prediction_code": random_program(dice, [*names, "burn"]),
        }
        for _ in range(60)
    ]
    evaluation = evaluate("bioplanner", records)
    for row, record in enumerate(records):
        predicted = f"{functions}\n{record['prediction_code']}"
        expected = twin.penalized_distance(names[:2], predicted, record["ground_truth"])
        assert evaluation.per_record["levenshtein"][row] == expected
        lines = len(record["ground_truth"].split("\n"))
        assert evaluation.per_record["levenshtein_scaled"][row] == pytest.approx(expected / lines, abs=1e-12)


def test_the_two_readings_differ():
    """The script rarely gives these: an identical program has an argument BLEU below 1, and undefined calls cost."""
    code = TRUE.removeprefix(FUNCTIONS)
    means = evaluated(code, mode="fixed", embedder="hashed_words").aggregate
    assert means["levenshtein"] == means["levenshtein_normalized"] == 0
    full = ["function_precision", "function_recall", "argument_precision", "argument_recall", "argument_bleu"]
    assert [means[name] for name in full] == pytest.approx([1.0] * 5)
    assert means["scibert_score"] == pytest.approx(1.0)
    invented = evaluated("burn(cells='HeLa')", true="burn(cells='HeLa')")
    assert invented.aggregate["levenshtein"] == 1
    assert invented.aggregate["levenshtein_normalized"] == 0
    code = 'wash(cells="HeLa", times="3")\nspin(cells="HeLa")'
    by_script, by_grammar = evaluated(code).aggregate, evaluated(code, mode="fixed").aggregate
    assert (by_script["function_precision"], by_script["function_recall"]) == (1.0, 1.0)
    assert (by_grammar["function_precision"], by_grammar["function_recall"]) == (1.0, pytest.approx(2 / 3))
    assert by_grammar["levenshtein_normalized"] == by_script["levenshtein_normalized"] == pytest.approx(1 / 3)


def test_calls_by_grammar():
    code = "def f(x, y):\n    g(1)\nfor i in h(2):\n    f('a', y=3 + 4)\no.run(f(5), **z)\n(lambda: 0)()\nk(*w)"
    calls = Program(code).calls()
    assert [(call.name, dict(call.arguments)) for call in calls] == [
        ("h", {"0": "2"}),
        ("f", {"x": "a", "y": "3 + 4"}),
        ("run", {"0": "f(5)", "**": "z"}),
        ("f", {"x": "5"}),
        ("k", {"0": "*w"}),
    ]
    code = "f(g(h()), k())\na.b().c(d())\nf()()\ndef z(x=y()):\n    w()"
    assert Program(code).names() == ["f", "g", "h", "k", "b", "c", "d", "f"]
    assert [depth(code) for code in ("", "f()", "f(g([{}]))", ")))(", "((")] == [0, 1, 4, 1, 2]
    assert precision_recall(["a", "a", "b"], ["a", "c"]) == (pytest.approx(1 / 3), 0.5)
    assert all(math.isnan(value) for value in precision_recall([], []))
    # An invalid escape is a warning of Python's parser, which would show a piece of the text.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Program(r"f('\d')").names() == ["f"]


@given(st.integers(0, 10**6))
@examples(30)
def test_the_walk_is_that_of_python(seed):
    code = random_program(random.Random(seed), ["wash", "spin"]) + "\ndef f(x=g()):\n    h(k())\n    i(j=l())"
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    assert Program(code).walked_names() == [ast.unparse(node.func) for node in calls]
    with pytest.raises(UnreadableAnswer, match="attribute_call"):
        Program("robot.run()").walked_names()


def test_definitions_are_cut_as_the_script_cuts_them():
    code = "def f(x):\n    def g(y):\n        pass\nz = 1\ndef h(x): pass\nclass C:\n    def k(self):\n  pass"
    assert defined_functions(code) == ["f", "g", "h"]
    assert defined_functions(" def f(x): pass\nasync def g(x): pass") == []
    with pytest.raises(UnreadableAnswer, match="syntax_error"):
        defined_functions("def f(x):\nspin()")


@pytest.mark.parametrize(
    ("prediction", "true", "functions", "reason", "of_response"),
    [
        ("wash(", TRUE, FUNCTIONS, "syntax_error", True),
        ("wash()", "def f(:", FUNCTIONS, "syntax_error", False),
        ("wash()", TRUE, "def f(x):\nno body", "syntax_error", True),
        ("robot.wash()", TRUE, FUNCTIONS, "attribute_call", True),
        ("wash()", "robot.wash()", FUNCTIONS, "attribute_call", False),
        ("wash()", TRUE, "".join(f"def f{k}(x):\n    pass\n" for k in range(52)), "too_many_functions", True),
        ("(" * 60 + ")" * 60, TRUE, FUNCTIONS, "too_large", True),
        ("wash()\0", TRUE, FUNCTIONS, "syntax_error", True),
    ],
)
def test_what_cannot_be_read_has_no_distance(prediction, true, functions, reason, of_response):
    evaluation = evaluated(prediction, true, functions)
    assert [(failure.reason, failure.of_response) for failure in evaluation.failed] == [(reason, of_response)]
    assert evaluation.aggregate["levenshtein"] is evaluation.aggregate["levenshtein_scaled"] is None
    assert evaluation.aggregate["failed"] == 1
    functions = "".join(f"def f{k}(x):\n    pass\n" for k in range(51))  # as many as the script has letters for
    assert evaluated("f0(x='1')", "f0(x='1')", functions).aggregate["levenshtein"] == 0
