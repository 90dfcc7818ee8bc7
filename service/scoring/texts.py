"""Texts of a batch: a column of UTF-8, or a list of strings, which kernels read in place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...kernels.batch import Texts as KernelTexts
from ...kernels.column import TextColumn, column_of
from ...kernels.text.strings import can_read_strings, find_strings

Texts = TextColumn | list[Any]
"""A list of references may hold other Python objects too."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def utf8(text: str) -> bytes:
    """Encode any Python string as UTF-8; each lone surrogate becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode()


def text_column(texts: Sequence[str]) -> TextColumn:
    try:
        return column_of([text.encode() for text in texts])
    except UnicodeEncodeError:
        return column_of([utf8(text) for text in texts])


def count_of(texts: Texts) -> int:
    return texts.rows if isinstance(texts, TextColumn) else len(texts)


def strings_of(texts: Texts) -> list[Any]:
    if not isinstance(texts, TextColumn):
        return texts
    data = texts.data.tobytes()
    return [data[start:stop].decode() for start, stop in pairwise(texts.offsets.tolist())]


def utf8_of(texts: Texts, row: int) -> bytes:
    """Return one of the texts, which are strings or a column, as UTF-8."""
    if not isinstance(texts, TextColumn):
        return utf8(texts[row])
    start, stop = texts.offsets[row : row + 2].tolist()
    return texts.data[start:stop].tobytes()


def take(texts: Texts, rows: np.ndarray) -> Texts:
    """Return the texts that `rows` numbers, int64 (k,), ascending: the column itself if these are all."""
    if not isinstance(texts, TextColumn):
        return [texts[row] for row in rows.tolist()]
    if len(rows) == texts.rows:
        return texts
    after = np.flatnonzero(np.diff(rows) != 1) + 1  # where a run of neighbours begins: texts are copied run by run
    starts = texts.offsets[rows[np.append(0, after)]] if len(rows) else []
    stops = texts.offsets[rows[np.append(after, len(rows)) - 1] + 1] if len(rows) else []
    runs = [texts.data[start:stop] for start, stop in zip(starts, stops, strict=True)]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(texts.lengths[rows], out=offsets[1:])
    return TextColumn.of(np.concatenate([texts.data[:0], *runs]), offsets)


def located(texts: Texts, is_valid: bool = True) -> KernelTexts:
    """Return texts as kernels take them; strings are read in place, so the list must not change until they return.

    is_valid: False for a column that may be no valid UTF-8. Kernels must be compiled.
    """
    if not isinstance(texts, TextColumn) and texts and can_read_strings():
        layouts = np.empty((3, len(texts)), np.int64)
        find_strings(layouts, np.fromiter(map(id, texts), np.int64, len(texts)))
        return KernelTexts.of_strings(layouts)
    column = texts if isinstance(texts, TextColumn) else text_column(texts)
    return KernelTexts.in_column(column, is_valid)
