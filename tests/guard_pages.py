"""NumPy arrays between guard pages: a kernel that reads or writes out of bounds ends the process.

`NUMBA_BOUNDSCHECK=1` checks array indices, not the loads and stores of eight bytes and more that kernels make by
address. Here every array that NumPy allocates ends right before a guard page, or begins right after one. The rest of
its own pages holds a pattern, which is checked when the array is freed. NumPy takes allocators from C only (NEP 49),
and calls them while an exception propagates: so this one is compiled and runs no Python.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

import assay.kernels.memory
from assay.kernels.column import TextColumn
from assay.kernels.text.unicode import tables
from assay.service.scoring import memory as workspaces

__all__ = ["GuardedMemory", "forget", "guarded_memory"]

PAGE = mmap.PAGESIZE
READ_WRITE = 3
PRIVATE = 0x02 | 0x20 | 0x4000
"""MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE of Linux."""
NO_HUGE_PAGES = 15
PATTERN = 0xA5
MAX_FILLED = 1 << 16
"""Bytes of an array without values that are filled with the pattern."""

SET_HANDLER = 304
"""Index of `PyDataMem_SetHandler` in NumPy's table of C functions."""

ALLOCATIONS, FAILING, AT_END, DAMAGED, PATTERN_PAGE = range(5)
"""Indices of the allocator's counters and options, int64 each."""

size = types.intp
Malloc = size(size, size)
Calloc = size(size, size, size)
Free = types.void(size, size, size)
map_pages = types.ExternalFunction("mmap", size(size, size, types.intc, types.intc, types.intc, size))
unmap_pages = types.ExternalFunction("munmap", types.intc(size, size))
protect = types.ExternalFunction("mprotect", types.intc(size, size, types.intc))
advise = types.ExternalFunction("madvise", types.intc(size, size, types.intc))
fill = types.ExternalFunction("memset", size(size, types.intc, size))
copy = types.ExternalFunction("memcpy", size(size, size, size))
differ = types.ExternalFunction("memcmp", types.intc(size, size, size))


def word_at(kind: str) -> Any:
    """Return a function that loads or stores the 64-bit word at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        if kind == "load":
            return builder.load(pointer)
        builder.store(arguments[1], pointer)
        return context.get_dummy_value()

    def load(typing_context: Any, address: Any) -> Any:
        return types.int64(types.intp), generate

    def store(typing_context: Any, address: Any, word: Any) -> Any:
        return types.none(types.intp, types.int64), generate

    return intrinsic(load if kind == "load" else store)


load, store = word_at("load"), word_at("store")
part = numba.njit(_nrt=False, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


@part
def allocated(state, count, filled):
    """Map a page with the array's size, a guard page, its own pages, a guard page; return its address, or 0."""
    number = load(state + 8 * ALLOCATIONS)
    store(state + 8 * ALLOCATIONS, number + 1)
    if number == load(state + 8 * FAILING):
        return 0
    inner = (max(count, 1) + PAGE - 1) // PAGE * PAGE
    base = map_pages(0, inner + 3 * PAGE, 0, PRIVATE, -1, 0)
    if base == -1:
        return 0
    first = base + 2 * PAGE
    protect(base, PAGE, READ_WRITE)
    protect(first, inner, READ_WRITE)
    advise(first, inner, NO_HUGE_PAGES)
    at = first
    if load(state + 8 * AT_END) and count > 0:
        at = first + inner - count
    store(base, inner)
    store(base + 8, count)
    fill(first, PATTERN, at - first)
    fill(at + count, PATTERN, first + inner - at - count)
    if filled:
        fill(at, PATTERN, min(count, MAX_FILLED))
    return at


@part
def freed(state, at):
    """Unmap an array's pages, after checking the pattern around it."""
    if at == 0:
        return
    first = at // PAGE * PAGE
    base = first - 2 * PAGE
    inner, count = load(base), load(base + 8)
    pattern = load(state + 8 * PATTERN_PAGE)
    if differ(first, pattern, at - first) or differ(at + count, pattern, first + inner - at - count):
        store(state + 8 * DAMAGED, load(state + 8 * DAMAGED) + 1)
    unmap_pages(base, inner + 3 * PAGE)


