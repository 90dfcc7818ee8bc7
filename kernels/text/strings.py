"""UTF-8, and the strings of CPython.

Validation (RFC 3629) reads 64 bytes at a time. The first bytes of characters determine which bytes must be continuation
bytes; no others may be. Four first bytes restrict the second byte: their characters are checked one by one.

`str.encode` holds the GIL while it encodes character by character, about 3 µs for 2 KB: half of the time of scoring
them, during which no other thread runs. A string is an array of characters of one, two or four bytes each. So the GIL
is held only to locate the strings; they are encoded without it, up to 64 characters at a time if they are ASCII.

Reading them without the GIL is safe because of what holds for CPython with a GIL:

- The caller owns a list that no other code can reach (`checked_texts` copies the caller's), and keeps it until
  `encode_strings` has returned. So every string has an owner, and its memory is neither freed nor used again.
- Strings never change: CPython writes the characters of a string before any other code sees it, and never moves them.
- `find_strings` asks for their place with the GIL held, by Numba's `extract_unicode`, which is compiled against the
  headers of this Python: a change of their layout is a change of its macros, not a wrong address.

None of this is promised by a build without the GIL or by PyPy. `can_read_strings` is therefore asked at the start: it
also encodes known strings of each kind. If it says no, callers use `str.encode`.
"""

from __future__ import annotations

import ctypes
import logging
import sys
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..compiler import JIT, gil_kernel, helper, hot_kernel
from ..memory import (
    continuation_bits,
    lead2_bits,
    lead3_bits,
    lead4_bits,
    non_ascii_bits,
    restricted_lead_bits,
    trailing_zeros,
)

BLOCK = 64
NONE, ONE, TWO, THREE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
TOP, TOP_TWO, TOP_THREE = np.uint64(63), np.uint64(62), np.uint64(61)


@helper
def width(lead):
    """Return the bytes of the character that begins with byte `lead`."""
    if lead < 0x80:
        return 1
    if lead < 0xE0:
        return 2
    return 3 if lead < 0xF0 else 4


@helper
def decode(text, pos):
    lead = np.int64(text[pos])
    if lead < 0x80:
        return lead
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | (np.int64(text[pos + 1]) & 0x3F)
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | (np.int64(text[pos + 1]) & 0x3F) << 6 | (np.int64(text[pos + 2]) & 0x3F)
    high = (lead & 0x07) << 18 | (np.int64(text[pos + 1]) & 0x3F) << 12
    return high | (np.int64(text[pos + 2]) & 0x3F) << 6 | (np.int64(text[pos + 3]) & 0x3F)


@helper
def encode(code, out, pos):
    """Write `code` at byte `pos` of `out`; returns the position after it."""
    if code < 0x80:
        out[pos] = code
        return pos + 1
    if code < 0x800:
        out[pos] = 0xC0 | code >> 6
        out[pos + 1] = 0x80 | code & 0x3F
        return pos + 2
    if code < 0x10000:
        out[pos] = 0xE0 | code >> 12
        out[pos + 1] = 0x80 | code >> 6 & 0x3F
        out[pos + 2] = 0x80 | code & 0x3F
        return pos + 3
    out[pos] = 0xF0 | code >> 18
    out[pos + 1] = 0x80 | code >> 12 & 0x3F
    out[pos + 2] = 0x80 | code >> 6 & 0x3F
    out[pos + 3] = 0x80 | code & 0x3F
    return pos + 4


@helper
def is_continuation(byte):
    return 0x80 <= byte <= 0xBF


@helper
def valid_width(text, pos, stop):
    """Return the bytes of the non-ASCII character at `pos`, 0 if it is not valid UTF-8 (RFC 3629)."""
    lead = text[pos]
    left = stop - pos
    if lead < 0xC2 or lead > 0xF4 or left < 2:
        return 0
    second = text[pos + 1]
    if lead < 0xE0:
        return 2 if is_continuation(second) else 0
    low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
    high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
    if left < 3 or not low <= second <= high or not is_continuation(text[pos + 2]):
        return 0
    if lead < 0xF0:
        return 3
    return 4 if left >= 4 and is_continuation(text[pos + 3]) else 0


@helper
def restricted_leads_valid(text, base, stop, leads):
    """Return whether the characters at the bits `leads` of the block at `base` are valid."""
    while leads != NONE:
        if valid_width(text, base + trailing_zeros(leads), stop) == 0:
            return False
        leads &= leads - ONE
    return True


