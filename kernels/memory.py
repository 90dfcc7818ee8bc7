"""Loads and stores, SIMD, hashing, and workspaces: memory without bounds checks.

Words are little-endian: byte k of the text is bits 8k to 8k + 7. All eight bytes must be inside the array.

Bit k of a bitmap belongs to byte k of the block. The whole block must be inside the array.

Equality is always decided by comparing bytes, so a collision costs time, never a reward. The secret seed prevents
texts that collide on purpose.

A workspace is two arrays with named rows, because every array argument costs a compiled function seven machine words.
Sizes follow from the longest text: normalisation writes at most 11 bytes for one (U+FDFA: 3 bytes become 33), of which
few are copied, or 6 (U+3316), which are copied at most twice, as words and as parts; and 3 bytes give at most 4 words
and as many sequences of words. Pages that no text reaches are never touched, so the worst case costs address space, not
memory. NumPy asks for huge pages, so touching one byte of its large arrays commits two megabytes: `sparse` does not.
"""

from __future__ import annotations

import math
import mmap
import secrets
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

from .compiler import JIT, helper, inlined

if sys.byteorder != "little":
    raise ImportError("Assay's kernels read memory in little-endian order")

BYTE = np.uint64(8)
ONE = np.uint64(1)


def pointer_to(context: Any, builder: Any, array_type: Any, array: Any, pos: Any) -> Any:
    """Return code for a pointer to the word at `array[pos]`."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [pos]), ir.IntType(64).as_pointer())


if JIT:

    @intrinsic
    def load8(typing_context, text, pos):
        """Return the eight bytes `text[pos:pos + 8]` of a uint8 array as a uint64."""

        def generate(context, builder, signature, arguments):
            return builder.load(pointer_to(context, builder, signature.args[0], *arguments), align=1)

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
            builder.store(arguments[2], pointer_to(context, builder, signature.args[0], *arguments[:2]), align=1)
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


ODD_A = np.uint64(0x9E3779B97F4A7C15)
ODD_B = np.uint64(0xD6E8FEB86659FD93)
ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
HALF = np.uint64(32)
TOP_TWO_BITS, LETTER_BITS = np.uint64(0xC0C0C0C0C0C0C0C0), np.uint64(0x4040404040404040)
"""The top two bits of eight bytes, and what they are in `A` to `Z`, `a` to `z` and `_`, but not in digits or `-`."""


@inlined
def mix(value):
    """Spread every bit of a uint64 over all of them."""
    value = (value ^ (value >> HALF)) * ODD_B
    value = (value ^ (value >> HALF)) * ODD_B
    return value ^ (value >> HALF)


@inlined
def surplus_bits(length):
    """Return by how many bits a word of `length` bytes (at least 1) is shorter than eight bytes."""
    return np.uint64(8 * (8 - min(length, 8)))


@inlined
def head_of(text, start, length):
    """Return the first eight bytes of a word, or all of a shorter one, as a uint64; reads up to eight bytes past it."""
    return load8(text, start) & ALL_BITS >> surplus_bits(length)


@inlined
def tail_of(text, start, length):
    """Return the last eight bytes of a word, or all of a shorter one, as a uint64; reads up to eight bytes past it."""
    return load8(text, start + max(length - 8, 0)) & ALL_BITS >> surplus_bits(length)


@inlined
def is_plain(text, start, stop):
    """Return whether the word `text[start:stop]` has only ASCII letters and `_`; reads up to eight bytes past it."""
    for k in range(start, stop, 8):
        if (load8(text, k) & TOP_TWO_BITS ^ LETTER_BITS) << surplus_bits(stop - k) != np.uint64(0):
            return False
    return True


@inlined
def hash_word(text, start, length, head, tail, seed):
    """Return the hash of the word `text[start:start + length]`, 63 bits as an int64; head, tail: as above."""
    state = (head ^ seed) * ODD_A
    state = (state ^ (state >> HALF) ^ tail ^ np.uint64(length) << HALF) * ODD_B
    for k in range(8, length - 8, 8):
        state = (state ^ (state >> HALF) ^ load8(text, start + k)) * ODD_A
    return np.int64((state ^ (state >> HALF)) * ODD_A >> ONE)


SEED = np.uint64(secrets.randbits(64))
"""Key of this process's hashes."""

# Rows of `bytes`.
TEXT = 0  # decoded JSON strings of one step
NORM = 1  # one normalised text
CANON = 2  # the distinct words of the key steps

