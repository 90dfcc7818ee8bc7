"""ProtoMed-LLM's task: protocols as pseudocode, compared call by call."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import Field

from ...kernels.sequences import levenshtein_distances
from .bioprobench.answers import UnreadableAnswer, parse_python
from .task import (
    COMMON_REASONS,
    LOCAL,
    OK,
    Advance,
    Evaluation,
    Metric,
    OptionalDependencies,
    RecordFailure,
    Records,
    Task,
    TaskOptions,
    TaskRecord,
    TaskRewards,
    reporting,
)
from .text.embedders import Embedder, EmbedderOption, cls_model, embedded, embedder_of
from .text.tokens import METHOD_1, NO_SMOOTHING, compare_sequences, sentence_bleu

MAX_LENGTH = 262_144
MAX_DEPTH = 50  # levels of brackets: limits the time of Python's parser
MAX_LEVELS = 150  # of an argument that is unparsed, which Python does by recursion
MAX_WRITTEN = 2 * MAX_LENGTH
"""Characters of all arguments: nested calls are written out once for each call around them."""

HEAD = re.compile(r"(?<!\w)(\w++)\s*+\(")
ARGUMENT = re.compile(r"""(?<!\w)(\w++)=["']([^"']++)["']""")
DEFINITION = re.compile(r"^def \w++\(.*?\):.*+(?:\n[^\S\n].*+)*+", re.MULTILINE)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WITHOUT_CALLS = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.Pass)


class FunctionCall(NamedTuple):
    """One call; its arguments by name, or by position (`0`, `1`, …) if the name is unknown."""

    name: str
    arguments: Mapping[str, str]


def calls_by_script(code: str) -> dict[str, dict[str, str]]:
    """Find calls as the script's `parse_pseudocode` does: function name to the arguments of its last `name(…)`.

    A call ends at the first `)`, counts also in definitions and comments, and has only arguments `name="value"`.
    """
    calls: dict[str, dict[str, str]] = {}
    position = 0
    while head := HEAD.search(code, position):
        begin = head.end()
        stop = code.find(")", begin)
        if stop < 0:
            break
        position = begin
        if stop > begin:
            calls[head[1]] = dict(ARGUMENT.findall(code, begin, stop))
            position = stop + 1
    return calls


def defined_functions(code: str) -> list[str]:
    """Return the names of functions whose definitions begin a line; raises Unreadable if one cannot be parsed."""
    return [
        node.name
        for definition in DEFINITION.findall(code)
        for node in ast.walk(parse_python(definition, MAX_LENGTH, MAX_DEPTH))
        if isinstance(node, ast.FunctionDef)
    ]


class Program:
    """The calls of a program, by Python's grammar; raises Unreadable if it is not Python or exceeds the limits."""

    def __init__(self, code: str) -> None:
        self._calls: list[ast.Call] = []
        self._in_order: list[tuple[str, ast.Call]] = []
        """Calls of plain names and of attributes outside definitions, in the order of the text."""
        self._parameters: dict[str, list[str]] = {}
        level: list[tuple[ast.AST, bool]] = [(parse_python(code, MAX_LENGTH, MAX_DEPTH), False)]
        for node, in_definition in level:  # it grows during the loop
            if isinstance(node, DEFINITIONS):
                in_definition = True
                self._parameters[node.name] = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            elif isinstance(node, ast.Call):
                self._calls.append(node)
                if not in_definition and isinstance(node.func, ast.Name | ast.Attribute):
                    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                    self._in_order.append((name, node))
            for name_of_child in node._fields:
                value = getattr(node, name_of_child, None)
                children = value if isinstance(value, list) else (value,)
                level += [
                    (child, in_definition)
                    for child in children
                    if isinstance(child, ast.AST) and not isinstance(child, WITHOUT_CALLS)
                ]
        self._in_order.sort(key=lambda call: (call[1].func.end_lineno or 0, call[1].func.end_col_offset or 0))

    def walked_names(self) -> list[str]:
        """Return the names of all calls in the script's order; raises Unreadable for anything but a plain name."""
        if not all(isinstance(node.func, ast.Name) for node in self._calls):
            raise UnreadableAnswer("attribute_call")
        return [node.func.id for node in self._calls if isinstance(node.func, ast.Name)]

    def names(self) -> list[str]:
        return [name for name, _ in self._in_order]

    def calls(self) -> list[FunctionCall]:
        calls: list[FunctionCall] = []
        written = 0
        for name, node in self._in_order:
            calls.append(FunctionCall(name, self._arguments(name, node)))
            written += sum(map(len, calls[-1].arguments.values()))
            if written > MAX_WRITTEN:
                raise UnreadableAnswer("too_large")
        return calls

    def _arguments(self, name: str, node: ast.Call) -> dict[str, str]:
        names = self._parameters.get(name, [])
        positional = {
            names[k] if k < len(names) else str(k): expression_text(value) for k, value in enumerate(node.args)
        }
        return positional | {keyword.arg or "**": expression_text(keyword.value) for keyword in node.keywords}


