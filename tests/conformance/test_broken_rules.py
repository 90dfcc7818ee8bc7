"""Vectors notice each rule of version 3 that is broken in the twin: quantities to the column of steps."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

from assay.research.conformance import Vector, compare, read_vectors
from tests.reference import (
    added_numbers,
    alternatives,
    engine,
    gates,
    quantities,
    scorer,
    semantics,
    step_column,
    steps,
)

EXACT = "EXACT.multiply(number, Decimal(size))"
LIST = "return [word for before, word in zip(['', *prose], prose) if word in numbers - step_words(key)]"
UNEXCEPTED = "{word for before, word in zip(['', *prose], prose) if before in STEP_NAMES}"
WHOLE = "pair[0]._replace(objects=[element for step in key for element in [*step.objects, *step.parameters]])"
UTF_16 = "''.join(c if c < '\\U00010000' else '??' for c in added + response)"

BROKEN: dict[tuple[str, Callable[..., Any]], dict[str, tuple[str, str]]] = {
    ("quantities", quantities.terms): {
        "quantities without dimensions": ("(dimension, EXACT", "('', EXACT"),
        "a number without unit in base units": ('("", number)', '("volume", number)'),
        "quantities as doubles": (EXACT, "float(number) * size"),
        "quantities in 64 bits": (EXACT, "int(number * size) % 2**64"),
        "quantities of 13 digits": (EXACT, f"Decimal(f'{{{EXACT}:.12e}}')"),
        "values as text": ('("", number)', '("", str(number))'),
        "units are also words": ("size))))\n            following = next(words)", "size))))"),
        "minus zero is not zero": ('("", number)', '("-" * number.is_signed(), number)'),
    },
    ("quantities", quantities.value): {
        "15 digits are exact": ("> MAX_DIGITS", "> MAX_DIGITS + 1"),
        "14 digits are not exact": ("> MAX_DIGITS", ">= MAX_DIGITS"),
        "zeros at the end are digits": (".strip(", ".lstrip("),
        "zeros at the beginning are digits": (".strip(", ".rstrip("),
        "a sign is a digit": ("len(form[1]", "len(form[0]"),
        "quantities without signs": ("Decimal(word)", "abs(Decimal(word))"),
    },
    ("quantities", quantities.all_terms): {
        "elements are joined": ("terms(element)", "terms(sum(elements, ()))"),
    },
    ("quantities", semantics.object_match): {
        "quantities among objects": (
            "iou(all_words(p.objects), all_words(r.objects))",
            "iou(all_terms(p.objects), all_terms(r.objects))",
        ),
    },
    ("quantities", semantics.parameter_match): {
        "quantities always": ('mode == "quantities"', "mode"),
    },
    ("added", added_numbers.added_numbers): {
        "`steps` is no step": ("not in STEP_NAMES", '!= "step"'),
        "`step` is no step": ("not in STEP_NAMES", '!= "steps"'),
        "`step` is a part of a word": ("before not in STEP_NAMES", "'step' not in before"),
        "once after `step` is enough": ("(key)", f"(key) - {UNEXCEPTED}"),
        "added numbers repeat": ("return numbers - step_words(key)", LIST),
        "added numbers as parts of words": (
            "return numbers - step_words(key)",
            "return {number for number in numbers if number not in ' '.join(step_words(key))}",
        ),
        "ranges are no numbers": ("(word) and", "(word) and '-' not in word[1:] and"),
        "values alone are numbers": ("(word) and", "(word) and word.count('.') < 2 and"),
    },
    ("added", gates.consistency_gate): {
        "added numbers distinct in all steps": (
            "sum(len(added_numbers(*pair)) for pair in pairs)",
            "len(set().union(*(added_numbers(*pair) for pair in pairs)))",
        ),
        "numbers of other steps": ("added_numbers(*pair)", f"added_numbers({WHOLE}, pair[1])"),
        "the limit itself closes": ("> k", ">= k"),
        "added numbers before coverage": ("< tau", "< tau and k is None"),
        "no coverage beside added numbers": (
            '"added_numbers", format=1, coverage=coverage',
            '"added_numbers", format=1, coverage=0.0',
        ),
    },
    ("alternatives", alternatives.first_best): {
        "the last of equal alternatives": ("next(", "max("),
        "the largest alternative": ("<= TIE", "<= 0"),
        "alternatives within 2e-9": ("<= TIE", "<= 2 * TIE"),
        "the first alternative": ("return next", "return 0 and next"),
    },
    ("alternatives", scorer.score_one): {
        "alternatives by score": ('result["reward"]', 'result["score"]'),
    },
    ("steps", step_column.orc_spans): {
        "a step ends with its first line": ("spans[-1] = (spans[-1][0], end)", "pass"),
        "a step ends at the next": (
            "spans.append(",
            "spans[-1:] = [(first, start) for first, _ in spans[-1:]]\n            spans.append(",
        ),
    },
    ("steps", step_column.places): {
        "steps by bytes": ("added + response", "(added + response).encode().decode('latin-1')"),
        "steps by UTF-16": ("added + response", UTF_16),
        "steps from the added tag": ("key_start - len(added)", "key_start"),
        "prose from the added tag": ("orc_start - len(added)", "orc_start"),
    },
    ("steps", steps.line_spans): {
        "steps with the white space after them": ("first + len(line.strip(ASCII_SPACE))", "stop"),
    },
    ("steps", step_column.step_column): {
        "references from 1": ('"reference": j,', '"reference": j + 1,'),
        "no match without value": ("in matches}", "in matches if value}"),
        "the smallest coverage": ('"coverage": coverage', '"coverage": min(coverages)'),
    },
    ("steps", scorer.steps_of): {
        "no steps behind the gate": ("not read.coverages", "not read.key"),
    },
    ("steps", scorer.score_one): {
        "steps of the first alternative": ("alternatives[best], settings)", "alternatives[0], settings)"),
    },
    ("steps", alternatives.first_best): {
        "the last alternative has the steps": ("next(", "max("),
    },
}
"""By the vectors that must notice and a function of the twin: what is replaced in its source, by what."""
RULES = {name: (*place, *change) for place, changes in BROKEN.items() for name, change in changes.items()}


@pytest.fixture(scope="module")
def cases() -> list[Vector]:
    return read_vectors(["score", "steps"])


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_a_broken_rule_is_noticed(monkeypatch, cases, name):
    vectors, whole, before, after = RULES[name]
    function, source = whole.__name__, inspect.getsource(whole)
    assert source.count(before) == 1
    names: dict[str, object] = {}
    exec(source.replace(before, after), vars(sys.modules[whole.__module__]), names)
    for other in [other for key, other in sys.modules.items() if key.startswith("tests.reference.")]:
        if vars(other).get(function) is whole:
            monkeypatch.setattr(other, function, names[function])
    some = [case for case in cases if case.id.startswith((f"score/{vectors}/", f"{vectors}/"))]
    compared = compare(some, {case.id: engine.answer(case.row) for case in some})
    assert 0 < compared.passed.total() < len(some)
