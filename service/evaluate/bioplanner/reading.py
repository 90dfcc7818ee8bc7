"""One record: the calls of its two programs, as BioPlanner's script finds them and by Python's grammar."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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


def read(record: Mapping[str, Any], by_script: bool) -> Reading:
    """Read one record as the script does, or by Python's grammar."""
    reading = Reading()
    known = known_functions(reading, record) if by_script else None
    trees: list[ast.Module] = []
    for text, of_prediction in ((predicted_text(record), True), (record["ground_truth"], False)):
        try:
            trees.append(parse_program(text))
        except Unreadable as error:
            reading.failure = reading.failure or (error.reason, of_prediction)
    if len(trees) == 2:
        found = [calls_in(tree) for tree in trees]
        reading.in_order = called_names(found[0]), called_names(found[1])
    if by_script:
        stated_by = calls_by_script(predicted_text(record)), calls_by_script(record["ground_truth"])
        functions_of(reading, precision_recall(*stated_by))
        arguments_of(reading, matched_by_name(*stated_by), as_script=True)
        if len(trees) == 2 and known is not None:
            read_as_script(reading, {*known, UNDEFINED}, found)
    elif reading.in_order is not None:
        reading.sequences = reading.in_order
        functions_of(reading, precision_recall(*reading.in_order))
        arguments_by_grammar(reading, trees)
    return reading


def read_order(record: Mapping[str, Any], names_of: Callable[[str], list[str]]) -> Reading:
    """Read what a reward needs of a record; `names_of` is `names_called` for the true program, and may be cached."""
    reading = Reading()
    names: list[list[str]] = []
    for text, read_names in ((predicted_text(record), names_called), (record["ground_truth"], names_of)):
        try:
            names.append(read_names(text))
        except Unreadable as error:
            reading.failure = reading.failure or (error.reason, read_names is names_called)
    if len(names) == 2:
        reading.in_order = names[0], names[1]
        functions_of(reading, precision_recall(*names))
    return reading


def names_called(text: str) -> list[str]:
    """Return the names of the calls of a text in its order, by Python's grammar; raises Unreadable."""
    return called_names(calls_in(parse_program(text)))


def arguments_by_grammar(reading: Reading, trees: Sequence[ast.Module]) -> None:
    """Compare the arguments of both programs, or record a failure if one cannot be unparsed."""
    of_prediction = True
    try:
        predicted = calls_with_arguments(trees[0])
        of_prediction = False
        true = calls_with_arguments(trees[1])
    except Unreadable as error:
        reading.failure = (error.reason, of_prediction)
        return
    arguments_of(reading, matched_in_order(predicted, true), as_script=False)


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
    of_prediction = True
    try:
        predicted = walked_names(found[0])
        of_prediction = False
        true = walked_names(found[1])
    except Unreadable as error:
        reading.failure = (error.reason, of_prediction)
        return
    reading.penalty = sum(name not in allowed for name in predicted)
    reading.sequences = (
        [name if name in allowed else UNDEFINED for name in predicted],
        [name if name in allowed else UNDEFINED for name in true],
    )