@part
def moved(state, old, count):
    """Reallocate an array with another size; returns its address, or 0."""
    new = allocated(state, count, True)
    if new != 0 and old != 0:
        copy(new, old, min(count, load(old // PAGE * PAGE - 2 * PAGE + 8)))
        freed(state, old)
    return new


class Handler(ctypes.Structure):
    """`PyDataMem_Handler`: a name, a version, the functions' first argument, and four functions."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        *[(name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")],
    )


class GuardedMemory:
    """The allocator. It lives as long as the process, because its arrays may."""

    def __init__(self) -> None:
        self._pattern = np.full(PAGE, PATTERN, np.uint8)
        self._state = np.array([0, -1, 1, 0, self._pattern.ctypes.data], np.int64)
        functions = [
            numba.cfunc(Malloc)(lambda state, count: allocated(state, count, True)),
            numba.cfunc(Calloc)(lambda state, count, each: allocated(state, count * each, False)),
            numba.cfunc(Calloc)(lambda state, old, count: moved(state, old, count)),
            numba.cfunc(Free)(lambda state, at, count: freed(state, at)),
        ]
        self._functions = functions
        addresses = [function.address for function in functions]
        self._handler = Handler(b"guard_pages", 1, self._state.ctypes.data, *addresses)
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype = ctypes.py_object
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule = new_capsule(ctypes.addressof(self._handler), b"mem_handler", None)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    @property
    def allocations(self) -> int:
        """Number of arrays requested so far."""
        return int(self._state[ALLOCATIONS])

    def fail(self, later: int | None) -> None:
        """Let the allocation after the next `later` ones fail; None: none."""
        self._state[FAILING] = -1 if later is None else self.allocations + later

    def put_at_end(self, at_end: bool) -> None:
        """Let arrays end at a guard page, or else begin at one."""
        self._state[AT_END] = at_end

    def check(self) -> None:
        """Raise AssertionError if the pattern around a freed array was overwritten."""
        damaged, self._state[DAMAGED] = int(self._state[DAMAGED]), 0
        assert not damaged, f"something wrote beside {damaged} arrays"

    @staticmethod
    def frozen(content: bytes) -> memoryview:
        """Copy a body into guarded memory, read only."""
        array = np.empty(len(content), np.uint8)
        array[:] = np.frombuffer(content, np.uint8)
        return memoryview(array).toreadonly()

    @staticmethod
    def column(column: TextColumn) -> TextColumn:
        """Copy texts into guarded memory, without spare bytes after them."""
        return TextColumn.of(column.data[: int(column.offsets[-1])].copy(), column.offsets.copy())


@cache
def the_memory() -> GuardedMemory:
    return GuardedMemory()


def set_handler(capsule: Any) -> Any:
    """Hand NumPy an allocator for this thread; returns the one before."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer_of(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[SET_HANDLER])(capsule)


@contextmanager
def guarded_memory() -> Iterator[GuardedMemory]:
    """Allocate all arrays of this thread in guarded memory inside the block, after dropping those kept so far.

    Workspaces are exactly as large as texts need; the product rounds them up.
    """
    memory = the_memory()
    small, rounded = assay.kernels.memory.SMALL, workspaces._rounded
    previous = set_handler(memory.capsule)
    try:
        forget()
        tables.cache_clear()
        assay.kernels.memory.SMALL = 1 << 62  # so that NumPy allocates these, too
        workspaces._rounded = int
        yield memory
    finally:
        assay.kernels.memory.SMALL, workspaces._rounded = small, rounded
        memory.fail(None)
        memory.put_at_end(True)
        set_handler(previous)
        forget()
        tables.cache_clear()
    memory.check()


def forget() -> None:
    """Drop all arrays that the product keeps from one batch to the next."""
    workspaces._forget()
