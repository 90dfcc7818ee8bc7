"""Removes the prompt from a query, a text of prompt and response.

Trainers truncate long prompts on the left; then the longest suffix of the prompt that is a prefix of the query is
removed. Searching the whole query for an answer would not do: the prompt itself contains the tags.
"""

from __future__ import annotations

import re
import unicodedata

import numpy as np

from .....kernels.column import TextColumn, column_of
from .....kernels.similarity.prompt_overlap import overlaps

__all__ = ["remove_prompt", "remove_prompts"]

ANCHOR = 64
"""Characters of a query to search for in its prompt; if they do not decide, the kernel does."""

REPLACEMENT = "\ufffd"

MAX_RESPELLED = 1 << 16
"""Maximum bytes of a prompt that is also tried in NFC."""

LONG_RUN = re.compile("[^\x00-\x7f]{256}")
"""Runs of possible combining marks that are not normalized: that takes quadratic time."""


def remove_prompt(prompt: str, query: str) -> str:
    """Return the response of one query."""
    if query.startswith(prompt):
        return query[len(prompt) :]
    pos = prompt.find(query[:ANCHOR]) if len(query) >= ANCHOR else -1
    if pos >= 0 and query.startswith(prompt[pos:]):  # the first match is the longest suffix
        return query[len(prompt) - pos :]
    (length,) = overlap_lengths(column_of([prompt.encode()]), column_of([query.encode()])).tolist()
    return query.encode()[length:].decode()


def remove_prompts(prompts: TextColumn, queries: TextColumn) -> TextColumn:
    """Return the response of each query, given as many prompts."""
    lengths = overlap_lengths(prompts, queries)
    kept = np.repeat(
        np.tile(np.array([False, True]), queries.rows),
        np.column_stack([lengths, queries.lengths - lengths]).ravel(),
    )
    offsets = queries.offsets - queries.offsets[0]
    offsets[1:] -= np.cumsum(lengths)
    return TextColumn.of(queries.data[queries.offsets[0] : queries.offsets[-1]][kept], offsets)


def overlap_lengths(prompts: TextColumn, queries: TextColumn) -> np.ndarray:
    """Return the number of bytes of each query that belong to its prompt, int64 (n,)."""
    lengths = spelled_overlaps(prompts, queries)
    for row in np.flatnonzero((lengths == 0) & (prompts.lengths > 0) & (queries.lengths > 0)).tolist():
        if prompts.lengths[row] <= MAX_RESPELLED:
            lengths[row] = respelled_overlap(text_at(prompts, row), text_at(queries, row))
    return lengths


def text_at(column: TextColumn, row: int) -> str:
    return column.data[column.offsets[row] : column.offsets[row + 1]].tobytes().decode()


def respelled_overlap(prompt: str, query: str) -> int:
    """Return the bytes of a query that are its prompt, normalized or cut within a character; 0 without any.

    Tokenizers such as Qwen's decode to NFC, and truncation within a multi-byte character leaves replacement characters
    at the beginning.
    """
    stripped = query.lstrip(REPLACEMENT)
    spellings = {prompt} if LONG_RUN.search(prompt) else {prompt, unicodedata.normalize("NFC", prompt)}
    prompts = column_of([spelling.encode() for spelling in spellings])
    found = int(spelled_overlaps(prompts, column_of([stripped.encode()] * prompts.rows)).max())
    return found + len(query.encode()) - len(stripped.encode()) if found else 0


def spelled_overlaps(prompts: TextColumn, queries: TextColumn) -> np.ndarray:
    """Return the bytes of the longest suffix of each prompt that is a prefix of its query, int64 (n,)."""
    lengths = np.zeros(queries.rows, np.int64)
    shorter = np.minimum(prompts.lengths, queries.lengths)
    overlaps(lengths, np.empty(int(shorter.max(initial=0)) + 1, np.int32), *prompts, *queries)
    return lengths
