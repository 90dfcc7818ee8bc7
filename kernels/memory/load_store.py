"""Unaligned loads and stores of eight bytes.

Words are little-endian: byte k of the text is bits 8k to 8k + 7. All eight bytes must be inside the array.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

from ..compiler.jit import JIT, helper

__all__ = ["load8", "low_bytes", "read_only", "store8", "trailing_zeros"]

if sys.byteorder != "little":
    raise ImportError("Assay's kernels read memory in little-endian order")

BYTE = np.uint64(8)
ONE = np.uint64(1)

if JIT:

    def _pointer(context: Any, builder: Any, array_type: Any, array: Any, pos: Any) -> Any:
        data = context.make_array(array_type)(context, builder, array).data
        return builder.bitcast(builder.gep(data, [pos]), ir.IntType(64).as_pointer())

    @intrinsic
    def load8(typing_context, text, pos):
        """Return the eight bytes `text[pos:pos + 8]` of a uint8 array as a uint64."""

        def generate(context, builder, signature, arguments):
            return builder.load(_pointer(context, builder, signature.args[0], *arguments), align=1)

        return types.uint64(text, types.int64), generate

    @intrinsic
    def read_only(typing_context, array):
        """Return the array typed as read-only, so that its readers are compiled for one type only."""

        def generate(context, builder, signature, arguments):
            return impl_ret_borrowed(context, builder, signature.return_type, arguments[0])

        return array.copy(readonly=True)(array), generate

    @intrinsic
    def store8(typing_context, text, pos, word):
        """Write the eight bytes of a uint64 to `text[pos:pos + 8]` of a uint8 array."""

        def generate(context, builder, signature, arguments):
            builder.store(arguments[2], _pointer(context, builder, signature.args[0], *arguments[:2]), align=1)
            return context.get_dummy_value()

        return types.none(text, types.int64, types.uint64), generate

    @intrinsic
    def trailing_zeros(typing_context, word):
        """Count the zero bits below the lowest set bit of a uint64; 64 for 0."""

        def generate(context, builder, signature, arguments):
            return builder.zext(builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0)), ir.IntType(64))

        return types.int64(types.uint64), generate

else:

    def read_only(array: np.ndarray) -> np.ndarray:
        return array

    def trailing_zeros(word: np.uint64) -> np.int64:
        return np.int64((int(word) & -int(word)).bit_length() - 1 if word else 64)

    def load8(text: np.ndarray, pos: int) -> np.uint64:
        return np.uint64(int.from_bytes(text[pos : pos + 8].tobytes(), "little"))

    def store8(text: np.ndarray, pos: int, word: np.uint64) -> None:
        text[pos : pos + 8] = list(int(word).to_bytes(8, "little"))


@helper
def low_bytes(word, count):
    """Return the lowest `count` bytes of a word, 0 to 8 of them."""
    if count >= 8:
        return word
    return word & ((ONE << (np.uint64(count) * BYTE)) - ONE)
