"""The response in a query that holds prompt and response in one text.

It is what follows the prompt. Trainers cut prompts that are too long on the left, and then it is what follows the
longest end of the prompt that begins the query. The prompt itself shows the tags of an answer, so that searching the
whole query would score the prompt.
"""

from __future__ import annotations

import re
import unicodedata

import numpy as np

from .....kernels.column import TextColumn, column_of
from .....kernels.similarity.prompt_overlap import overlaps

__all__ = ["response_behind", "responses_behind"]

ANCHOR = 64
"""Characters with which most queries are found in their prompt; where not, the kernel looks for them."""

REPLACEMENT = "\ufffd"

MAX_RESPELLED = 1 << 16
"""Bytes of a prompt whose other spelling is looked for."""

LONG_RUN = re.compile("[^\x00-\x7f]{256}")
"""Normalising takes time quadratic in the length of a run of combining marks: a text with so many is left as it is."""


def response_behind(prompt: str, query: str) -> str:
    """The response of one query."""
    if query.startswith(prompt):
        return query[len(prompt) :]
    at = prompt.find(query[:ANCHOR]) if len(query) >= ANCHOR else -1
    if at >= 0 and query.startswith(prompt[at:]):  # a longer end would have been found further to the left
        return query[len(prompt) - at :]
    prompts, queries = column_of([prompt.encode()]), column_of([query.encode()])
    length = int(overlap_lengths(prompts, queries)[0])
    return query.encode()[length:].decode()


def responses_behind(prompts: TextColumn, queries: TextColumn) -> TextColumn:
    """The responses of as many queries as there are prompts."""
    lengths = overlap_lengths(prompts, queries)
    kept = np.repeat(
        np.tile(np.array([False, True]), queries.rows),
        np.column_stack([lengths, queries.lengths - lengths]).ravel(),
    )
    offsets = queries.offsets - queries.offsets[0]
    offsets[1:] -= np.cumsum(lengths)
    return TextColumn.of(queries.data[queries.offsets[0] : queries.offsets[-1]][kept], offsets)


def overlap_lengths(prompts: TextColumn, queries: TextColumn) -> np.ndarray:
    """int64: bytes of each query that belong to its prompt."""
    lengths = np.zeros(queries.rows, np.int64)
    shorter = np.minimum(prompts.lengths, queries.lengths)
    overlaps(lengths, np.empty(int(shorter.max(initial=0)) + 1, np.int32), *prompts, *queries)
    for row in np.flatnonzero((lengths == 0) & (shorter > 0)).tolist():
        if prompts.lengths[row] <= MAX_RESPELLED:
            lengths[row] = respelled_overlap(text_at(prompts, row), text_at(queries, row))
    return lengths


def text_at(column: TextColumn, row: int) -> str:
    return column.data[column.offsets[row] : column.offsets[row + 1]].tobytes().decode()


def respelled_overlap(prompt: str, query: str) -> int:
    """Bytes of a query that are its prompt in another spelling; 0 where there is none of it.

    Tokenizers such as Qwen's give texts back in NFC, and a cut through a character of several bytes leaves replacement
    characters at the beginning.
    """
    begun = query.lstrip(REPLACEMENT)
    spellings = {prompt} if LONG_RUN.search(prompt) else {prompt, unicodedata.normalize("NFC", prompt)}
    found = max(overlap_of(spelling, begun) for spelling in spellings)
    return found + len(query.encode()) - len(begun.encode()) if found else 0


def overlap_of(prompt: str, query: str) -> int:
    """Bytes of the longest end of `prompt` that begins `query`."""
    prompts, queries = column_of([prompt.encode()]), column_of([query.encode()])
    lengths = np.zeros(1, np.int64)
    overlaps(lengths, np.empty(len(prompts.data) + 1, np.int32), *prompts, *queries)
    return int(lengths[0])
