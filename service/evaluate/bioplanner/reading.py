"""One record: the calls of its two programs, as BioPlanner's script finds them and by Python's grammar."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from ..python_source import Unreadable
from .agreement import (
    Matched,
    argument_bleu,
    argument_precision_recall,
    matched_by_name,
    matched_in_order,
    precision_recall,
    value_pairs,
)
from .calls import (
    Found,
    called_names,
    calls_by_script,
    calls_in,
    calls_with_arguments,
    defined_functions,
    parse_program,
    walked_names,
)

__all__ = ["Reading", "names_called", "read", "read_order"]

T = TypeVar("T")

UNDEFINED = "undefined_function"
MAX_FUNCTIONS = 51
"""Functions that the script can number: it has 52 letters, one of them for undefined functions."""


@dataclass
class Reading:
    """What is read of one record, before distances and vectors are computed for all."""

    values: dict[str, float] = field(default_factory=dict)
    sequences: tuple[list[str], list[str]] | None = None
    """Names of the calls, predicted and true, in the chosen mode."""
    penalty: int = 0
    in_order: tuple[list[str], list[str]] | None = None
    """The same by Python's grammar."""
    pairs: list[tuple[str, str]] = field(default_factory=list)
    """Values of matched arguments, predicted and true."""
    failure: tuple[str, bool] | None = None
    """Why something is missing, and whether the prediction is the cause."""


def predicted_text(record: Mapping[str, Any]) -> str:
    return f"{record.get('prediction_functions', '')}\n{record['prediction_code']}"


def both(reading: Reading, predicted: Callable[[], T], true: Callable[[], T]) -> tuple[T, T] | None:
    """Read the prediction, then the truth; None, with the reading's first failure recorded, if one is unreadable."""
    of_prediction = True
    try:
        first = predicted()
        of_prediction = False
        return first, true()
    except Unreadable as error:
        reading.failure = reading.failure or (error.reason, of_prediction)
        return None


def read(record: Mapping[str, Any], by_script: bool) -> Reading:
    """Read one record as the script does, or by Python's grammar."""
    reading = Reading()
    predicted, true = predicted_text(record), record["ground_truth"]
    known = known_functions(reading, record) if by_script else None
    trees = both(reading, partial(parse_program, predicted), partial(parse_program, true))
    if trees is not None:
        found = calls_in(trees[0]), calls_in(trees[1])
        reading.in_order = called_names(found[0]), called_names(found[1])
    if by_script:
        stated_by = calls_by_script(predicted), calls_by_script(true)
        functions_of(reading, precision_recall(*stated_by))
        arguments_of(reading, matched_by_name(*stated_by), as_script=True)
        if trees is not None and known is not None:
            read_as_script(reading, {*known, UNDEFINED}, found)
    elif trees is not None and reading.in_order is not None:
        reading.sequences = reading.in_order
        functions_of(reading, precision_recall(*reading.in_order))
        calls = both(reading, *(partial(calls_with_arguments, tree) for tree in trees))
        if calls is not None:
            arguments_of(reading, matched_in_order(*calls), as_script=False)
    return reading


def read_order(record: Mapping[str, Any], names_of: Callable[[str], list[str]]) -> Reading:
    """Read what a reward needs of a record; `names_of` is `names_called` for the true program, and may be cached."""
    reading = Reading()
    predicted = partial(names_called, predicted_text(record))
    reading.in_order = both(reading, predicted, partial(names_of, record["ground_truth"]))
    if reading.in_order is not None:
        functions_of(reading, precision_recall(*reading.in_order))
    return reading


def names_called(text: str) -> list[str]:
    """Return the names of the calls of a text in its order, by Python's grammar; raises Unreadable."""
    return called_names(calls_in(parse_program(text)))


def known_functions(reading: Reading, record: Mapping[str, Any]) -> list[str] | None:
    """Return the functions that may be called; None, with a failure recorded, if the script cannot list them."""
    try:
        known = defined_functions(record.get("prediction_functions", ""))
        if len(known) > MAX_FUNCTIONS:
            raise Unreadable("too_many_functions")
    except Unreadable as error:
        reading.failure = (error.reason, True)
        return None
    return known


def functions_of(reading: Reading, found: tuple[float, float]) -> None:
    reading.values["function_precision"], reading.values["function_recall"] = found


def arguments_of(reading: Reading, matched: Matched, as_script: bool) -> None:
    reading.values["argument_precision"], reading.values["argument_recall"] = argument_precision_recall(matched)
    reading.values["argument_bleu"] = argument_bleu(matched, as_script)
    reading.pairs = value_pairs(matched)


def read_as_script(reading: Reading, allowed: set[str], found: Sequence[list[Found]]) -> None:
    """Read the two sequences that the script compares, or record a failure if it would raise."""
    names = both(reading, *(partial(walked_names, calls) for calls in found))
    if names is not None:
        reading.penalty = sum(name not in allowed for name in names[0])
        predicted, true = ([name if name in allowed else UNDEFINED for name in side] for side in names)
        reading.sequences = predicted, true
