"""How kernels are compiled: never at import, never inside a request, once in `warmup()`.

`@helper` marks a function that kernels call. `@kernel` marks one that Python calls; its argument types are fixed in
`warmup.py`, compiled there, and no other type is ever compiled for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numba

from .cache import cache_folder
from .machine_code import CodeFolder, cache_in_folder

__all__ = ["CACHE", "JIT", "allocating", "entry", "gil_kernel", "helper", "hot_kernel", "inlined", "kernel"]

HELPER_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only compiled ones call: no machine code is made of them alone."""

JIT = not numba.config.DISABLE_JIT
"""False under NUMBA_DISABLE_JIT=1, where kernels run as plain Python (for coverage and debugging)."""


def _cpu_target() -> str:
    name = numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name()
    features = numba.config.CPU_FEATURES
    if features is None:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    return f"{name} {features} boundscheck={numba.config.BOUNDSCHECK} opt={numba.config.OPT}"


_folder = cache_folder(_cpu_target()) if JIT else None
_code = CodeFolder(_folder) if _folder is not None else None

CACHE = str(_folder) if _folder is not None else None
"""Folder of the compiled kernels, or None when nothing can be kept."""


def helper(function: Callable[..., Any]) -> Any:
    """Compile `function` into the kernels that call it, without reference counts: it must not allocate or return
    arrays.

    Counting is atomic and happens wherever an array is taken out of a tuple: with it, scoring took ten times as long.
    """
    return numba.njit(_nrt=False, **HELPER_OPTIONS)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A helper that becomes part of its callers: what is called for every word costs less than passing its arguments.

    An array is seven machine words or more, a workspace nineteen.
    """
    return numba.njit(_nrt=False, forceinline=True, **HELPER_OPTIONS)(function)


def allocating(function: Callable[..., Any]) -> Any:
    """Compile `function` as a helper that may allocate: for rare paths, and kernels that stand alone."""
    return numba.njit(_nrt=True, **HELPER_OPTIONS)(function)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` as an entry from Python; the result is kept in `CACHE` between runs."""
    return _entry(function, counts=True)


def entry(function: Any) -> Callable[..., Any]:
    """The compiled machine code of a kernel of one signature, without the look-up by types (3 µs) before each call.

    Only after `warmup()`. The caller vouches for the arguments' types: nobody checks them any more.
    """
    return function.overloads[function.signatures[0]].entry_point if JIT else function


def hot_kernel(function: Callable[..., Any]) -> Any:
    """A kernel under the rules of `helper`."""
    return _entry(function, counts=False)


def gil_kernel(function: Callable[..., Any]) -> Any:
    """A kernel under the rules of `helper` that holds the interpreter, because it looks at Python's objects."""
    return _entry(function, counts=False, nogil=False)


def _entry(function: Callable[..., Any], counts: bool, nogil: bool = True) -> Any:
    dispatcher = numba.njit(nogil=nogil, error_model="numpy", _nrt=counts)(function)
    if _code is not None:
        cache_in_folder(dispatcher, _code)
    return dispatcher