# Rows of `ints`. Steps: the action's string; the starts in IDS of the words of action, objects and parameters, and
# their end; the range of the objects in OBJECTS; the end in IDS of the parameters' terms, which follow the words.
# Of a reference also its steps by action: action << 32 | step, ascending if the reference is wide.
STEP_ROWS = 9
ACTION, WORDS, OBJECT_WORDS, PARAMETER_WORDS, WORD_STOP, OBJECT_START, OBJECT_STOP, TERM_STOP, BY_ACTION = range(
    STEP_ROWS
)
# Distinct strings: starts of words in CANON, their lengths or PAIR, their first eight bytes or the pair, their hashes,
# and the last step in which they occurred.
STARTS, LENGTHS, HEADS, HASHES, WORD_STAMPS = range(9, 14)
# Open addressing of the strings: epoch << 32 | string.
SLOTS = 14
# Strings in order of appearance: words of key steps, and their objects.
IDS, OBJECTS = range(15, 17)
# Spans in NORM of the words of the current text, and the words of the key step that are not among them.
SPAN_STARTS, SPAN_STOPS, MISSING = range(17, 20)
# Hash table of the words of the current prose: stamp << 32 | word.
PROSE_SLOTS = 20
# Spans in TEXT of the phrases of the current step.
PHRASE_STARTS, PHRASE_STOPS = range(21, 23)
# Code points of one cluster.
CODES = 23
# Strings as numbered by the reference: all of them, and those of ACTION, IDS and OBJECTS.
MAPPED, MAPPED_ACTION, MAPPED_IDS, MAPPED_OBJECTS = range(24, 28)
# Anchors; the last set that contained a string; scratch.
PARTNERS, STAMPS, FIRST, FOLLOWING = range(28, 32)
# Spans of the steps in the response, their coverages, and Obj + ½ Par and the values of their anchors (float64).
KEY_STARTS, KEY_STOPS, ORC_STARTS, ORC_STOPS, COVERAGES, SIMILARITIES, VALUES = range(32, 39)
# Terms of the parameters of the current key step, and the spans in NORM of those of the last element.
TERMS, TERM_SPANS = range(39, 41)
# Words that are looked for among others: their spans and what was found. Of the others, spans of those of a key step in
# CANON, and first bytes.
SOUGHT_STARTS, SOUGHT_STOPS, KIN, KEY_WORD_STARTS, KEY_WORD_STOPS, OTHER_HEADS = range(41, 47)
# Counters, field by field.
COUNTS = 47
ROWS = 48

# Fields of the row COUNTS.
STRINGS_USED, CANON_USED, IDS_USED, OBJECTS_USED, EPOCH, MASK = range(6)
# Phrases of the current step: those that count begin with the action, followed by the objects and the parameters.
PHRASES_USED, ACTION_PHRASE, FIRST_OBJECT, FIRST_PARAMETER = range(6, 10)
# The last stamps in use: of sets, and of prose texts.
STAMP, PROSE_STAMP = range(10, 12)
# The end in NORM of the text that was read last.
NORM_STOP = 12


MIN_PROSE_SLOTS = 1 << 10
"""Slots of the row PROSE_SLOTS that a usual step of about twenty words uses."""


class Workspace(NamedTuple):
    """Arrays that kernels write. `seed` keys the hashes."""

    bytes: np.ndarray  # uint8 (3, n)
    ints: np.ndarray  # int64 (48, n)
    seed: np.uint64


def allocate_workspace(max_bytes: int, widest_reference: int = 0) -> Workspace:
    """Allocate a workspace for texts of up to `max_bytes` bytes and references of up to `widest_reference`
    (`References.widest`; 0 for reading references).
    """
    shapes = (3, bytes_of_workspace(max_bytes)), (ROWS, ints_of_workspace(max_bytes, widest_reference))
    return Workspace(sparse(shapes[0], np.uint8), sparse(shapes[1], np.int64), SEED)


def bytes_of_workspace(max_bytes: int) -> int:
    """Return the columns of `Workspace.bytes`."""
    return 20 * (max_bytes + 64) + 72


def ints_of_workspace(max_bytes: int, widest_reference: int) -> int:
    """Return the columns of `Workspace.ints`."""
    size = max_bytes + 64
    slots = 1 << max(6 * size - 1, MIN_PROSE_SLOTS).bit_length()
    strings = 3 * size + widest_reference + 64
    return max(strings, slots) + 72  # rows must not be a power of two apart: they would share cache sets


NEVER = np.zeros(1, np.int64)
"""The stop flag of kernels that nobody stops: they return False as soon as they see another value than 0."""

SMALL = 1 << 22

SPARSE = hasattr(mmap, "MADV_NOHUGEPAGE")
"""True on Linux; elsewhere the arrays are NumPy's own."""

FLAGS = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0) | getattr(mmap, "MAP_NORESERVE", 0x4000)
"""Private, because Python's default is shared with forked children. Not reserved, because a worst case is many times
what a text uses; Python before 3.13 does not name this flag of Linux."""


def sparse(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Return a zeroed, writable array of `shape`; raises MemoryError."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < SMALL or not SPARSE:
        return np.zeros(shape, dtype)
    try:
        block = mmap.mmap(-1, size, flags=FLAGS)
    except OSError as error:
        raise MemoryError(f"cannot map {size} bytes: {error.strerror}") from error
    block.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(block, dtype).reshape(shape)
