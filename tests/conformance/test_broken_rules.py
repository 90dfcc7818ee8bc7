"""Vectors notice each rule of version 3 that is broken in the twin: quantities to the column of steps."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType

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

BROKEN: dict[str, tuple[str, ModuleType, str, str, str]] = {
    "quantities without dimensions": ("quantities", quantities, "terms", "(dimension, EXACT", "('', EXACT"),
    "a number without unit in base units": ("quantities", quantities, "terms", '("", number)', '("volume", number)'),
    "quantities as doubles": ("quantities", quantities, "terms", EXACT, "float(number) * size"),
    "quantities in 64 bits": ("quantities", quantities, "terms", EXACT, "int(number * size) % 2**64"),
    "quantities of 13 digits": ("quantities", quantities, "terms", EXACT, f"Decimal(f'{{{EXACT}:.12e}}')"),
    "values as text": ("quantities", quantities, "terms", '("", number)', '("", str(number))'),
    "units are also words": (
        "quantities",
        quantities,
        "terms",
        "size))))\n            following = next(words)",
        "size))))",
    ),
    "15 digits are exact": ("quantities", quantities, "value", "> MAX_DIGITS", "> MAX_DIGITS + 1"),
    "14 digits are not exact": ("quantities", quantities, "value", "> MAX_DIGITS", ">= MAX_DIGITS"),
    "zeros at the end are digits": ("quantities", quantities, "value", ".strip(", ".lstrip("),
    "zeros at the beginning are digits": ("quantities", quantities, "value", ".strip(", ".rstrip("),
    "a sign is a digit": ("quantities", quantities, "value", "len(form[1]", "len(form[0]"),
    "quantities without signs": ("quantities", quantities, "value", "Decimal(word)", "abs(Decimal(word))"),
    "minus zero is not zero": ("quantities", quantities, "terms", '("", number)', '("-" * number.is_signed(), number)'),
    "elements are joined": ("quantities", quantities, "all_terms", "terms(element)", "terms(sum(elements, ()))"),
    "quantities among objects": (
        "quantities",
        semantics,
        "object_match",
        "iou(all_words(p.objects), all_words(r.objects))",
        "iou(all_terms(p.objects), all_terms(r.objects))",
    ),
    "quantities always": ("quantities", semantics, "parameter_match", 'mode == "quantities"', "mode"),
    "`steps` is no step": ("added", added_numbers, "added_numbers", "not in STEP_NAMES", '!= "step"'),
    "`step` is no step": ("added", added_numbers, "added_numbers", "not in STEP_NAMES", '!= "steps"'),
    "`step` is a part of a word": (
        "added",
        added_numbers,
        "added_numbers",
        "before not in STEP_NAMES",
        "'step' not in before",
    ),
    "once after `step` is enough": ("added", added_numbers, "added_numbers", "(key)", f"(key) - {UNEXCEPTED}"),
    "added numbers repeat": ("added", added_numbers, "added_numbers", "return numbers - step_words(key)", LIST),
    "added numbers as parts of words": (
        "added",
        added_numbers,
        "added_numbers",
        "return numbers - step_words(key)",
        "return {number for number in numbers if number not in ' '.join(step_words(key))}",
    ),
    "ranges are no numbers": (
        "added",
        added_numbers,
        "added_numbers",
        "(word) and",
        "(word) and '-' not in word[1:] and",
    ),
    "values alone are numbers": (
        "added",
        added_numbers,
        "added_numbers",
        "(word) and",
        "(word) and word.count('.') < 2 and",
    ),
    "added numbers distinct in all steps": (
        "added",
        gates,
        "consistency_gate",
        "sum(len(added_numbers(*pair)) for pair in pairs)",
        "len(set().union(*(added_numbers(*pair) for pair in pairs)))",
    ),
    "numbers of other steps": (
        "added",
        gates,
        "consistency_gate",
        "added_numbers(*pair)",
        f"added_numbers({WHOLE}, pair[1])",
    ),
    "the limit itself closes": ("added", gates, "consistency_gate", "> k", ">= k"),
    "added numbers before coverage": ("added", gates, "consistency_gate", "< tau", "< tau and k is None"),
    "no coverage beside added numbers": (
        "added",
        gates,
        "consistency_gate",
        '"added_numbers", format=1, coverage=coverage',
        '"added_numbers", format=1, coverage=0.0',
    ),
    "the last of equal alternatives": ("alternatives", alternatives, "first_best", "next(", "max("),
    "the largest alternative": ("alternatives", alternatives, "first_best", "<= TIE", "<= 0"),
    "alternatives within 2e-9": ("alternatives", alternatives, "first_best", "<= TIE", "<= 2 * TIE"),
    "alternatives by score": ("alternatives", scorer, "score_one", 'result["reward"]', 'result["score"]'),
    "the first alternative": ("alternatives", alternatives, "first_best", "return next", "return 0 and next"),
    "a step ends with its first line": ("steps", step_column, "orc_spans", "spans[-1] = (spans[-1][0], end)", "pass"),
    "a step ends at the next": (
        "steps",
        step_column,
        "orc_spans",
        "spans.append(",
        "spans[-1:] = [(first, start) for first, _ in spans[-1:]]\n            spans.append(",
    ),
    "steps by bytes": (
        "steps",
        step_column,
        "places",
        "added + response",
        "(added + response).encode().decode('latin-1')",
    ),
    "steps by UTF-16": ("steps", step_column, "places", "added + response", UTF_16),
    "steps from the added tag": ("steps", step_column, "places", "key_start - len(added)", "key_start"),
    "prose from the added tag": ("steps", step_column, "places", "orc_start - len(added)", "orc_start"),
    "steps with the white space after them": (
        "steps",
        steps,
        "line_spans",
        "first + len(line.strip(ASCII_SPACE))",
        "stop",
    ),
    "references from 1": ("steps", step_column, "step_column", '"reference": j,', '"reference": j + 1,'),
    "no match without value": ("steps", step_column, "step_column", "in matches}", "in matches if value}"),
    "the smallest coverage": (
        "steps",
        step_column,
        "step_column",
        '"coverage": coverage',
        '"coverage": min(coverages)',
    ),
    "no steps behind the gate": ("steps", scorer, "steps_of", "not read.coverages", "not read.key"),
    "steps of the first alternative": (
        "steps",
        scorer,
        "score_one",
        "alternatives[best], settings)",
        "alternatives[0], settings)",
    ),
    "the last alternative has the steps": ("steps", alternatives, "first_best", "next(", "max("),
}
"""Vectors that must notice, a function of the twin, and what is replaced in its source."""


@pytest.fixture(scope="module")
def cases() -> list[Vector]:
    return read_vectors(["score", "steps"])


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_noticed(monkeypatch, cases, name):
    vectors, module, function, before, after = BROKEN[name]
    whole = getattr(module, function)
    source = inspect.getsource(whole)
    assert source.count(before) == 1
    found: dict[str, object] = {}
    exec(source.replace(before, after), vars(module), found)
    for other in [other for key, other in sys.modules.items() if key.startswith("tests.reference.")]:
        if vars(other).get(function) is whole:
            monkeypatch.setattr(other, function, found[function])
    some = [case for case in cases if case.id.startswith((f"score/{vectors}/", f"{vectors}/"))]
    compared = compare(some, {case.id: engine.answer(case.row) for case in some})
    assert 0 < compared.passed.total() < len(some)
