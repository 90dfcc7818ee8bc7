"""SGI-Bench's task SGI-WetExperiment: protocols as pseudocode, compared step by step.

The public script finds steps and parameters by regular expressions that take quadratic time on hostile texts. Here one
pass over the text finds the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from .bioprobench.ord import increasing_pairs
from .task import (
    COMMON_REASONS,
    OK,
    Advance,
    Evaluation,
    Metric,
    RecordFailure,
    Records,
    StepError,
    Task,
    TaskRecord,
    TaskRewards,
    reporting,
)

START, END = "<answer>", "</answer>"
OPENING = re.compile(r"(?<!\w)(\w++)\s*+=\s*+<")
WHITESPACE = re.compile(r"\s*+")
CLOSING_LINE = re.compile(r"\)[^\S\n]*+(?:\n|\Z)")
CLOSING = re.compile(rf"(?<!\s)[^\S\n]*+(\n)\s*+{CLOSING_LINE.pattern}")
"""The first line end of the whitespace before a line that begins with `)` and has nothing else."""
PARAMETER = re.compile(r"(\w++)\s*+=\s*+")
FEW = 256  # values whose inversions are counted by insertion, which is quadratic

NO_OUTPUT = ""
"""Stands for a value that is not the output of a step."""

NO_STEPS = "no_steps"
NO_REFERENCE_STEPS = "no_reference_steps"
FAILURES = {
    NO_STEPS: "The answer has no step `output = <action>(…)` that a line with `)` alone closes: all its metrics are 0.",
    NO_REFERENCE_STEPS: "The reference has no such step: a fault of the record. Without steps in the answer either, "
    "the record has no value; the script divides by zero.",
}


class Step(NamedTuple):
    action: str
    parameters: dict[str, str]
    output: str


class Protocol(NamedTuple):
    steps: list[Step]
    outputs: dict[str, str]
    """Each output of a step by its name, which is the same."""

    @classmethod
    def of(cls, text: str) -> Protocol:
        steps = list(steps_in(text))
        return cls(steps, {step.output: step.output for step in steps})


def answer_in(text: str) -> str:
    """Return what the benchmark's runner takes of a response: its last block `<answer>…</answer>`, else all of it."""
    _, opened, after = text.rpartition(START)
    answer, closed, _ = after.partition(END)
    return answer.strip() if opened and closed else text


def steps_in(text: str) -> Iterator[Step]:
    """Yield the steps of a protocol in the order of the text.

    A step without parameters whose `)` follows at once has what comes before the next closing line as its parameters,
    if there is one, as in the script.
    """
    pos = 0
    while (opening := OPENING.search(text, pos)) is not None:
        action = opening.end()
        end = text.find(">", action)
        if end < 0:
            return
        if end == action or not text.startswith("(", end + 1):
            pos = end + 1
            continue
        after = end + len(">(")
        first = WHITESPACE.match(text, after).end()  # type: ignore[union-attr]
        closing = CLOSING.search(text, first)
        if closing is None:  # of later steps none is closed either
            if "\n" in text[after:first] and CLOSING_LINE.match(text, first) is not None:
                yield Step(text[action:end].strip(), {}, opening[1])
            return
        pos = closing.start(1)
        yield Step(text[action:end].strip(), parameters_in(text[first:pos]), opening[1])


def parameters_in(lines: str) -> dict[str, str]:
    parameters = {}
    for line in map(str.strip, lines.split("\n")):
        name = PARAMETER.match(line)
        if name is not None:
            value = line[name.end() :].removesuffix(",").rstrip()
            parameters[name[1]] = value[1:-1] if value.startswith('"') and value.endswith('"') else value
    return parameters


def inversions(values: np.ndarray) -> int:
    """Return how many pairs of values are in strictly decreasing order."""
    if len(values) <= FEW:
        return increasing_pairs(values[::-1].tolist())
    first, second = np.array_split(values, 2)
    crossing = len(first) - np.searchsorted(np.sort(first), second, side="right")
    return inversions(first) + inversions(second) + int(crossing.sum())


def sequence_similarity(expected: Sequence[Step], answered: Sequence[Step]) -> float:
    """Return 1 minus the share of pairs of positions whose actions, as text, are in opposite orders."""
    if len(expected) != len(answered):
        return 0.0
    pairs = len(expected) * (len(expected) - 1) / 2
    ranks = {action: rank for rank, action in enumerate(sorted({step.action for step in (*expected, *answered)}))}
    ours, theirs = ([ranks[step.action] for step in steps] for steps in (expected, answered))
    in_order = np.array([rank for _, rank in sorted(zip(ours, theirs, strict=True))], np.int64)
    return 1.0 - (inversions(in_order) / pairs if pairs else 0.0)


