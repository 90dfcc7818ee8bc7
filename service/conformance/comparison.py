"""Compare answers with the expected values of test vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .vectors import Vector

__all__ = ["TOLERANCE", "Comparison", "Mismatch", "compare"]

TOLERANCE = 1e-9  # largest difference of two numbers that are equal, unless bits are compared
OPTIONAL = ("components", "metrics")  # objects whose fields an answer may leave out; these are not compared
NOTHING = "nothing"


class Mismatch(NamedTuple):
    id: str
    field: str
    expected: Any
    got: Any


@dataclass
class Comparison:
    """Numbers of vectors that passed, by group, and the fields that differ, in the order of the vectors."""

    cases: Counter[str]
    passed: Counter[str]
    differences: list[Mismatch]
    left_out: Counter[str]  # number of answers without a field that they may leave out


def compare(cases: Sequence[Vector], answers: Mapping[str, Mapping[str, Any]], exact: bool = False) -> Comparison:
    """Compare the answers by id; numbers within 1e-9, or bit by bit if `exact`."""
    comparison = Comparison(Counter(), Counter(), [], Counter())
    for case in cases:
        answer = answers.get(case.id)
        comparison.cases[case.group] += 1
        if answer is None:
            different = [Mismatch(case.id, "answer", "an answer", NOTHING)]
        else:
            different = list(differences(case, answer, exact))
            comparison.left_out.update(optional_fields(case.expected).keys() - optional_fields(answer).keys())
        comparison.passed[case.group] += not different
        comparison.differences += different
    return comparison


def differences(case: Vector, answer: Mapping[str, Any], exact: bool) -> Iterator[Mismatch]:
    if "error" in answer or "error" in case.expected:
        fields = {"error": (case.expected.get("error", NOTHING), answer.get("error", NOTHING))}
    else:
        fields = dict(pairs_of(case.expected, answer))
    for field, (expected, got) in fields.items():
        if not equal(expected, got, exact):
            yield Mismatch(case.id, field, expected, got)


def pairs_of(expected: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name, value in expected.items():
        if name not in OPTIONAL:
            yield name, (value, answer.get(name, NOTHING))
    fields = optional_fields(answer)
    for field, value in optional_fields(expected).items():
        if field in fields:
            yield field, (value, fields[field])


def optional_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{name}.{field}": value
        for name in OPTIONAL
        if isinstance(fields := document.get(name), dict)
        for field, value in fields.items()
    }


def equal(expected: Any, got: Any, exact: bool) -> bool:
    if isinstance(expected, list):
        same_length = isinstance(got, list) and len(expected) == len(got)
        return same_length and all(equal(left, right, exact) for left, right in zip(expected, got, strict=True))
    if not isinstance(expected, float):
        return bool(expected == got)
    if not isinstance(got, (int, float)) or isinstance(got, bool):
        return False
    try:
        number = float(got)
    except OverflowError:
        return False
    return number.hex() == expected.hex() if exact else abs(number - expected) <= TOLERANCE
