"""Profile `thoth` of the SCORE metrics: exactly the numbers of the public script (docs/rules.md, Evaluation metrics).

Texts, also of references, are read leniently, and their content never raises. Written from that page; the cost is
linear in the texts except for the longest common subsequence, which a kernel computes for all pairs at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...kernels.rules import MIN_OBJECT_SIMILARITY, PARAMETER_WEIGHT
from ...kernels.sequences import lcs_lengths
from ..scoring.reference_reader import references_as_column
from .paper import Measured, ProtocolPair
from .text.tokens import compare_sequences

METRICS = ("step_m", "order_s", "order_lcs", "order_tau", "semantic_a", "mean_obj", "mean_par", "mean_position")

BOUNDARIES = [
    re.compile(tags, re.IGNORECASE)
    for tags in (r"<think>", r"</think>\s*<key>", r"</key>\s*<orc>", r"</orc>\s*<note>", r"</note>")
]
STEP = re.compile(r"^Step\s+\d+\s*:\s*(\{.*\})\s*$", re.IGNORECASE)
BETWEEN_WORDS = re.compile(r"[^a-z0-9%µμ\-\._]+")
POSITION_DECAY = 1.5
MAX_TEXT_LENGTH = 1_000_000  # the script has no limit, and its cost grows with n · m
CACHED_LINES = 1 << 12
MAX_CACHED_LENGTH = 2_000  # answers repeat lines of their references and of each other


class AnswerSections(NamedTuple):
    think: str
    key: str
    orc: str
    note: str


class ScriptStep(NamedTuple):
    action: str
    objects: list[str]
    parameters: list[str]


class KeyBlock(NamedTuple):
    """A key block: how many lines it has, and its steps; None if the script fails on the type of a value."""

    lines: int
    steps: list[ScriptStep] | None


def sections_in(text: str) -> AnswerSections | None:
    matches: list[re.Match[str]] = []
    position = 0
    for boundary in BOUNDARIES:
        match = boundary.search(text, position)
        if match is None:
            return None
        matches.append(match)
        position = match.end()
    return AnswerSections(*(text[before.end() : after.start()] for before, after in pairwise(matches)))


def key_block(text: str) -> str:
    sections = sections_in(text)
    return text if sections is None else sections.key


def read_block(block: str) -> KeyBlock:
    lines = [line.rstrip() for line in block.strip().splitlines() if line.strip()]
    try:
        steps = [cached_step(line) if len(line) <= MAX_CACHED_LENGTH else step_in(line) for line in lines]
    except (AttributeError, TypeError):  # an action that is not a string, an array that is not iterable
        return KeyBlock(len(lines), None)
    return KeyBlock(len(lines), [step for step in steps if step is not None])


def step_in(line: str) -> ScriptStep | None:
    """Return the step of a line, or None; like the script, ignore an empty object."""
    form = STEP.match(line)
    if form is None:
        return None
    try:
        fields = json.loads(form[1])
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not fields:
        return None
    action = fields.get("action", "").strip().lower()
    return ScriptStep(action, lowered(fields.get("objects", [])), lowered(fields.get("parameters", [])))


cached_step = lru_cache(CACHED_LINES)(step_in)


def lowered(elements: Any) -> list[str]:
    """Return the non-blank strings among the elements: a string has its characters, an object its names."""
    return [element.strip().lower() for element in elements if isinstance(element, str) and element.strip()]


def words(elements: Sequence[str]) -> set[str]:
    return {word for word in BETWEEN_WORDS.split(" ".join(elements).lower()) if word}


def overlap(a: set[str], b: set[str]) -> float:
    if not a and not b:
        return 1.0
    return len(a & b) / len(a | b)


def anchors(predicted: Sequence[str], expected: Sequence[str]) -> list[tuple[int, int]]:
    """Return pairs of equal actions, in order, up to the first predicted action that is not found."""
    pairs, j = [], 0
    for i, action in enumerate(predicted):
        while j < len(expected) and expected[j] != action:
            j += 1
        if j == len(expected):
            break
        pairs.append((i, j))
        j += 1
    return pairs


def anchor_scores(p: ScriptStep, r: ScriptStep, distance: int, m: int) -> tuple[float, float, float, float]:
    obj = 1.0 if p.objects == r.objects else overlap(set(p.objects), set(r.objects))
    if obj == 0.0:
        obj = overlap(words(r.objects), words(p.objects))
    par = 0.0
    if obj >= MIN_OBJECT_SIMILARITY:
        if p.parameters == r.parameters:
            par = 1.0
        elif p.parameters and r.parameters:
            par = overlap(words(r.parameters), words(p.parameters))
    position = 0.0 if distance >= m else max(0.0, 1.0 - (distance / m) ** POSITION_DECAY)
    return position * (obj + PARAMETER_WEIGHT * par), obj, par, position


def semantics(predicted: Sequence[ScriptStep], expected: Sequence[ScriptStep]) -> dict[str, float]:
    pairs = anchors([step.action for step in predicted], [step.action for step in expected])
    if not pairs:
        return {}
    scores = [anchor_scores(predicted[i], expected[j], abs(i - j), len(expected)) for i, j in pairs]
    names = ("semantic_a", "mean_obj", "mean_par", "mean_position")
    means = {name: sum(values) / len(pairs) for name, values in zip(names, zip(*scores, strict=True), strict=True)}
    return {"order_tau": 1.0 if len(pairs) > 1 else 0.0, **means}


def adherence(taken: Sequence[str], needed: set[str], library: Sequence[str]) -> dict[str, float]:
    """Count predicted actions that are not in the library, or in the library but not in the reference."""
    allowed = {action.strip().lower() for action in library}
    return {
        "outside_library": sum(action not in allowed for action in taken),
        "distractors": sum(action in allowed and action not in needed for action in taken),
    }


def measure(pairs: Sequence[ProtocolPair], think_prefilled: bool) -> Measured:
    columns = {name: np.zeros(len(pairs)) for name in (*METRICS, "steps", "outside_library", "distractors")}
    expected_steps = np.zeros(len(pairs), np.int64)
    invalid: dict[int, str] = {}
    rows: list[int] = []
    sequences: list[tuple[list[str], list[str]]] = []
    blocks: dict[str, KeyBlock] = {}
    for row, pair in enumerate(pairs):
        text, reason = (pair.reference, "") if isinstance(pair.reference, str) else lines_of(pair.reference)
        if max(len(pair.response), len(text)) > MAX_TEXT_LENGTH:
            reason = "too_long"
        if reason:
            invalid[row] = reason
            continue
        expected = blocks.get(text)
        if expected is None:
            expected = blocks[text] = read_block(key_block(text))
        predicted = read_block(key_block(f"<think>{pair.response}" if think_prefilled else pair.response))
        expected_steps[row] = len(expected.steps or ())
        if expected.steps is None or predicted.steps is None:
            continue
        taken, needed = ([step.action for step in steps] for steps in (predicted.steps, expected.steps))
        measures: Mapping[str, float] = {
            "step_m": float(predicted.lines == expected.lines),
            "order_s": float(taken == needed),
            "steps": len(taken),
            **semantics(predicted.steps, expected.steps),
            **(adherence(taken, set(needed), pair.library) if pair.library is not None else {}),
        }
        for name, value in measures.items():
            columns[name][row] = value
        rows.append(row)
        sequences.append((taken, needed))
    lengths = np.array([len(first) + len(second) for first, second in sequences])
    common = compare_sequences(lcs_lengths, sequences)
    columns["order_lcs"][rows] = np.where(lengths == 0, 1.0, 2.0 * common / np.maximum(lengths, 1))
    return Measured(columns, expected_steps, invalid)


def lines_of(reference: Mapping[str, Any]) -> tuple[str, str]:
    malformed = references_as_column([reference], take_alternatives=False)[1]
    if malformed:
        return "", malformed[0].reason
    steps = enumerate(reference["steps"], 1)
    return "\n".join(f"Step {k}: {json.dumps(step, ensure_ascii=False)}" for k, step in steps), ""