def errors_in(expected: Protocol, answered: Protocol) -> Iterator[StepError]:
    """Yield the errors of the steps that both protocols have, position by position."""
    sources: dict[str, str | None] = dict.fromkeys(answered.outputs)  # the reference's output that each stands for
    for number, (ours, theirs) in enumerate(zip(expected.steps, answered.steps, strict=False), start=1):
        if ours.action != theirs.action:
            yield StepError(number, "action", [])
        elif different := ours.parameters.keys() ^ theirs.parameters.keys():
            yield StepError(number, "parameters", sorted(different))
        elif wrong := [
            name
            for name, value in ours.parameters.items()
            if expected.outputs.get(value, NO_OUTPUT) != sources.get(theirs.parameters[name], NO_OUTPUT)
        ]:
            yield StepError(number, "sources", wrong)
        else:
            sources[theirs.output] = ours.output


class ProtocolScore(NamedTuple):
    similarity: float
    accuracy: float

    @property
    def final(self) -> float:
        return (self.similarity + self.accuracy) / 2


def compared(expected: Protocol, answered: Protocol) -> tuple[ProtocolScore | None, list[StepError]]:
    """Return the score of an answer, None without a step on either side, and its errors.

    The steps that only one side has are the last error, at the first of them.
    """
    errors = list(errors_in(expected, answered))
    shorter, longer = sorted([len(expected.steps), len(answered.steps)])
    if not longer:
        return None, []
    accuracy = 1 - (len(errors) + longer - shorter) / longer
    if shorter < longer:
        errors.append(StepError(shorter + 1, "missing" if len(expected.steps) == longer else "additional", []))
    return ProtocolScore(sequence_similarity(expected.steps, answered.steps), accuracy), errors


class WetExperimentRecord(TaskRecord):
    """One question of SGI-WetExperiment and its answers, as published."""

    answer: str = Field(description="The reference: a protocol as pseudocode.")
    model_answer: Any = Field(description="The model's answer; anything but text counts as an empty one.")
    discipline: Any = Field(None, description="A field of science, to group by.")


class WetExperiment(Task):
    name = "sgi.wet_experiment"
    description = "SGI-WetExperiment: actions and parameters of protocols as pseudocode, step by step."
    record = WetExperimentRecord
    metrics = (
        Metric(
            "action_sequence_similarity",
            "Actions",
            "1 - the share of pairs of positions whose actions are in opposite orders; 0 with another number of steps.",
            percent=True,
        ),
        Metric(
            "parameter_accuracy",
            "Parameters",
            "1 - the share of steps with another action, other parameters or parameters from other sources.",
            percent=True,
        ),
        Metric("final_score", "Score", "Mean of both.", percent=True),
        Metric("failed", "Failed", "Share of records without steps.", percent=True, less_is_better=True),
    )
    failures = FAILURES
    response = "model_answer"
    reward = "The mean of the similarity of the sequences of actions and of the parameters' accuracy, from 0 to 1."
    reasons = {OK: "A step was read.", NO_STEPS: FAILURES[NO_STEPS]} | COMMON_REASONS
    text_reference = "answer"
    components = ("action_sequence_similarity", "parameter_accuracy")
    passed_if = components

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        columns = {metric.name: np.full(len(records), np.nan) for metric in self.metrics}
        failed, step_errors = [], []
        reference_of = cache(Protocol.of)  # each is read once
        for row, record in enumerate(reporting(records, advance)):
            response = record.get(self.response)
            expected = reference_of(record["answer"])
            answered = Protocol.of(answer_in(response) if isinstance(response, str) else "")
            score, errors = compared(expected, answered)
            step_errors.append(errors)
            if score is not None:
                for name, value in zip(columns, (*score, score.final), strict=False):
                    columns[name][row] = value
            if not expected.steps:
                failed.append(RecordFailure(row, NO_REFERENCE_STEPS))
            elif not answered.steps:
                failed.append(RecordFailure(row, NO_STEPS, of_response=True))
        columns["failed"] = np.zeros(len(records))
        columns["failed"][[failure.record for failure in failed]] = 1.0
        return Evaluation(columns, failed, step_errors=step_errors)

    def rewards(self, records: Records, options: Any, advance: Advance) -> TaskRewards:
        evaluation = self.evaluate(records, options, advance)
        components = {name: evaluation.columns[name] for name in self.components}
        return TaskRewards(evaluation.columns["final_score"], evaluation.failed, components)

    def reference(self, value: Any) -> tuple[Mapping[str, Any] | None, str]:
        record, wrong = super().reference(value)
        if record is not None and next(steps_in(record["answer"]), None) is None:
            return None, "answer: it has no step `output = <action>(…)` that a line with `)` alone closes"
        return record, wrong


TASK = WetExperiment()