@helper
def is_utf8(text, pos, stop):
    expected = NONE  # bytes of the block that must continue a character of the block before
    while stop - pos >= BLOCK:
        non_ascii = non_ascii_bits(text, pos)
        if non_ascii | expected != NONE:
            four = lead4_bits(text, pos)
            three = lead3_bits(text, pos) | four
            two = lead2_bits(text, pos) | three
            continuations = continuation_bits(text, pos)
            if continuations | two != non_ascii or continuations != (
                expected | two << ONE | three << TWO | four << THREE
            ):
                return False
            if not restricted_leads_valid(text, pos, stop, restricted_lead_bits(text, pos)):
                return False
            expected = two >> TOP | three >> TOP_TWO | four >> TOP_THREE
        pos += BLOCK
    if expected != NONE:
        pos -= 1
        while is_continuation(text[pos]):
            pos -= 1
    while pos < stop:
        size = 1 if text[pos] < 0x80 else valid_width(text, pos, stop)
        if size == 0:
            return False
        pos += size
    return True


@helper
def has_valid_offsets(data, offsets):
    """Return whether `offsets` ascend inside `data`."""
    rows = offsets.shape[0] - 1
    if offsets[0] < 0 or offsets[rows] > data.shape[0]:
        return False
    for row in range(rows):
        if offsets[row] > offsets[row + 1]:
            return False
    return True


@hot_kernel
def is_valid_column(data, offsets):
    """Return whether `data` and `offsets` are a text column: ascending rows inside `data`, each of them UTF-8."""
    if not has_valid_offsets(data, offsets):
        return False
    for row in range(offsets.shape[0] - 1):
        if not is_utf8(data, offsets[row], offsets[row + 1]):
            return False
    return True


log = logging.getLogger("assay")

ROOM = 64
"""Bytes that `out` needs in addition to four for each character."""

# Rows of `layouts`.
ADDRESSES, LENGTHS, WIDTHS = range(3)

ASCII_END = 0x80
KNOWN_STRINGS = ("", *(f"{'a' * 65}{odd}{'b' * 65}" for odd in "a\x80é–\ud800😀"))
FIRST_SURROGATE, LAST_SURROGATE, REPLACEMENT = 0xD800, 0xDFFF, 0xFFFD

if JIT:

    @intrinsic
    def str_layout(typing_context, address):
        """Return (address of the characters of the str at `address`, their number, bytes of each)."""

        def generate(context, builder, signature, arguments):
            python = context.get_python_api(builder)
            text = builder.inttoptr(arguments[0], python.pyobj)
            _, characters, length, width, _, _ = python.string_as_string_size_and_kind(text)
            layout = builder.ptrtoint(characters, ir.IntType(64)), length, builder.zext(width, ir.IntType(64))
            return context.make_tuple(builder, signature.return_type, layout)

        return types.UniTuple(types.int64, 3)(types.int64), generate

    def _character(width: int) -> Any:
        @intrinsic
        def character(typing_context, address):
            """Return the character of `width` bytes at `address` as an int64."""

            def generate(context, builder, signature, arguments):
                pointer = builder.inttoptr(arguments[0], ir.IntType(8 * width).as_pointer())
                return builder.zext(builder.load(pointer, align=1), ir.IntType(64))

            return types.int64(types.int64), generate

        return character

    def _narrow(width: int, lanes: int) -> Any:
        @intrinsic
        def narrow(typing_context, address, out, out_pos):
            """Write `lanes` characters of `width` bytes to `out[out_pos:]`, one byte each; returns a bitmap of the
            characters that are not ASCII.
            """

            def generate(context, builder, signature, arguments):
                wide = ir.VectorType(ir.IntType(8 * width), lanes)
                small = ir.VectorType(ir.IntType(8), lanes)
                block = builder.load(builder.inttoptr(arguments[0], wide.as_pointer()), align=1)
                data = context.make_array(signature.args[1])(context, builder, arguments[1]).data
                target = builder.bitcast(builder.gep(data, [arguments[2]]), small.as_pointer())
                builder.store(block if width == 1 else builder.trunc(block, small), target, align=1)
                non_ascii = builder.icmp_unsigned(">=", block, ir.Constant(wide, [ASCII_END] * lanes))
                bits = builder.bitcast(non_ascii, ir.IntType(lanes))
                return bits if lanes == 64 else builder.zext(bits, ir.IntType(64))

            return types.uint64(types.int64, out, types.int64), generate

        return narrow

