"""Vector operations on blocks of 32 and 64 bytes.

Bit k of a bitmap belongs to byte k of the block. The whole block must be inside the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..compiler.jit import JIT

__all__ = [
    "bits_set",
    "break_bits",
    "colon_bits",
    "continuation_bits",
    "copy32",
    "fold32",
    "lead2_bits",
    "lead3_bits",
    "lead4_bits",
    "lower32",
    "non_ascii_bits",
    "restricted_lead_bits",
    "run_bits",
    "space_bits",
    "space_lead_bits",
    "special_bits",
    "tag_bits",
]

CAPITALS = [(0x41, 0x5A)]
NON_ASCII = [(0x80, 0xFF)]
RUNS = [(0x61, 0x7A), (0x30, 0x39), (0x2D, 0x2E), (0x25, 0x25), (0x5F, 0x5F), *NON_ASCII]
"""Bytes of normalised text that belong to a run (docs/rules.md, Words): its non-ASCII characters are alphanumeric."""
SPACES = [(0x09, 0x0D), (0x1C, 0x20)]
"""ASCII white space of `str.split()`."""
SPACE_LEADS = [(0xC2, 0xC2), (0xE1, 0xE3)]
"""First bytes of non-ASCII white space."""

LINE_BREAKS = [(0x0A, 0x0A), (0x0D, 0x0D)]
TAG_OPENINGS = [(0x3C, 0x3C)]
COLONS = [(0x3A, 0x3A)]
SPECIAL_IN_JSON = [(0x00, 0x1F), (0x22, 0x22), (0x5C, 0x5C), *NON_ASCII]
"""Bytes of a JSON string that are escaped, end it, or have to be checked."""

CONTINUATIONS = [(0x80, 0xBF)]
LEADS_OF_2, LEADS_OF_3, LEADS_OF_4 = [(0xC2, 0xDF)], [(0xE0, 0xEF)], [(0xF0, 0xF4)]
RESTRICTED_LEADS = [(0xE0, 0xE0), (0xED, 0xED), (0xF0, 0xF0), (0xF4, 0xF4)]
"""First bytes of UTF-8 that restrict the second byte."""

Ranges = Sequence[tuple[int, int]]

if JIT:

    def _block(context: Any, builder: Any, size: int, array_type: Any, array: Any, pos: Any) -> Any:
        """Return a pointer to the `size` bytes from `pos` on, as one vector."""
        data = context.make_array(array_type)(context, builder, array).data
        return builder.bitcast(builder.gep(data, [pos]), ir.VectorType(ir.IntType(8), size).as_pointer())

    def _all(value: int, size: int) -> Any:
        return ir.Constant(ir.VectorType(ir.IntType(8), size), [value] * size)

    def _inside(builder: Any, block: Any, ranges: Ranges, size: int) -> Any:
        """Return a vector of booleans: which bytes are in one of the ranges."""
        inside = None
        for low, high in ranges:
            distance = builder.sub(block, _all(low, size)) if low else block
            within = builder.icmp_unsigned("<=", distance, _all(high - low, size))
            inside = within if inside is None else builder.or_(inside, within)
        return inside

    def _bitmap(builder: Any, booleans: Any, size: int) -> Any:
        bits = builder.bitcast(booleans, ir.IntType(size))
        return bits if size == 64 else builder.zext(bits, ir.IntType(64))

    def _lower_block(builder: Any, block: Any) -> Any:
        """Return 32 bytes with ASCII capitals in lower case."""
        capital = _inside(builder, block, CAPITALS, 32)
        return builder.or_(block, builder.select(capital, _all(0x20, 32), _all(0, 32)))

    def _classifier(ranges: Ranges, what: str) -> Any:
        def classify(typing_context, text, pos):
            def generate(context, builder, signature, arguments):
                block = builder.load(_block(context, builder, 64, signature.args[0], *arguments), align=1)
                return _bitmap(builder, _inside(builder, block, ranges, 64), 64)

            return types.uint64(text, types.int64), generate

        classify.__doc__ = f"Return a bitmap of the {what} in `text[pos:pos + 64]`."
        return intrinsic(classify)

    @intrinsic
    def lower32(typing_context, text, pos, out, out_pos):
        """Write `text[pos:pos + 32]` in ASCII lower case to `out[out_pos:]`; returns the bitmap of non-ASCII bytes."""

        def generate(context, builder, signature, arguments):
            block = builder.load(_block(context, builder, 32, signature.args[0], *arguments[:2]), align=1)
            lower = _lower_block(builder, block)
            builder.store(lower, _block(context, builder, 32, signature.args[2], *arguments[2:]), align=1)
            return _bitmap(builder, _inside(builder, block, NON_ASCII, 32), 32)

        return types.uint64(text, types.int64, out, types.int64), generate

    @intrinsic
    def fold32(typing_context, text, pos, length, out, out_pos):
        """Write `text[pos:pos + length]`, fewer than 32 bytes, in ASCII lower case and padded with spaces to 32 bytes,
        to `out[out_pos:]`. Returns two bitmaps: bytes of runs in bits 0 to 31, non-ASCII bytes in bits 32 to 63.
        """

        def generate(context, builder, signature, arguments):
            array, index, count, target, target_index = arguments
            block = builder.load(_block(context, builder, 32, signature.args[0], array, index), align=1)
            first = builder.insert_element(_all(0, 32), builder.trunc(count, ir.IntType(8)), ir.IntType(32)(0))
            counts = builder.shuffle_vector(
                first, _all(0, 32), ir.Constant(ir.VectorType(ir.IntType(32), 32), [0] * 32)
            )
            lanes = ir.Constant(ir.VectorType(ir.IntType(8), 32), list(range(32)))
            block = builder.select(builder.icmp_unsigned("<", lanes, counts), block, _all(0x20, 32))
            lower = _lower_block(builder, block)
            builder.store(lower, _block(context, builder, 32, signature.args[3], target, target_index), align=1)
            runs = _bitmap(builder, _inside(builder, lower, RUNS, 32), 32)
            non_ascii = _bitmap(builder, _inside(builder, block, NON_ASCII, 32), 32)
            return builder.or_(runs, builder.shl(non_ascii, ir.IntType(64)(32)))

        return types.uint64(text, types.int64, types.int64, out, types.int64), generate

    @intrinsic
    def copy32(typing_context, text, pos, out, out_pos):
        """Copy `text[pos:pos + 32]` to `out[out_pos:out_pos + 32]`."""

        def generate(context, builder, signature, arguments):
            block = builder.load(_block(context, builder, 32, signature.args[0], *arguments[:2]), align=1)
            builder.store(block, _block(context, builder, 32, signature.args[2], *arguments[2:]), align=1)
            return context.get_dummy_value()

        return types.none(text, types.int64, out, types.int64), generate

    @intrinsic
    def bits_set(typing_context, word):
        """Count the set bits of a uint64, as an int64."""

        def generate(context, builder, signature, arguments):
            return builder.ctpop(arguments[0])

        return types.int64(types.uint64), generate

else:

    def _bits_of(block: np.ndarray, ranges: Ranges) -> np.uint64:
        inside = np.zeros(block.shape, np.bool_)
        for low, high in ranges:
            inside |= (block >= low) & (block <= high)
        return np.uint64(int.from_bytes(np.packbits(inside, bitorder="little").tobytes(), "little"))

    def _lower_case(block: np.ndarray) -> np.ndarray:
        return np.where((block >= 0x41) & (block <= 0x5A), block | 0x20, block)

    def _classifier(ranges: Ranges, what: str) -> Any:
        def classify(text, pos):
            return _bits_of(text[pos : pos + 64], ranges)

        classify.__doc__ = f"Return a bitmap of the {what} in `text[pos:pos + 64]`."
        return classify

    def lower32(text: np.ndarray, pos: int, out: np.ndarray, out_pos: int) -> np.uint64:
        block = text[pos : pos + 32]
        out[out_pos : out_pos + 32] = _lower_case(block)
        return _bits_of(block, NON_ASCII)

    def fold32(text: np.ndarray, pos: int, length: int, out: np.ndarray, out_pos: int) -> np.uint64:
        block = np.full(32, 0x20, np.uint8)
        block[:length] = text[pos : pos + length]
        block = _lower_case(block)
        out[out_pos : out_pos + 32] = block
        return _bits_of(block, RUNS) | _bits_of(block, NON_ASCII) << np.uint64(32)

    def copy32(text: np.ndarray, pos: int, out: np.ndarray, out_pos: int) -> None:
        out[out_pos : out_pos + 32] = text[pos : pos + 32]

    def bits_set(word: np.uint64) -> np.int64:
        return np.int64(int(word).bit_count())


run_bits = _classifier(RUNS, "bytes of normalised text that belong to a run")
space_bits = _classifier(SPACES, "ASCII white space of `str.split()`")
space_lead_bits = _classifier(SPACE_LEADS, "bytes that may begin non-ASCII white space")
special_bits = _classifier(SPECIAL_IN_JSON, "special bytes of a JSON string")
break_bits = _classifier(LINE_BREAKS, "line feeds and carriage returns")
colon_bits = _classifier(COLONS, "colons")
tag_bits = _classifier(TAG_OPENINGS, "`<`")
non_ascii_bits = _classifier(NON_ASCII, "non-ASCII bytes")
continuation_bits = _classifier(CONTINUATIONS, "continuation bytes")
lead2_bits = _classifier(LEADS_OF_2, "first bytes of two-byte characters")
lead3_bits = _classifier(LEADS_OF_3, "first bytes of three-byte characters")
lead4_bits = _classifier(LEADS_OF_4, "first bytes of four-byte characters")
restricted_lead_bits = _classifier(RESTRICTED_LEADS, "first bytes that restrict the second byte")
