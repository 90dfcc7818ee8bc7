"""Machine code that takes indices as they are.

In Numba, as in Python, `a[-1]` is the last element, so every access by a signed index asks whether it is negative:
three instructions that no kernel needs, a tenth of the time of scoring. Numba has no option against it. So the one
function that emits them is exchanged while kernels are compiled, under the lock that every compilation takes: no other
code of the process is compiled so. A kernel must not rely on negative indices; NUMBA_BOUNDSCHECK=1 finds those that do.
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
"""The function of `numba.np.arrayobj` that makes an index of the one that a program gives. A Numba without it compiles
kernels that are right, and slower.
"""


def unchecked_index(context: Any, builder: Any, kind: Any, index: Any, _size: Any) -> Any:
    """The index as a machine word."""
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


@contextmanager
def unchecked_indexing() -> Iterator[None]:
    """What is compiled within does not know negative indices."""
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
