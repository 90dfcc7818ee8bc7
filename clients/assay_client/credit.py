"""Credit for single tokens, from the column of steps (`include=["steps"]`)."""

from __future__ import annotations

import codecs
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Protocol, cast, overload

from .errors import Issue, invalid
from .steps import NUMBERS, SPANS, Step, step_problem

if TYPE_CHECKING:
    import numpy as np

SCHEMES = ("all", "last", "key+prose")
Offsets = Sequence[tuple[int, int]]


@overload
def token_credit(
    offset_mapping: np.ndarray[Any, Any],
    steps: Sequence[Step | Mapping[str, Any]],
    scheme: str = ...,
    *,
    values: str | Sequence[float] = ...,
    normalize: bool = ...,
    response_start: int = ...,
) -> np.ndarray[Any, np.dtype[np.float64]]: ...


@overload
def token_credit(
    offset_mapping: Offsets,
    steps: Sequence[Step | Mapping[str, Any]],
    scheme: str = ...,
    *,
    values: str | Sequence[float] = ...,
    normalize: bool = ...,
    response_start: int = ...,
) -> list[float]: ...


def token_credit(
    offset_mapping: Any,
    steps: Sequence[Step | Mapping[str, Any]],
    scheme: str = "all",
    *,
    values: str | Sequence[float] = "value",
    normalize: bool = False,
    response_start: int = 0,
) -> Any:
    """Spread the steps of one response over its tokens.

    Parameters
    ----------
    offset_mapping : sequence of (int, int), or array of shape (n, 2)
        The beginning and the end of each of the n tokens, in code points of the tokenized text, as fast tokenizers of
        Hugging Face return it. Tokens without text, such as special tokens with (0, 0), get no credit.
    steps : sequence of mapping
        The steps of the response, one entry of `Scores.steps`.
    scheme : {"all", "last", "key+prose"}
        The tokens of a step: all that have a code point of its line in `<key>`; the last one of these; or all of its
        line in `<key>` and of its prose in `<orc>`.
    values : {"value", "coverage"} or sequence of float
        What a step is worth: one of its fields, or a number for each step, such as its advantage.
    normalize : bool
        Divide a step's value equally among its tokens, so that the credit of all tokens has the sum of the values. By
        default, each of its tokens gets the whole value.
    response_start : int
        Where the response begins in the tokenized text, in code points: its prompt may come first.

    Returns
    -------
    list of float, or array of float64 of shape (n,)
        The credit of each token: an array for an array of NumPy. A token of two steps, which has the end of one and the
        beginning of the next, gets the sum; a token outside all steps gets 0.

    Raises
    ------
    InvalidRequest
        With an issue for every token, step or value that cannot be read, and for every step without a token, which
        means that the tokens are of another text. It is a ValueError.

    Examples
    --------
    >>> step = {"start": 2, "end": 6, "orc_start": 9, "orc_end": 12, "coverage": 1.0, "reference": 0, "value": 1.5}
    >>> token_credit([(0, 2), (2, 5), (5, 8), (8, 12), (0, 0)], [step])
    [0.0, 1.5, 1.5, 0.0, 0.0]
    """
    tokens, starts, ends, issues = read_offsets(offset_mapping)
    issues += [
        Issue(f"steps[{i}]{'.' if problem[0] else ''}{problem[0]}", "invalid_step", problem[1])
        for i, problem in enumerate(map(step_problem, steps))
        if problem is not None
    ]
    if scheme not in SCHEMES:
        issues.append(Issue("scheme", "unknown_scheme", f"must be one of: {', '.join(SCHEMES)}"))
    numbers, wrong = read_values(values, steps)
    issues += wrong
    if issues:
        raise invalid(issues)
    credit = [0.0] * len(offset_mapping)
    for i, (step, number) in enumerate(zip(cast("Sequence[Step]", steps), numbers, strict=True)):
        owned: list[int] = []
        for start, end in SPANS if scheme == "key+prose" else SPANS[:1]:
            first = bisect_right(ends, step[start] + response_start)  # type: ignore[literal-required]
            stop = bisect_left(starts, step[end] + response_start)  # type: ignore[literal-required]
            if first >= stop:
                issues.append(Issue(f"steps[{i}].{start}", "no_token", "no token has text of this step"))
            owned += range(first, stop)
        owned = owned[-1:] if scheme == "last" else list(dict.fromkeys(owned))
        for k in owned:
            credit[tokens[k]] += number / len(owned) if normalize else number
    if issues:
        raise invalid(issues)
    numpy = sys.modules.get("numpy")
    return numpy.array(credit) if numpy is not None and isinstance(offset_mapping, numpy.ndarray) else credit


