"""Encoding of Python strings as UTF-8 from their memory, mostly without the GIL.

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

from ..compiler.jit import JIT, gil_kernel, helper, hot_kernel
from ..memory.load_store import trailing_zeros
from .utf8 import encode

__all__ = ["ROOM", "can_read_strings", "encode_strings", "find_strings"]

log = logging.getLogger("assay")

ROOM = 64
"""Bytes that `out` needs in addition to four for each character."""

# Rows of `layouts`.
ADDRESSES, LENGTHS, WIDTHS = range(3)

NONE = np.uint64(0)
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


@hot_kernel
def encode_strings(out, offsets, layouts):
    """Write the strings that `find_strings` has located as UTF-8, each surrogate as U+FFFD.

    out: uint8, four bytes for each character and ROOM more, written. offsets: int64 (n + 1,), written.
    """
    end = np.int64(0)
    offsets[0] = 0
    for k in range(layouts.shape[1]):
        begin, length, width = layouts[ADDRESSES, k], layouts[LENGTHS, k], layouts[WIDTHS, k]
        if width == 1:
            end = encode_bytes(begin, length, out, end)
        elif width == 2:
            end = encode_pairs(begin, length, out, end)
        else:
            end = encode_fours(begin, length, out, end)
        offsets[k + 1] = end


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
