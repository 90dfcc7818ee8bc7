"""Credit of tokens: exact examples, every scheme beside a slow twin, and offsets of sampled tokens."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay_client import InvalidRequest, token_credit, token_offsets
from assay_client.credit import BYTES, SCHEMES, piece_offsets


def step(start: int, end: int, orc_start: int, orc_end: int, value: float = 1.5, coverage: float = 1.0) -> Any:
    place = {"start": start, "end": end, "orc_start": orc_start, "orc_end": orc_end}
    return {**place, "coverage": coverage, "reference": 0, "value": value}


STEPS = [step(2, 6, 12, 14, 1.5, 0.5), step(7, 10, 14, 17, -0.25, 0.75)]
OFFSETS = [(0, 0), (0, 3), (3, 5), (5, 8), (8, 8), (8, 10), (10, 12), (12, 15), (15, 17), (0, 0)]
"""The fourth token has the end of the first step and the beginning of the second."""

EXACT: dict[str, tuple[dict[str, Any], list[float]]] = {
    "all": ({}, [0, 1.5, 1.5, 1.25, 0, -0.25, 0, 0, 0, 0]),
    "last": ({"scheme": "last"}, [0, 0, 0, 1.5, 0, -0.25, 0, 0, 0, 0]),
    "key+prose": ({"scheme": "key+prose"}, [0, 1.5, 1.5, 1.25, 0, -0.25, 0, 1.25, -0.25, 0]),
    "divided": ({"normalize": True}, [0, 0.5, 0.5, 0.375, 0, -0.125, 0, 0, 0, 0]),
    "coverage": ({"values": "coverage"}, [0, 0.5, 0.5, 1.25, 0, 0.75, 0, 0, 0, 0]),
    "numbers": ({"values": [2, np.float32(0.5)]}, [0, 2, 2, 2.5, 0, 0.5, 0, 0, 0, 0]),
    "an array of numbers": ({"values": np.array([2, 0])}, [0, 2, 2, 2, 0, 0, 0, 0, 0, 0]),
}


@pytest.mark.parametrize(("options", "expected"), EXACT.values(), ids=EXACT)
def test_credit(options: dict[str, Any], expected: list[float]) -> None:
    credit = token_credit(OFFSETS, STEPS, **options)
    assert credit == expected
    assert type(credit) is list
    array = token_credit(np.array(OFFSETS), STEPS, **options)
    assert isinstance(array, np.ndarray)
    assert (array.dtype, array.tolist()) == (np.float64, expected)
    prompt = 5
    after = [(start + prompt, end + prompt) for start, end in OFFSETS]
    assert token_credit([(0, prompt), *after], STEPS, response_start=prompt, **options) == [0, *expected]


def test_a_response_without_steps_or_tokens() -> None:
    assert token_credit(OFFSETS, []) == [0.0] * len(OFFSETS)
    assert token_credit([], []) == []


@st.composite
def tokens_and_steps(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[Any]]:
    """Return tokens that cover a text without gaps, some of them empty, and steps anywhere in it."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=30).filter(any))
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    offsets = list(zip([0, *ends], ends, strict=False))
    span = st.integers(0, ends[-1] - 1).flatmap(
        lambda start: st.tuples(st.just(start), st.integers(start + 1, ends[-1]))
    )
    values = st.floats(-2, 2, allow_nan=False)
    spans = draw(st.lists(st.tuples(span, span, values), max_size=6))
    return offsets, [step(*line, *prose, value) for line, prose, value in spans]


def slow_credit(offsets: list[tuple[int, int]], steps: list[Any], scheme: str, normalize: bool) -> list[float]:
    credit = [0.0] * len(offsets)
    for entry in steps:
        points = set(range(entry["start"], entry["end"]))
        if scheme == "key+prose":
            points |= set(range(entry["orc_start"], entry["orc_end"]))
        owned = [k for k, (start, end) in enumerate(offsets) if points & set(range(start, end))]
        for k in owned[-1:] if scheme == "last" else owned:
            credit[k] += entry["value"] / (len(owned) if normalize and scheme != "last" else 1)
    return credit


@given(tokens_and_steps(), st.sampled_from(SCHEMES), st.booleans())
def test_credit_is_that_of_the_twin(case: Any, scheme: str, normalize: bool) -> None:
    offsets, steps = case
    credit = token_credit(offsets, steps, scheme, normalize=normalize)
    assert credit == pytest.approx(slow_credit(offsets, steps, scheme, normalize), abs=1e-12)
    if normalize or scheme == "last":
        assert math.fsum(credit) == pytest.approx(math.fsum(entry["value"] for entry in steps), abs=1e-9)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in STEPS[1].items() if key != name}


