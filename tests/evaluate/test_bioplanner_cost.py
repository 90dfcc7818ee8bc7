"""One program, whatever it is, costs little more than an ordinary one of the same length; a longer one is refused."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from assay import Scorer
from assay.service.tasks.bioplanner import MAX_DEPTH, MAX_LENGTH, MAX_WRITTEN, Program
from assay.service.tasks.bioprobench.answers import (
    MAX_BRACES,
    MAX_MARKS,
    MAX_NAMES,
    MAX_TOKENS,
    UnreadableAnswer,
    parse_python,
)
from assay.service.tasks.evaluation import evaluate
from tests.evaluate.program_forms import FORMS, Form

TRUE = 'wash(cells="HeLa", times="3")\nspin(cells="HeLa")\n'
ORDINARY = "wash(cells='HeLa')\n" * (MAX_LENGTH // 20)

SHORT, LONG = 8_192, 65_536
SLACK = 4
"""A quadratic form takes 64 times as long, a linear one 8 times."""
TOO_QUICK = 0.1
"""Seconds below which times are not compared."""

OUTSIDE = {
    "fields": f"f(f'{'{x}' * (MAX_BRACES + 1)}')",
    "raw fields": f"f(Rf'''{'{x!r}' * (MAX_BRACES + 1)}''')",
    "fields of many strings": "f(" + "f'{x}'" * (MAX_BRACES + 1) + ")",
    "import": "import a" + ".a" * MAX_NAMES,
    "spaced import": "f()\nfrom a" + " \\\n . b" * MAX_NAMES + " import c",
    "marks": f"a{chr(0x301)}{(chr(0x323) + chr(0x301)) * (MAX_MARKS // 2)}(1)",
    "marks by decomposition": f"a{chr(0xF73) * (MAX_MARKS + 1)}(1)",
    "voiced marks of katakana": f"a{(chr(0xFF9E) + chr(0x301)) * (MAX_MARKS // 2 + 1)}(1)",
    "signs": f"f({'-' * MAX_TOKENS}1)",
}
INSIDE = {
    "fields": f"f(f'{'{x}' * MAX_BRACES}')",
    "braces without f-strings": "f({}, '{}')\n" * MAX_BRACES,
    "import": "import a" + ".a" * (MAX_NAMES - 1) + "\nf()",
    "attributes without import": "f(a" + ".a" * 2 * MAX_NAMES + ")",
    "marks": f"a{chr(0x301) * MAX_MARKS}(1)",
    "no marks": f"f('{'─' * 1_000}')",
    "ordinary": ORDINARY,
}

TEXT = "x" * (MAX_LENGTH // MAX_NAMES - 1)
LARGEST = {
    "fields": f"f(f'{'x' * (MAX_LENGTH - 3 * MAX_BRACES - 7)}{'{x}' * MAX_BRACES}')",
    "fields in a field": f"""f(f'{"x" * 130_000}{{f"{"x" * 120_000}{"{x}" * (MAX_BRACES - 1)}"}}')""",
    "import": "import " + ".".join([TEXT[1:]] * MAX_NAMES),
    "import of short names": f"import {'.'.join('x' * MAX_NAMES)}\n" * 600 + "1 1",
    "marks": f"f(a{(chr(0x323) + chr(0x301)) * (MAX_MARKS // 2)})\n" * (MAX_LENGTH // (MAX_MARKS + 5)),
    "parameters": f"def g({'a,' * (MAX_TOKENS // 2 - 10)}1): f()",
    "targets": f"({'a,' * (MAX_TOKENS // 2 - 10)})=1=1",
    "lists in lists": f"{'[' * 49}a{']' * 49}\n" * (MAX_TOKENS // 99) + "1 1",
    "deletions": f"del {'(' * 49}{'a,' * (MAX_TOKENS // 2 - 60)}1{')' * 49}",
}


def seconds(function: Callable[..., object], *arguments: object) -> float:
    """Return the CPU time of a call."""
    started = time.process_time()
    function(*arguments)
    return time.process_time() - started


def parse(text: str) -> str:
    """Return "ok", or why a program is not read."""
    try:
        parse_python(text, MAX_LENGTH, MAX_DEPTH)
    except UnreadableAnswer as error:
        return error.reason
    return "ok"


def reasons(program: str) -> list[str]:
    return Scorer().score([program, TRUE], [TRUE], [0, 0], task="bioplanner").reasons.tolist()


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_costly_form_is_too_large(name: str) -> None:
    assert reasons(OUTSIDE[name]) == ["too_large", "ok"]
    record = {"ground_truth": TRUE, "prediction_code": OUTSIDE[name]}
    for mode in ("upstream", "fixed"):
        failures = evaluate("bioplanner", [record], mode=mode).failed
        assert [(failure.record, failure.reason, failure.of_response) for failure in failures] == [
            (0, "too_large", True)
        ]


@pytest.mark.parametrize("name", INSIDE)
def test_what_is_not_costly_is_read(name: str) -> None:
    assert reasons(INSIDE[name]) == ["ok", "ok"]


@pytest.mark.slow
@pytest.mark.attack
@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_program_costs_little_more_than_an_ordinary_one(name: str) -> None:
    """A program at the limits, of a form whose cost per character is the greatest known."""
    program = LARGEST[name]
    assert len(program) <= MAX_LENGTH
    assert parse(program) in ("ok", "syntax_error")
    times = []
    for _ in range(3):
        times.append(seconds(parse, program) / seconds(parse, ORDINARY))
        if times[-1] < 5:
            return
    raise AssertionError(f"{name}: {times} times an ordinary program")


@pytest.mark.attack
@pytest.mark.parametrize("piece", ["{x}", "{x!r}", "{x:{y}}"])
def test_fields_of_f_strings_do_not_hold_up_a_batch(piece: str) -> None:
    """Three answers of 255 KB with tens of thousands of fields among 64, which took half a minute on Python 3.11."""
    hostile = f"f(f'{piece * (260_000 // len(piece))}')"
    responses = [hostile] * 3 + [TRUE] * 61
    times = []
    for _ in range(3):  # beside an ordinary program in each: a busy machine slows down either
        started = time.process_time()
        scores = Scorer().score(responses, [TRUE], [0] * 64, task="bioplanner")
        times.append((time.process_time() - started, seconds(parse, ORDINARY)))
        assert scores.reasons.tolist() == ["too_large"] * 3 + ["ok"] * 61
        assert scores.rewards.tolist() == [0] * 3 + [1] * 61
        if times[-1][0] < 3 * times[-1][1] + TOO_QUICK:
            break
    spent, ordinary = times[-1]
    assert spent < 3 * ordinary + TOO_QUICK, f"seconds of (the batch, an ordinary program): {times}"


def check(form: Form) -> None:
    """Raise AssertionError if the parser's time grows faster than a form's length."""
    long = seconds(parse, form.program(LONG))
    for _ in range(3):
        if long < TOO_QUICK:
            return
        short = max(seconds(parse, form.program(SHORT)), TOO_QUICK * SHORT / LONG)
        if long < short * LONG / SHORT * SLACK:
            return
        long = min(long, seconds(parse, form.program(LONG)))  # the machine may have been busy
    if long < short * LONG / SHORT * SLACK:
        return
    raise AssertionError(f"{form.before[:60]!r} {form.piece[:60]!r} {form.after[:60]!r}: {short:.3f} s, {long:.3f} s")


@pytest.mark.attack
@pytest.mark.parametrize("part", range(2))
def test_the_parser_takes_linear_time(part: int) -> None:
    """Every fortieth of some 1,400 forms of repetition, nesting and errors, at two sizes."""
    for form in FORMS[part * 20 :: 80]:
        check(form)


@pytest.mark.slow
@pytest.mark.attack
def test_the_parser_takes_linear_time_for_every_form() -> None:
    """All of these forms, at two sizes."""
    for form in FORMS:
        check(form)


def write_out(program: Program) -> None:
    with pytest.raises(UnreadableAnswer, match="too_large"):
        program.calls()


@pytest.mark.slow
@pytest.mark.attack
@pytest.mark.parametrize("inner", ["1," * 40_000, "-1," * 30_000, "a(b=c)," * 14_000, f"'{'a ' * 100_000}'+1"])
def test_nested_calls_are_not_written_out_again_and_again(inner: str) -> None:
    """A long argument in 45 calls that each write it out: 6 s for one answer of an evaluation."""
    program = Program("f(" * 45 + inner + ")" * 45)
    for _ in range(3):
        if seconds(write_out, program) < 5 * seconds(parse, ORDINARY):
            break
    else:
        raise AssertionError("it takes too long")
    record = {"ground_truth": TRUE, "prediction_code": "f(" * 45 + inner + ")" * 45}
    result = evaluate("bioplanner", [record, {**record, "prediction_code": TRUE}], mode="fixed")
    assert [(failure.record, failure.reason) for failure in result.failed] == [(0, "too_large")]
    assert result.per_record["argument_bleu"][1] > 0


def test_arguments_up_to_the_limit_are_written_out() -> None:
    levels = MAX_WRITTEN // 20_000 - 2
    program = Program("f(" * levels + "'" + "a" * 20_000 + "'" + ")" * levels)
    assert len(program.calls()) == levels
