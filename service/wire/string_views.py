"""Columns of string views (Polars writes them) as columns of strings, which kernels read.

Views point into buffers that they share: the bytes of what they show are charged before anything validates or copies
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

VIEW_NUMBERS = 4
"""A view is four int32: its length first, then the text or where it is."""

Charge = Callable[[int], None]
"""Takes bytes that will be read or copied; raises if they are too many."""


def is_list(kind: Any) -> bool:
    """Return whether an Arrow type is a list, in any layout."""
    types = pa.types
    layouts = types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view
    return any(is_layout(kind) for is_layout in layouts)


def has_views(kind: Any) -> bool:
    """Return whether an Arrow type is of string views, or holds them."""
    if pa.types.is_dictionary(kind) or is_list(kind):
        return has_views(kind.value_type)
    if pa.types.is_struct(kind):
        return any(has_views(kind.field(k).type) for k in range(kind.num_fields))
    return bool(pa.types.is_string_view(kind))


def validate_views(array: Any, charge: Charge) -> None:
    """Charge the bytes that the views of an array show, then validate every buffer; raises pa.ArrowException."""
    array.validate()  # the sizes of buffers
    charge(_shown_bytes(array))
    array.validate(full=True)


def _shown_bytes(array: Any) -> int:
    kind = array.type
    if not has_views(kind):
        return 0
    if pa.types.is_dictionary(kind):
        return _shown_bytes(array.dictionary)
    if is_list(kind):
        return _shown_bytes(array.values)
    if pa.types.is_struct(kind):
        return sum(_shown_bytes(array.field(k)) for k in range(kind.num_fields))
    views = array.buffers()[1]
    if views is None or not len(array):
        return 0
    numbers = np.frombuffer(views, np.int32, VIEW_NUMBERS * len(array), 4 * VIEW_NUMBERS * array.offset)
    lengths = numbers[::VIEW_NUMBERS].astype(np.int64)
    return int(lengths[lengths > 0].sum())


def without_views(array: Any, charge: Charge) -> Any:
    """Return a valid array with strings in place of views, inside lists, structs and dictionaries too.

    The bytes of each copy are charged before it is made. Lists become large lists.
    """
    kind = array.type
    if not has_views(kind):
        return array
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(array.indices, without_views(array.dictionary, charge))
    if is_list(kind):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        values = without_views(array.flatten(), charge)
        return pa.LargeListArray.from_arrays(pa.array(offsets), values, mask=array.is_null())
    if pa.types.is_struct(kind):
        fields = [without_views(field, charge) for field in array.flatten()]
        names = [kind.field(k).name for k in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, names, mask=array.is_null())
    charge(_shown_bytes(array))
    return array.cast(pa.large_string())
