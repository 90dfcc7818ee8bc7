"""One record: the calls of its two programs, as BioPlanner's script finds them and by Python's grammar, compared."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..python_source import Unreadable
from ..text.ngrams import METHOD_1, NO_SMOOTHING, sentence_bleu
from .calls import FunctionCall, Program, calls_by_script, defined_functions

__all__ = ["ProgramReading", "mean", "precision_recall", "read", "read_order"]

NAN = math.nan
S = TypeVar("S")
T = TypeVar("T")
SEPARATOR = re.compile(r"""[\s,()"']""")
UNDEFINED = "undefined_function"
MAX_FUNCTIONS = 51  # the script has 52 letters, one of them for undefined functions

Matched = Sequence[tuple[Mapping[str, str], Mapping[str, str]]]


@dataclass
class ProgramReading:
    """The calls of one record, predicted and true; `in_order` by Python's grammar, `sequences` in the chosen mode."""

    values: dict[str, float] = field(default_factory=dict)
    sequences: tuple[list[str], list[str]] | None = None
    penalty: int = 0
    in_order: tuple[list[str], list[str]] | None = None
    pairs: list[tuple[str, str]] = field(default_factory=list)
    failure: tuple[str, bool] | None = None

    def add_functions(self, predicted: Iterable[str], true: Iterable[str]) -> None:
        self.values["function_precision"], self.values["function_recall"] = precision_recall(predicted, true)

    def add_arguments(self, matched: Matched, as_script: bool) -> None:
        shares = [precision_recall(predicted, true) for predicted, true in matched]
        self.values["argument_precision"] = mean(precision for precision, _ in shares)
        self.values["argument_recall"] = mean(recall for _, recall in shares)
        self.values["argument_bleu"] = mean(argument_bleu(predicted, true, as_script) for predicted, true in matched)
        self.pairs = [
            (value, true[name]) for predicted, true in matched for name, value in predicted.items() if name in true
        ]


def predicted_text(record: Mapping[str, Any]) -> str:
    return f"{record.get('prediction_functions', '')}\n{record['prediction_code']}"


def both(reading: ProgramReading, function: Callable[[S], T], predicted: S, true: S) -> tuple[T, T] | None:
    of_prediction = True
    try:
        first = function(predicted)
        of_prediction = False
        return first, function(true)
    except Unreadable as error:
        reading.failure = reading.failure or (error.reason, of_prediction)
        return None


def read(record: Mapping[str, Any], by_script: bool) -> ProgramReading:
    reading = ProgramReading()
    predicted, true = predicted_text(record), record["ground_truth"]
    functions = known_functions(reading, record) if by_script else None
    programs = both(reading, Program, predicted, true)
    if programs is not None:
        reading.in_order = programs[0].names(), programs[1].names()
    if by_script:
        ours, theirs = calls_by_script(predicted), calls_by_script(true)
        reading.add_functions(ours, theirs)
        matched = [(arguments, theirs[name]) for name, arguments in ours.items() if name in theirs]
        reading.add_arguments(matched, as_script=True)
        if programs is not None and functions is not None:
            read_as_script(reading, {*functions, UNDEFINED}, programs)
    elif programs is not None and reading.in_order is not None:
        reading.sequences = reading.in_order
        reading.add_functions(*reading.in_order)
        calls = both(reading, Program.calls, *programs)
        if calls is not None:
            reading.add_arguments(matched_in_order(*calls), as_script=False)
    return reading


def known_functions(reading: ProgramReading, record: Mapping[str, Any]) -> list[str] | None:
    try:
        functions = defined_functions(record.get("prediction_functions", ""))
        if len(functions) > MAX_FUNCTIONS:
            raise Unreadable("too_many_functions")
    except Unreadable as error:
        reading.failure = (error.reason, True)
        return None
    return functions


def read_as_script(reading: ProgramReading, allowed: set[str], programs: tuple[Program, Program]) -> None:
    names = both(reading, Program.walked_names, *programs)
    if names is not None:
        reading.penalty = sum(name not in allowed for name in names[0])
        predicted, true = ([name if name in allowed else UNDEFINED for name in side] for side in names)
        reading.sequences = predicted, true


def read_order(record: Mapping[str, Any], names_of: Callable[[str], list[str]]) -> ProgramReading:
    reading = ProgramReading()
    try:
        reading.in_order = Program(predicted_text(record)).names(), names_of(record["ground_truth"])
        reading.add_functions(*reading.in_order)
    except Unreadable as error:
        reading.failure = (error.reason, True)
    return reading


def precision_recall(predicted: Iterable[str], true: Iterable[str]) -> tuple[float, float]:
    ours, theirs = Counter(list(predicted)), Counter(list(true))
    common = (ours & theirs).total()
    return (common / ours.total() if ours else NAN, common / theirs.total() if theirs else NAN)


def mean(values: Iterable[float]) -> float:
    numbers = [value for value in values if not math.isnan(value)]
    return math.fsum(numbers) / len(numbers) if numbers else NAN


def matched_in_order(predicted: Sequence[FunctionCall], true: Sequence[FunctionCall]) -> Matched:
    left: defaultdict[str, list[Mapping[str, str]]] = defaultdict(list)
    for call in reversed(true):
        left[call.name].append(call.arguments)
    return [(call.arguments, left[call.name].pop()) for call in predicted if left[call.name]]


def argument_bleu(predicted: Mapping[str, str], true: Mapping[str, str], as_script: bool) -> float:
    """Return BLEU-2 of the texts `name value …` of two calls; the script takes the true one as the hypothesis."""
    ours, theirs = words(predicted), words(true)
    if as_script:
        return sentence_bleu(ours, theirs, smoothing=NO_SMOOTHING)
    return sentence_bleu(theirs, ours, smoothing=METHOD_1)


def words(arguments: Mapping[str, str]) -> list[str]:
    text = " ".join(part for pair in arguments.items() for part in pair)
    return [word for word in SEPARATOR.split(text) if word]