def expression_text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    level: list[ast.AST] = [node]
    for _ in range(MAX_LEVELS):
        level = [child for parent in level for child in ast.iter_child_nodes(parent)]
    try:
        if not level:
            return ast.unparse(node)
    except (RecursionError, ValueError):  # a number with too many digits, a string without a literal
        pass
    raise UnreadableAnswer("too_large")


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
    except UnreadableAnswer as error:
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
            raise UnreadableAnswer("too_many_functions")
    except UnreadableAnswer as error:
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
    except UnreadableAnswer as error:
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


BEYOND = (
    "more than 262,144 characters, 131,072 words and signs, 50 levels of brackets or 100 combining marks in a row; "
    "with f-strings, more than 2,000 opening braces; with imports, a dotted name of more than 100 names"
)
FAILURES = {
    "syntax_error": "The text, or a definition in it, is not Python.",
    "too_large": f"The text has {BEYOND}; or its calls have arguments that are too deep or too long to be written out.",
    "attribute_call": "The text calls something that is not a plain name, which the script cannot read.",
    "too_many_functions": "More than 51 functions are defined: the script has no letters for more.",
}
PUBLISHED_MODEL = "allenai/scibert_scivocab_uncased"
NO_CALLS = "no_calls"
REASONS = {
    OK: "The program was read.",
    "syntax_error": "The program is not Python.",
    "too_large": f"The program has {BEYOND}.",
    NO_CALLS: "The program calls nothing.",
    **COMMON_REASONS,
}


class PseudocodeRecord(TaskRecord):
    """One protocol as pseudocode, true and predicted, in the form that BioPlanner's script evaluates."""

    ground_truth: str = Field(description="The true program, with the definitions of its functions.")
    prediction_code: str = Field(description="The predicted program.")
    prediction_functions: str = Field("", description="Definitions of the functions that it may call.")


class PseudocodeOptions(TaskOptions):
    """Options of BioPlanner's metrics."""

    mode: Literal["upstream", "fixed"] = Field(
        "upstream",
        description="`upstream` computes what the public script does; `fixed` reads programs by Python's grammar: "
        "calls in the order of the text without those in definitions, each counted, prediction against truth.",
    )
    embedder: EmbedderOption = Field(
        None,
        description="For scibert_score: `hashed_words` needs no weights but is not comparable with published values; "
        "in Python, any function of texts to vectors.",
    )
    embedding_model: str | None = Field(
        None,
        description="For scibert_score: a model of Transformers whose first vector counts, by name or folder; "
        "published: allenai/scibert_scivocab_uncased.",
        json_schema_extra=LOCAL,
    )
    reward: Literal["order", "function_f1"] = Field(
        "order",
        description="Rewards, from 0 to 1: 1 - levenshtein_normalized, or the harmonic mean of the precision and "
        "recall of called functions; both by Python's grammar.",
    )


