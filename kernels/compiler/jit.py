"""Decorators of compiled functions; they are compiled in `warmup()`, never at import or inside a request.

`@helper` marks a function that kernels call, `@kernel` one that Python calls. `warmup.py` fixes the argument types of
kernels; they are compiled for no others, and by the rules of `compilation.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding
import numba

from .cache import cache_folder
from .machine_code import CodeFolder, cache_in_folder

__all__ = [
    "CACHE",
    "FUNCTIONS",
    "JIT",
    "KERNELS",
    "allocating",
    "entry",
    "gil_kernel",
    "helper",
    "hot_kernel",
    "inlined",
    "kernel",
]

HELPER_OPTIONS = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only compiled functions call: they need no wrappers."""

JIT = not numba.config.DISABLE_JIT
"""False under NUMBA_DISABLE_JIT=1: kernels run as plain Python (for coverage and debugging)."""


def _cpu_target() -> str:
    name = numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name()
    features = numba.config.CPU_FEATURES
    if features is None:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    return f"{name} {features} boundscheck={numba.config.BOUNDSCHECK} opt={numba.config.OPT}"


_folder = cache_folder(_cpu_target()) if JIT else None
_code = CodeFolder(_folder) if _folder is not None else None

CACHE = str(_folder) if _folder is not None else None
"""Folder of the compiled kernels, or None if they cannot be cached."""

FUNCTIONS: list[Any] = []
"""All functions of the decorators below, for progress; one has `signatures` as soon as it is compiled."""

KERNELS: list[Any] = []
"""The functions that Python may call."""


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    dispatcher = numba.njit(error_model="numpy", **options)(function)
    FUNCTIONS.append(dispatcher)
    return dispatcher


def helper(function: Callable[..., Any]) -> Any:
    """Compile `function` into its callers, without reference counts: it must not allocate or return arrays.

    Counting is atomic and happens whenever an array is taken out of a tuple: with it, scoring took ten times as long.
    """
    return _compiled(function, _nrt=False, **HELPER_OPTIONS)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile `function` as a helper that is inlined into its callers, because passing its arguments costs more.

    An array is seven machine words or more, a workspace nineteen.
    """
    return _compiled(function, _nrt=False, forceinline=True, **HELPER_OPTIONS)


def allocating(function: Callable[..., Any]) -> Any:
    """Compile `function` as a helper that may allocate: for rare paths and for kernels of single metrics."""
    return _compiled(function, _nrt=True, **HELPER_OPTIONS)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` as a kernel, which Python calls; its code is cached in `CACHE`."""
    return _entry(function, counts=True)


@cache
def entry(function: Any) -> Callable[..., Any]:
    """Return the compiled code of a kernel, which skips Numba's dispatch by argument types (3 µs a call).

    Only after `warmup()`. The argument types are not checked: they must match the kernel's only signature.
    """
    return function.overloads[function.signatures[0]].entry_point if JIT else function


def hot_kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` as a kernel under the rules of `helper`."""
    return _entry(function, counts=False)


def gil_kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` as a hot kernel that holds the GIL, because it reads Python objects."""
    return _entry(function, counts=False, nogil=False)


def _entry(function: Callable[..., Any], counts: bool, nogil: bool = True) -> Any:
    dispatcher = _compiled(function, nogil=nogil, _nrt=counts)
    KERNELS.append(dispatcher)
    if _code is not None:
        cache_in_folder(dispatcher, _code)
    return dispatcher