else:

    def str_layout(address: int) -> tuple[int, int, int]:
        from numba._helperlib import c_helpers  # type: ignore[attr-defined]

        size, number = ctypes.c_ssize_t, ctypes.c_int
        outcomes = size(), number(), number(), size()
        prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, *(ctypes.POINTER(type(o)) for o in outcomes))
        characters = prototype(c_helpers["extract_unicode"])(int(address), *map(ctypes.byref, outcomes))
        return characters, outcomes[0].value, outcomes[1].value

    def _character(width: int) -> Any:
        def character(address: int) -> np.int64:
            return np.int64(int.from_bytes(ctypes.string_at(int(address), width), "little"))

        return character

    def _narrow(width: int, lanes: int) -> Any:
        def narrow(address: int, out: np.ndarray, out_pos: int) -> np.uint64:
            block = np.frombuffer(ctypes.string_at(int(address), width * lanes), f"<u{width}")
            out[out_pos : out_pos + lanes] = block & 0xFF
            return np.uint64(int.from_bytes(np.packbits(block >= ASCII_END, bitorder="little").tobytes(), "little"))

        return narrow


def _encoder(width: int, lanes: int) -> Any:
    character, narrow = _character(width), _narrow(width, lanes)

    @helper
    def encode_characters(address, length, out, end):
        """Encode `length` characters of `width` bytes at `address` to `out[end:]`; returns the new end."""
        stop = address + width * length
        while address < stop:
            if stop - address >= width * lanes:
                non_ascii = narrow(address, out, end)
                if non_ascii == NONE:
                    address += width * lanes
                    end += lanes
                    continue
                plain = trailing_zeros(non_ascii)
                address += width * plain
                end += plain
            code = character(address)
            while True:
                if FIRST_SURROGATE <= code <= LAST_SURROGATE:
                    code = np.int64(REPLACEMENT)
                end = encode(code, out, end)
                address += width
                if address >= stop:
                    break
                code = character(address)
                if code < ASCII_END:
                    break
        return end

    return encode_characters


encode_bytes, encode_pairs, encode_fours = _encoder(1, 64), _encoder(2, 32), _encoder(4, 16)


@gil_kernel
def find_strings(layouts, addresses):
    """Locate the characters of strings, which the caller keeps alive; returns the number of characters.

    layouts: int64 (3, n), written: address, number and width in bytes of the characters of each. addresses: int64
    (n,), the `id` of each.
    """
    characters = np.int64(0)
    for k in range(addresses.shape[0]):
        begin, length, width = str_layout(addresses[k])
        layouts[ADDRESSES, k] = begin
        layouts[LENGTHS, k] = length
        layouts[WIDTHS, k] = width
        characters += length
    return characters


@helper
def encode_string(layouts, k, most, out, end):
    """Write up to `most` characters of a string that `find_strings` has located to `out[end:]`; returns the new end."""
    begin, length, width = layouts[ADDRESSES, k], min(layouts[LENGTHS, k], most), layouts[WIDTHS, k]
    if width == 1:
        return encode_bytes(begin, length, out, end)
    if width == 2:
        return encode_pairs(begin, length, out, end)
    return encode_fours(begin, length, out, end)


@hot_kernel
def encode_strings(out, offsets, layouts):
    """Write the strings that `find_strings` has located as UTF-8, each surrogate as U+FFFD.

    out: uint8, four bytes for each character and ROOM more, written. offsets: int64 (n + 1,), written.
    """
    offsets[0] = 0
    for k in range(layouts.shape[1]):
        offsets[k + 1] = encode_string(layouts, k, layouts[LENGTHS, k], out, offsets[k])


def is_safe_build() -> bool:
    """Return whether this Python is CPython with a GIL."""
    return sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()


@cache
def can_read_strings() -> bool:
    """Return whether strings of this Python can be read in place; logs a warning if not. Kernels must be compiled."""
    if not is_safe_build():
        log.warning("strings are encoded by str.encode, which is slower: this is not CPython with a GIL")
        return False
    layouts, offsets = np.zeros((3, len(KNOWN_STRINGS)), np.int64), np.zeros(len(KNOWN_STRINGS) + 1, np.int64)
    characters = find_strings(layouts, np.array([id(text) for text in KNOWN_STRINGS], np.int64))
    right = int(characters) == sum(map(len, KNOWN_STRINGS))
    if right:
        out = np.zeros(4 * characters + ROOM, np.uint8)
        encode_strings(out, offsets, layouts)
        expected = "".join(KNOWN_STRINGS).encode(errors="replace")
        right = out[: offsets[-1]].tobytes().replace("\ufffd".encode(), b"?") == expected
    if not right:
        log.warning(
            "strings are encoded by str.encode, which is slower: the layout of this Python's strings is unknown"
        )

    return right