INVALID: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no pairs": ({"offset_mapping": [(0, 1), 1, "ab", (1, 2, 3)]}, [f"offset_mapping[{k}]" for k in (1, 2, 3)]),
    "pairs of other types": ({"offset_mapping": [(0, 1.5), (True, 1)]}, ["offset_mapping[0]", "offset_mapping[1]"]),
    "a batch of one": ({"offset_mapping": [OFFSETS]}, ["offset_mapping[0]"]),
    "a backward token": ({"offset_mapping": [(3, 2), (-1, 2)]}, ["offset_mapping[0]", "offset_mapping[1]"]),
    "the prompt after the response": ({"offset_mapping": [*OFFSETS, (0, 3)]}, ["offset_mapping[10]"]),
    "a missing field": ({"steps": [STEPS[0], without("orc_end")]}, ["steps[1].orc_end"]),
    "a missing value": ({"steps": [STEPS[0], without("value")]}, ["steps[1].value"]),
    "a step that is no object": ({"steps": [7, STEPS[1]]}, ["steps[0]"]),
    "an infinite value": ({"steps": [STEPS[0], STEPS[1] | {"coverage": math.inf}]}, ["steps[1].coverage"]),
    "an empty span": ({"steps": [step(3, 3, 5, 6)]}, ["steps[0].start"]),
    "an unknown scheme": ({"scheme": "first"}, ["scheme"]),
    "an unknown field": ({"values": "reward"}, ["values"]),
    "too few numbers": ({"values": [1.0]}, ["values"]),
    "numbers that are none": ({"values": [math.nan, "1"]}, ["values[0]", "values[1]"]),
    "tokens that end before": ({"offset_mapping": OFFSETS[:3]}, ["steps[1].start"]),
    "tokens without the prose": (
        {"offset_mapping": OFFSETS[:7], "scheme": "key+prose"},
        ["steps[0].orc_start", "steps[1].orc_start"],
    ),
    "several": ({"offset_mapping": [1], "scheme": "x", "values": "y"}, ["offset_mapping[0]", "scheme", "values"]),
}


@pytest.mark.parametrize(("change", "paths"), INVALID.values(), ids=INVALID)
def test_what_cannot_be_read_is_named(change: dict[str, Any], paths: list[str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        token_credit(**{"offset_mapping": OFFSETS, "steps": STEPS, **change})
    assert [issue.path for issue in caught.value.issues] == paths
    assert isinstance(caught.value, ValueError)


LETTERS = {byte: letter for letter, byte in BYTES.items()}


class Tokenizer:
    """A tokenizer with these tokens; the last one is special."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = [*tokens, "<eos>"]
        self.all_special_ids = [len(tokens)]

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str | None]:
        return [self.tokens[k] if k < len(self.tokens) else None for k in ids]


def byte_level(*pieces: bytes) -> list[str]:
    return ["".join(LETTERS[byte] for byte in piece) for piece in pieces]


def test_offsets_of_pieces_of_text() -> None:
    words = Tokenizer("Add ", "5 µl", "\n")
    assert token_offsets(words, [0, 1, 2, 3], "Add 5 µl\n") == [(0, 4), (4, 8), (8, 9), (9, 9)]
    assert token_offsets(words, np.array([1, 3]), "5 µl<eos>") == [(0, 4), (4, 9)], "special tokens may be in the text"


def test_offsets_of_bytes() -> None:
    """As in Qwen: a character may be in two tokens, both of which have all of it."""
    assert (LETTERS[ord(" ")], LETTERS[ord("\n")]) == ("\u0120", "\u010a")
    dna = "\U0001f9ec".encode()
    pieces = byte_level(b" 5 ", "µ".encode()[:1], "µ".encode()[1:] + b"l", dna[:1], dna[1:3], dna[3:] + b"\n")
    qwen = Tokenizer(*pieces, "é ")  # the last one was added as text
    offsets = token_offsets(qwen, range(8), " 5 µl\U0001f9ec\né ")
    assert offsets == [(0, 3), (3, 4), (3, 5), (5, 6), (5, 6), (5, 7), (7, 9), (9, 9)]
    assert token_offsets(qwen, [0, 1], " 5 \ufffd") == [(0, 3), (3, 4)], "sampling stopped within a character"


@given(st.binary(max_size=40), st.lists(st.integers(0, 40)))
def test_offsets_cover_the_decoded_text(data: bytes, cuts: list[int]) -> None:
    marks = [0, *sorted(cuts), len(data)]
    pieces = [data[start:stop] for start, stop in pairwise(marks)]
    text, offsets = data.decode(errors="replace"), piece_offsets(pieces)
    assert {k for start, end in offsets for k in range(start, end)} == set(range(len(text)))
    assert all(start <= end for start, end in offsets)
    for piece, (start, end) in zip(pieces, offsets, strict=True):
        assert piece.decode(errors="ignore") in text[start:end].replace("\ufffd", "") or "\ufffd" in text[start:end]


@pytest.mark.parametrize(("ids", "response"), [([0], "Add"), ([0, 9], "Add "), ([], "x")])
def test_tokens_of_another_text(ids: list[int], response: str) -> None:
    with pytest.raises(InvalidRequest, match="do not spell the response"):
        token_offsets(Tokenizer("Add ", "5"), ids, response)