class Pseudocode(Task):
    name = "bioplanner"
    description = "BioPlanner and ProtoMed-LLM: functions, arguments and order of the calls of protocols as pseudocode."
    record = PseudocodeRecord
    options = PseudocodeOptions
    metrics = (
        Metric("function_precision", "Func P", "Share of the predicted functions that the true program calls."),
        Metric("function_recall", "Func R", "Share of the true program's functions that are predicted."),
        Metric("argument_precision", "Arg P", "Of the arguments of matched calls, the share that is right, by name."),
        Metric("argument_recall", "Arg R", "Of the true arguments of matched calls, the share predicted, by name."),
        Metric("argument_bleu", "Arg BLEU", "BLEU-2 of the names and values of the arguments of matched calls."),
        Metric("scibert_score", "SciBERT", "Mean cosine of the embedded values of matched arguments.", low=-1.0),
        Metric(
            "levenshtein",
            "Lev",
            "Levenshtein distance of the called functions; upstream, plus 1 for each undefined one predicted.",
            high=None,
            less_is_better=True,
        ),
        Metric(
            "levenshtein_scaled",
            "Lev / lines",
            "Levenshtein distance of the called functions over the number of lines of the true program.",
            high=None,
            less_is_better=True,
        ),
        Metric(
            "levenshtein_normalized",
            "Lev / calls",
            "Levenshtein distance of the calls in the order of the text over the larger number of calls, in any mode.",
            less_is_better=True,
        ),
        Metric(
            "failed",
            "Failed",
            "Share of records in which something could not be read.",
            percent=True,
            less_is_better=True,
        ),
    )
    failures = FAILURES
    libraries: ClassVar[Mapping[str, tuple[str, ...]]] = {"embedding_model": ("transformers", "torch")}
    response = "prediction_code"
    reward = (
        "1 - the normalized Levenshtein distance of the calls, from 0 to 1 (`reward = function_f1`: F1 of functions)."
    )
    reasons = REASONS
    compares = True
    text_reference = "ground_truth"
    components = ("order_similarity", "function_precision", "function_recall")
    passed_if = ("order_similarity",)

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        readings = [read(record, options.mode == "upstream") for record in reporting(records, advance)]
        columns = {metric.name: column_of(readings, metric.name) for metric in self.metrics}
        columns["levenshtein"] = distances([reading.sequences for reading in readings])
        columns["levenshtein"] += [reading.penalty for reading in readings]
        lines = np.array([record["ground_truth"].count("\n") + 1 for record in records], float)
        columns["levenshtein_scaled"] = columns["levenshtein"] / lines
        columns["levenshtein_normalized"] = normalized_distances(readings)
        columns["failed"] = np.array([reading.failure is not None for reading in readings], float)
        failed = [
            RecordFailure(row, reading.failure[0], of_response=reading.failure[1])
            for row, reading in enumerate(readings)
            if reading.failure is not None
        ]
        dependencies = OptionalDependencies(self, options)
        load = partial(embedder_of, options, "SciBERTScore needs", PUBLISHED_MODEL, cls_model)
        embedder = dependencies.load(load, "scibert_score")
        if embedder is not None:
            columns["scibert_score"] = similarities(readings, embedder)
        return Evaluation(columns, failed, unavailable=dependencies.unavailable)

    def rewards(self, records: Records, options: Any, advance: Advance) -> TaskRewards:
        names_of = cache(lambda true: Program(true).names())  # each is read once
        readings = [read_order(record, names_of) for record in reporting(records, advance)]
        similarity = np.nan_to_num(1 - normalized_distances(readings), nan=0.0)
        names = ("function_precision", "function_recall")
        precision, recall = (np.nan_to_num(column_of(readings, name), nan=0.0) for name in names)
        total = precision + recall
        f1 = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
        failed = [
            RecordFailure(row, reading.failure[0] if reading.failure else NO_CALLS, of_response=True)
            for row, reading in enumerate(readings)
            if reading.failure or not (reading.in_order and reading.in_order[0])
        ]
        chosen = f1 if options.reward == "function_f1" else similarity
        components = zip(self.components, (similarity, precision, recall), strict=True)
        return TaskRewards(chosen, failed, dict(components))

    def reference(self, value: Any) -> tuple[Mapping[str, Any] | None, str]:
        record, wrong = super().reference(value)
        if record is None:
            return record, wrong
        try:
            names = Program(record["ground_truth"]).names()
        except UnreadableAnswer as error:
            return None, f"ground_truth: {FAILURES[error.reason]}"
        return (record, "") if names else (None, "ground_truth: it calls no function")


def column_of(readings: Sequence[ProgramReading], name: str) -> np.ndarray:
    return np.array([reading.values.get(name, math.nan) for reading in readings], float)


def distances(sequences: Sequence[tuple[list[str], list[str]] | None]) -> np.ndarray:
    rows = [row for row, pair in enumerate(sequences) if pair is not None]
    values = np.full(len(sequences), np.nan)
    values[rows] = compare_sequences(levenshtein_distances, [pair for pair in sequences if pair is not None])
    return values


def normalized_distances(readings: Sequence[ProgramReading]) -> np.ndarray:
    longest = [max(map(len, reading.in_order)) if reading.in_order else 0 for reading in readings]
    return distances([reading.in_order for reading in readings]) / np.maximum(1, longest)


def similarities(readings: Sequence[ProgramReading], embedder: Embedder) -> np.ndarray:
    texts = [text for reading in readings for pair in reading.pairs for text in pair]
    vectors = embedded(embedder, texts, "options.embedder")
    return np.array(
        [mean(float(vectors[ours] @ vectors[theirs]) for ours, theirs in reading.pairs) for reading in readings]
    )


TASK = Pseudocode()
