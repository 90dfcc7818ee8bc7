"""Compiled kernels against the textbook twin on arbitrary texts.

An input is one byte that chooses the settings, then a response and a reference with 0xFF between them, read as UTF-8
with replacements. Any disagreement (reasons, verdicts on references, components beyond 1e-12) ends the run.
"""

from __future__ import annotations

from typing import Any

from tests.fuzz.fuzzing import fuzz

# isort: split
from assay import InvalidReference, Scorer
from assay.kernels.column import column_of
from assay.research.conformance import read_vectors
from examples import rollouts
from tests.cases import answer
from tests.guard_pages import GuardedMemory
from tests.reference.scorer import UnreadableReferenceError, parse_reference, score_one
from tests.scoring.agreement import assert_row, assert_sound

SEPARATOR = b"\xff"
ONE_STEP = 'Step 1: {"action": "add", "objects": ["pbs"], "parameters": ["5 min"]}'
CONFIGURATIONS: list[dict[str, Any]] = [
    {},
    {"order": "lcs", "min_coverage": 0.0, "content_denominator": "max_len"},
    {"min_coverage": 0.5, "semantics": "product", "total": "sum", "length_penalty": "relative"},
    {"think_prefilled": True, "min_coverage": 0.0, "use_position": False},
    {"max_steps": 2, "max_mean_words": 3.0, "reward_scale": "shift"},
    {"parameter_similarity": "quantities", "max_added_numbers": 1, "min_coverage": 0.5},
    {"parameter_similarity": "quantities", "quantity_error_factor": 0.5, "coverage": "words", "max_added_words": 1},
]
SCORERS = [Scorer(threads=1, **configuration) for configuration in CONFIGURATIONS]
DICTIONARY = [
    *["<think>", "</think>", "<key>", "</key>", "<orc>", "</orc>", "<note>", "</note>", "Step 1:", "\nStep 2: "],
    '{"action": "a", "objects": [], "parameters": []}',
    *[
        "\\u0301",
        "\\ud83d\\ude00",
        "1,000",
        "5 min",
        " x g",
        "0.5 ml",
        "500 µl",
        "-0 ",
        "3-5 ",
        " step 7",
        "[[",
        "}}",
        "\u0301",
        "\ufdfa",
    ],
    *[
        "5 × 10⁶",
        "1e-3",
        " ± ",
        " to ",
        " mg/ml",
        " l⁻¹",
        " per h",
        "1:2",
        "½",
        "0,5",
        "at least ",
        "pH ",
        " and ",
        "r.t",
    ],
    *["not ", "ice-cold", "incubated", "incubation", "95-min"],
    *["\u1100", "\u1161", "\xb5", "\u2212", "\xba", "\U0001f600"],
]


def verdict(reference: str, configuration: dict[str, Any]) -> tuple[str, Any]:
    """`ok` and the parsed reference, or why it is unreadable."""
    try:
        return "ok", parse_reference(reference, configuration)
    except UnreadableReferenceError as bad:
        return bad.reason, None


def compiled_verdict(reference: str, scorer: Scorer) -> str:
    try:
        scorer.score([], [reference], [])
    except InvalidReference as error:
        return error.issues[0].reason
    return "ok"


def check(data: bytes, memory: GuardedMemory) -> None:
    """Hold the compiled scorer against the twin on one input."""
    choice = data[0] % len(SCORERS) if data else 0
    configuration, scorer = CONFIGURATIONS[choice], SCORERS[choice]
    first, _, second = data[1:].partition(SEPARATOR)
    response, reference = first.decode(errors="replace"), second.decode(errors="replace")
    reason, parsed = verdict(reference, configuration)
    assert compiled_verdict(reference, scorer) == reason
    if parsed is None:
        reference = ONE_STEP
        parsed = parse_reference(reference, configuration)
    expected = score_one(response, parsed, configuration, steps=True)
    scores = scorer.score([response, "", response], [reference], steps=True)
    assert_sound(scores, 3)
    for row in (0, 2):
        assert_row(scores, row, expected)
    response_column, of = (memory.column(column_of([text.encode()])) for text in (response, reference))
    alone = scorer.score_columns(response_column, of, scores.reference_index[:1], steps=True)
    assert_row(alone, 0, expected)


def seeds() -> list[bytes]:
    """Example rollouts, the test vectors, and their texts as prose."""
    pairs = [(rollout["response"], rollout["reference"]) for rollout in rollouts.generate(30, 3, seed=1)]
    for row in (case.row for case in read_vectors(["score", "steps", "words"])):
        if row["kind"] == "words":
            pairs.append((answer(ONE_STEP, f"Step 1: add pbs 5 min {row['text']}"), ONE_STEP))
        else:
            pairs.append((row["response"], row["reference"] if isinstance(row["reference"], str) else ONE_STEP))
    encoded = [
        bytes([k % len(SCORERS)]) + response.encode(errors="replace") + SEPARATOR + reference.encode()
        for k, (response, reference) in enumerate(pairs)
    ]
    return [data for data in encoded if len(data) < 8000]


if __name__ == "__main__":
    fuzz(check, seeds(), DICTIONARY)