def read_offsets(offset_mapping: Any) -> tuple[list[int], list[int], list[int], list[Issue]]:
    """Return the positions of the tokens with text, their starts and ends, and the issues of all others."""
    pairs = offset_mapping.tolist() if hasattr(offset_mapping, "tolist") else offset_mapping
    tokens, starts, ends, issues = [], [], [], []
    before = (0, 0)
    for k, pair in enumerate(pairs):
        path = f"offset_mapping[{k}]"
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(map(is_integer, pair)):
            issues.append(Issue(path, "wrong_type", "must be a pair of integers"))
            continue
        start, end = pair
        if not 0 <= start <= end:
            issues.append(Issue(path, "invalid_range", "must begin at 0 or later, and not after its end"))
        elif start < end:
            if start < before[0] or end < before[1]:
                issues.append(Issue(path, "wrong_order", "must not begin or end before the token before it"))
            before = start, end
            tokens.append(k)
            starts.append(start)
            ends.append(end)
    return tokens, starts, ends, issues


def read_values(values: Any, steps: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[Issue]]:
    if isinstance(values, str):
        if values not in NUMBERS:
            names = ", ".join(NUMBERS)
            return [], [Issue("values", "unknown_field", f"must be a number for each step, or one of: {names}")]
        return [step.get(values, 0.0) if isinstance(step, Mapping) else 0.0 for step in steps], []
    numbers = values.tolist() if hasattr(values, "tolist") else list(values)
    if len(numbers) != len(steps):
        return [], [Issue("values", "length_mismatch", f"{len(numbers)} for {len(steps)} steps")]
    issues = [
        Issue(f"values[{i}]", "wrong_type", "must be a finite number")
        for i, number in enumerate(numbers)
        if isinstance(number, bool) or not isinstance(number, Real) or not isfinite(number)
    ]
    return numbers, issues


def is_integer(value: Any) -> bool:
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


class Tokenizer(Protocol):
    """What is needed of a tokenizer of Hugging Face."""

    all_special_ids: list[int]

    def convert_ids_to_tokens(self, ids: Any) -> Any: ...


def token_offsets(tokenizer: Tokenizer, ids: Iterable[int], response: str) -> list[tuple[int, int]]:
    """Return the offset mapping of sampled tokens, which are often not those of the response tokenized again.

    Parameters
    ----------
    tokenizer : tokenizer of Hugging Face
        Its tokens must be pieces of text, or of bytes as in byte-level BPE (Qwen, Llama 3, GPT, DeepSeek).
    ids : iterable of int
        The n tokens of the response.
    response : str
        Their decoded text, as it was scored, with special tokens or without.

    Returns
    -------
    list of (int, int)
        The beginning and the end of each token, in code points of the response. Tokens that share a character each
        have all of it. A special token that is not in the response has no text.

    Raises
    ------
    InvalidRequest
        If the tokens do not spell the response. It is a ValueError.
    """
    numbers = [int(number) for number in ids]
    tokens, special = tokenizer.convert_ids_to_tokens(numbers), set(tokenizer.all_special_ids)
    if None not in tokens:
        spellings: tuple[Callable[[str], bytes], ...] = str.encode, bytes_of
        for spelled, are_skipped in product(spellings, (True, False)):
            skipped = special if are_skipped else ()
            pieces = [b"" if k in skipped else spelled(token) for k, token in zip(numbers, tokens, strict=True)]
            if b"".join(pieces).decode(errors="replace") == response:
                return piece_offsets(pieces)
    raise invalid([Issue("ids", "wrong_text", "these tokens of this tokenizer do not spell the response")])


def piece_offsets(pieces: Iterable[bytes]) -> list[tuple[int, int]]:
    """Return the offset mapping of pieces of UTF-8 that may end within a character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    offsets, length = [], 0
    for piece in pieces:
        start = length
        length += len(decoder.decode(piece))
        is_within = bool(piece and decoder.getstate()[0])
        offsets.append((start, length + is_within))
    return offsets


PRINTED = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
"""Bytes that byte-level BPE writes as the character with the same number; the others follow from U+0100 on."""

BYTES = {chr(byte): byte for byte in PRINTED}
BYTES |= {chr(0x100 + k): byte for k, byte in enumerate(sorted(set(range(0x100)) - set(PRINTED)))}


def bytes_of(token: str) -> bytes:
    """Return the bytes of a token of byte-level BPE; one with other characters was added as text."""
    numbers = [BYTES.get(character, -1) for character in token]
    return token.encode() if -1 in numbers else bytes(numbers)
