"""Vectors notice each rule beyond the paper that is broken in the twin: quantities to the column of steps."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

from assay.research.conformance import Vector, compare, read_vectors
from tests.reference import (
    added_numbers,
    added_words,
    alternatives,
    coverage,
    engine,
    gates,
    quantities,
    reward,
    scorer,
    semantics,
    step_column,
    steps,
    words,
)

LIST = "return [run for word in numbers for run in all_digit_runs([word]) - all_digit_runs(step_words(key))]"
STEPS = "{w for b, w, f in zip(['', *prose], prose, [*prose[1:], '']) if names_step(b, w, f, n)}"
WHOLE = "pair[0]._replace(objects=[element for step in key for element in [*step.objects, *step.parameters]])"
UTF_16 = "''.join(c if c < '\\U00010000' else '??' for c in added + response)"

BROKEN: dict[tuple[str, Callable[..., Any]], dict[str, tuple[str, str]]] = {
    ("quantities", quantities.quantity_text): {
        "thin spaces stay": ('THIN_SPACE.sub("", text)', "text"),
        "`0,` is no decimal": ("ZERO_COMMA.sub", "(lambda _, text: text)"),
        "a half is 1/2": ("FRACTION.sub", "(lambda _, text: text)"),
        "units have a case": ("canonical_text(text)", "''.join(c if c == 'M' else canonical_text(c) for c in text)"),
    },
    ("quantities", quantities.may_begin): {
        "a comparison begins like the rest": ('at == 0 or t[at] in "<>≤≥~≈"', "at == 0"),
        "in words": ("before.isalnum() or ", ""),
        "after `_`": ("._%^-+", ".%^-+"),
        "after `%`": ("._%^-+", "._^-+"),
        "after `-`": ("._%^-+", "._%^+"),
        "after `.`": ("._%^-+", "_%^-+"),
        "after a digit and `,`": (",:/", ":/"),
        "after a digit and `:`": (",:/", ",/"),
        "after a digit and `/`": (",:/", ",:"),
        "never after `/`": (" and t[at - 2 : at - 1] in DIGITS", ""),
    },
    ("quantities", quantities.may_end): {
        "before `_`": ('in "_^%"', 'in "^%"'),
        "before `^`": ('in "_^%"', 'in "_%"'),
        "before `%`": ('in "_^%"', 'in "_^"'),
        "before `.` and a letter": ('in ".-"', 'in "-"'),
        "before `-` and a letter": ('in ".-"', 'in "."'),
        "never before `.`": ("return not second.isalnum()", "return False"),
        "before `/` and a unit": ("return letters is None or letters[0] not in UNITS", "return True"),
        "never before `/`": ("return letters is None or letters[0] not in UNITS", "return False"),
        "between digits before `,`": ('in ",:"', 'in ":"'),
        "between digits before `:`": ('in ",:"', 'in ","'),
        "never before `:`": (" and t[at - 1] in DIGITS and second in DIGITS", ""),
    },
    ("quantities", quantities.decimal_of): {
        "13 digits": ("> MAX_SIGNIFICANT", "> MAX_SIGNIFICANT + 1"),
        "11 digits": ("> MAX_SIGNIFICANT", ">= MAX_SIGNIFICANT"),
        "31 digits": ("> MAX_DIGITS", "> MAX_DIGITS + 1"),
        "29 digits": ("> MAX_DIGITS", ">= MAX_DIGITS"),
        "zeros at the end are digits": (".strip(", ".lstrip("),
        "zeros at the beginning are digits": (".strip(", ".rstrip("),
        "quantities as doubles": ('Decimal(f"{mantissa}e{exponent}")', 'Decimal(float(f"{mantissa}e{exponent}"))'),
    },
    ("quantities", quantities.numeral): {
        "a decimal comma anywhere": ("decimal_comma=whole is not None", "False"),
    },
    ("quantities", quantities.one_unit): {
        "`x_g` is `x`": ("    if form:\n        return G_FORCE", "    if None:\n        return G_FORCE"),
        "no degrees": ("form[1] in DEGREES", "form[1] in ()"),
    },
    ("quantities", quantities.divisor): {
        "w-1 is no ratio": ("if form and form[1] in UNITS", "if False"),
    },
    ("quantities", quantities.unit): {
        "two hyphens": ('at + 1 if t[at : at + 1] == "-"', 'at + 2 if t[at : at + 2] == "--"'),
        "no hyphen": ('at + 1 if t[at : at + 1] == "-" else ', ""),
        "a ratio or nothing": ("if second and ends(t, second[1])", "if second"),
        "no letter after `%`": ('t[end - 1] == "%" and', "False and"),
    },
    ("quantities", quantities.ph): {
        "13 digits of pH": ("value = decimal_of(form[1])", "value = Decimal(form[1])"),
        "pH anywhere": ("or not may_end(t, form.end())", ""),
    },
    ("quantities", quantities.ratio): {
        "ratios as they stand": ("math.gcd(*parts) or 1", "1"),
        "ratios have no order": ("for part in parts))", "for part in sorted(parts)))"),
        "ratios may end anywhere": (" or not may_end(t, form.end())", ""),
    },
    ("quantities", quantities.two_values): {
        "the first unit must be able to end": (", before_dash=True", ""),
        "a tolerance is a range": ('else "tolerance"', 'else "range"'),
        "two dimensions": ("if first_unit and first_unit[0].dimension", "if False and first_unit[0].dimension"),
        "the second unit for both": ("(first_unit or second_unit)[0].size", "second_unit[0].size"),
        "the first unit for both": ("if first_unit or first.decimal_comma", "if first.decimal_comma"),
        "a decimal comma without a unit": ("first.decimal_comma or second.decimal_comma or ", ""),
    },
    ("quantities", quantities.with_further_times): {
        "any order of times": (" or unit_after[0].size >= size", ""),
        "equal units of time": (">= size", "> size"),
        "17 digits of a sum": ("> MAX_SUM", "> MAX_SUM - 1"),
        "20 digits of a sum": ("> MAX_SUM", "> MAX_SUM + 2"),
        "times with rates": ("unit_after[0].dimension != TIME", "not unit_after[0].dimension.startswith(TIME)"),
    },
    ("quantities", quantities.value): {
        "no comparisons": ('KINDS.get(mark, "")', '""'),
        "ranges with a comparison": ("if not sign and not kind and", "if not sign and"),
        "ranges with a sign": ("if not sign and not kind and", "if not kind and"),
        "sums with a sign": ("if dimension == TIME and not sign", "if dimension == TIME"),
        "no sums": ("if dimension == TIME and not sign", "if False"),
        "no signs": ("if negative", "if False"),
        "a plus is a minus": ('sign[0] != "+"', "True"),
        "a value before anything": (" or not may_end(t, number.end)", ""),
        "a decimal comma alone": ("elif number.decimal_comma or not", "elif not"),
    },
    ("quantities", quantities.words_of_piece): {
        "ambient temperature": ('(["room"], ["ambient"])', '(["room"],)'),
        "room temperature": ('(["room"], ["ambient"])', '(["ambient"],)'),
        "r.t": ('word == "r.t"', "False"),
    },
    ("quantities", quantities.all_terms): {
        "elements are joined": ("for element in elements for", 'for element in [" ".join(elements)] for'),
    },
    ("quantities", semantics.object_match): {
        "quantities among objects": (
            "iou(all_words(p.objects), all_words(r.objects))",
            "iou(all_terms([' '.join(o) for o in p.objects]), all_terms([' '.join(o) for o in r.objects]))",
        ),
    },
    ("quantities", semantics.parameter_match): {
        "quantities always": ('mode == "quantities"', "mode"),
    },
    ("errors", semantics.quantity_errors): {
        "added and left out": ("added | left_out", "added + left_out"),
        "added alone": ("(added | left_out)", "added"),
        "left out alone": ("(added | left_out)", "left_out"),
        "dimensions together": ("quantity.dimension for quantity in ours", '"" for quantity in ours'),
        "no ratios": ("in ours - theirs", "in ours - theirs if quantity.dimension != 'ratio'"),
        "no numbers": ("in ours - theirs", "in ours - theirs if quantity.dimension"),
    },
    ("errors", semantics.step_semantics): {
        "errors without a factor": ('settings["quantity_error_factor"] < 1', "True"),
        "errors of steps with equal objects": (
            "for i, j in W)",
            "for i, j in W if prediction[i].objects == reference[j].objects)",
        ),
    },
    ("errors", quantities.ratio): {
        "ratios are values": ('"ratio", "", tuple(', '"", "", tuple('),
    },
    ("errors", reward.total): {
        "the factor once": ("** errors", "** min(errors, 1)"),
        "the factor of semantics alone": (
            'return score * settings["quantity_error_factor"] ** errors',
            'return score if settings["total"] == "sum" else score * settings["quantity_error_factor"] ** errors',
        ),
    },
    ("coverage", coverage.digit_runs): {
        "ASCII digits alone": ("str(unicodedata.decimal(character, character))", "character"),
    },
    ("coverage", coverage.akin): {
        "akin by two characters": ("len(a) < 3 or a[:3] != b[:3]", "len(a) < 2 or a[:2] != b[:2]"),
        "half of the shorter word": ("max(len(a), len(b))", "min(len(a), len(b))"),
        "akin by more than half": (">= max", "> max"),
    },
    ("coverage", coverage.covered): {
        "nothing is akin": ("return any(akin(word, other) for other in prose if has_letter(other))", "return False"),
        "words akin to numbers": (" if has_letter(other)", ""),
        "numbers akin": ("if has_letter(word)", "if word"),
        "one run is enough": ("runs <= numbers", "bool(runs & numbers)"),
        "no runs are enough": ("bool(runs) and", ""),
    },
    ("coverage", coverage.step_coverage): {
        "always substrings": ('mode == "substring"', "mode"),
        "no parts": ("{*prose_words, *parts(orc.text)}", "set(prose_words)"),
        "parts alone": ("{*prose_words, *parts(orc.text)}", "set(parts(orc.text))"),
        "lines before the first step": ("words(orc.text)", "words(orc.before + ' ' + orc.text)"),
    },
    ("coverage", words.parts): {
        "a hyphen before anything": ('c == "-" and after.isalpha()', 'c == "-"'),
        "a hyphen before alphanumerics": ("after.isalpha()", "after.isalnum()"),
    },
    ("added", added_numbers.names_step): {
        "`steps` is no step": ("in STEP_NAMES", '== "step"'),
        "`step` is no step": ("in STEP_NAMES", '== "steps"'),
        "`step` is a part of a word": ("before in STEP_NAMES", "'step' in before"),
        "any step": ("1 <= int(word) <= n", "True"),
        "step 0": ("1 <= int(word)", "0 <= int(word)"),
        "a step too many": ("<= n", "<= n + 1"),
        "amounts of steps": (" and following not in UNITS", ""),
    },
    ("added", added_numbers.added_numbers): {
        "added numbers repeat": ("return all_digit_runs(numbers) - all_digit_runs(step_words(key))", LIST),
        "numbers of words alone": ("- all_digit_runs(step_words(key))", "- step_words(key)"),
        "steps' numbers anywhere": (
            "return all_digit_runs(numbers)",
            f"return all_digit_runs(numbers) - {STEPS}",
        ),
        "no lines before the first step": ('words(f"{orc.before} {orc.text}")', "words(orc.text)"),
        "whole numbers": ("all_digit_runs(numbers)", "{n for n in numbers if n.isdecimal()}"),
    },
    ("added", gates.too_many_numbers): {
        "added numbers distinct in all steps": (
            "sum(len(added_numbers(*pair, len(pairs))) for pair in pairs)",
            "len(set().union(*(added_numbers(*pair, len(pairs)) for pair in pairs)))",
        ),
        "numbers of other steps": (
            "added_numbers(*pair, len(pairs))",
            f"added_numbers((lambda key: {WHOLE})([key for key, _ in pairs]), pair[1], len(pairs))",
        ),
        "the limit itself closes": ("> k", ">= k"),
    },
    ("added", gates.consistency_gate): {
        "no coverage beside added numbers": (
            '"added_numbers", format=1, coverage=coverage',
            '"added_numbers", format=1, coverage=0.0',
        ),
        "added numbers before coverage": (
            'if coverage < settings["min_coverage"]',
            'if settings["max_added_numbers"] is None and coverage < settings["min_coverage"]',
        ),
    },
    ("added-words", added_words.added_words): {
        "no parts of the prose": ('f"{orc.before} {orc.text}"', 'f"{orc.before} {orc.text}".replace("-", "_")'),
        "no lines before the first step": ('f"{orc.before} {orc.text}"', "orc.text"),
        "numbers are words": (" if has_letter(word)", ""),
        "no parts of the step": ("T.union(*map(parts, T))", "T"),
        "units are words": (" - UNITS.keys()", ""),
        "function words count": ("word in FUNCTION_WORDS or ", ""),
        "akin words count": ("or any(akin(word, other) for other in explained)", ""),
        "akin to words with letters": ("for other in explained", "for other in explained if has_letter(other)"),
        "akin negations": ("word in NEGATIONS or not", "not"),
        "negations of the step": (" - explained - UNITS", " - UNITS"),
    },
    ("added-words", gates.too_many_words): {
        "steps together": ("len(words) > k", "sum(map(len, added)) > k"),
        "the limit itself closes": ("len(words) > k", "len(words) >= k"),
        "negations are words": (" or words & NEGATIONS", ""),
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
