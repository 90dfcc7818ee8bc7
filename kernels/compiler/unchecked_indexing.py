"""Compiles kernels without Python's negative-index handling.

In Numba, as in Python, `a[-1]` is the last element, so every access by a signed index tests whether it is negative:
three instructions that no kernel needs, a tenth of the time of scoring. Numba has no option to omit them, so the
function that emits them is replaced while kernels are compiled, under Numba's compiler lock: no other code of the
process is affected. A kernel must not use negative indices; NUMBA_BOUNDSCHECK=1 finds those that do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.np import arrayobj

__all__ = ["EMITTER", "unchecked_indexing"]

EMITTER = "fix_integer_index"
"""The function of `numba.np.arrayobj` that emits the test. A Numba without it compiles correct, slower kernels."""


def unchecked_index(context: Any, builder: Any, kind: Any, index: Any, _size: Any) -> Any:
    """Return the index as a machine word, untested."""
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


@contextmanager
def unchecked_indexing() -> Iterator[None]:
    """Compile without negative-index handling inside this context."""
    with global_compiler_lock:
        before = getattr(arrayobj, EMITTER, None)
        if before is None:
            yield
            return
        setattr(arrayobj, EMITTER, unchecked_index)
        try:
            yield
        finally:
            setattr(arrayobj, EMITTER, before)
