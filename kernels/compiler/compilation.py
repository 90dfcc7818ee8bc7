"""Compiles kernels by other rules than Numba's own, which cost a kernel a tenth of its speed and a start half its time.

- **Helpers are optimised once.** Numba optimises every function together with its callees and emits machine code for
  it, then optimises the result again in each of its callers: a helper ten calls below a kernel is optimised ten times,
  and its own machine code is never called. Here, the library of a helper keeps its unoptimised code, and the library
  of a kernel links the code of all its helpers, direct and indirect.
- **Operators are resolved once.** Numba tries every implementation of an operator, NumPy's universal functions among
  them, at each place where it occurs. Here, the first answer for the same types is kept.
- **No index is tested for its sign.** In Numba, as in Python, `a[-1]` is the last element, so every access by a signed
  index tests whether it is negative, which no kernel needs. A kernel must not use negative indices;
  NUMBA_BOUNDSCHECK=1 finds those that do.

Numba has no options for these rules. The functions that decide are replaced inside `kernel_rules()`, under Numba's
compiler lock: no other code of the process is affected. This is the only file that uses their private names;
`tests/kernels/test_private_names.py` names one that has gone. Measurements are in docs/decisions/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from llvmlite.binding import Linkage
from numba import types
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.types.functions import BaseFunction
from numba.np import arrayobj

__all__ = ["kernel_rules"]

WRAPPER = "_ZN7cpython"
"""Prefix of the function by which Python calls a kernel; helpers have none."""


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel, complete and optimised, or of a helper, without its callees."""

    is_helper = False
    _shared_module: Any

    def finalize(self) -> None:
        """Emit the machine code of a kernel; keep the code of a helper for its callers."""
        if any(function.name.startswith(WRAPPER) for function in self._final_module.functions):
            self._linking_libraries = [LinkedCode(library) for library in callees_of(self)]
            super().finalize()
        else:
            self._raise_if_finalized()
            self._finalize_dynamic_globals()
            self.is_helper = self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a kernel, or 0 for a helper."""
        self._ensure_finalized()
        return 0 if self.is_helper else super().get_pointer_to_function(name)

    def own_module(self) -> Any:
        """Return the code of this helper alone, for linking."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"
        return self._final_module

    def _get_module_for_linking(self) -> Any:
        """Return the code with all callees, for a function that is compiled outside `kernel_rules`."""
        self._ensure_finalized()
        if self.is_helper and self._shared_module is None:
            self._shared_module = self.own_module().clone()
            for library in callees_of(self):
                self._shared_module.link_in(LinkedCode(library)._get_module_for_linking(), preserve=True)
        return super()._get_module_for_linking()


class LinkedCode:
    """The interface that `JITCodeLibrary.finalize` needs of a library that it links: here without its callees."""

    def __init__(self, library: Any) -> None:
        self._reload_init = library._reload_init
        self._get_module_for_linking = library.own_module if is_helper(library) else library._get_module_for_linking


def is_helper(library: Any) -> bool:
    """Return whether the library has unoptimised code without its callees."""
    return isinstance(library, KernelLibrary) and library.is_helper


def callees_of(library: Any) -> list[Any]:
    """Return all libraries that this one needs, each before those that it needs itself.

    The order matters: functions are linked only if something linked before refers to them.
    """
    callees: dict[Any, None] = {}

    def visit(caller: Any) -> None:
        for callee in caller._linking_libraries:
            if callee not in callees:
                if is_helper(callee):
                    visit(callee)
                callees[callee] = None

    visit(library)
    return [*reversed(callees)]


def unchecked_index(context: Any, builder: Any, kind: Any, index: Any, _size: Any) -> Any:
    """Return the index as a machine word, untested."""
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


def remembering(get_call_type: Callable[..., Any]) -> Callable[..., Any]:
    """Return `BaseFunction.get_call_type` with a memory of its answers; failures are not remembered."""
    answers: dict[Any, Any] = {}

    def remembered(function: Any, context: Any, args: Any, kws: Any) -> Any:
        key = function, args, (*kws.items(),)
        signature = answers.get(key)
        if signature is None:
            signature = answers[key] = get_call_type(function, context, args, kws)
        return signature

    return remembered


def setting_known(set_env: Callable[..., None]) -> Callable[..., None]:
    """Return `JITCPUCodegen.set_env` that ignores functions without machine code: only exceptions use environments."""

    def set_known(codegen: Any, name: str, environment: Any) -> None:
        if codegen._engine.is_symbol_defined(name):
            set_env(codegen, name, environment)

    return set_known


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute inside this context."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def kernel_rules() -> Iterator[None]:
    """Compile by the rules of this module inside this context."""
    with global_compiler_lock, ExitStack() as rules:
        _ = cpu_target.target_context  # its own libraries are compiled by Numba's rules
        rules.enter_context(replaced(JITCPUCodegen, "_library_class", KernelLibrary))
        rules.enter_context(replaced(JITCPUCodegen, "set_env", setting_known(JITCPUCodegen.set_env)))
        rules.enter_context(replaced(BaseFunction, "get_call_type", remembering(BaseFunction.get_call_type)))
        rules.enter_context(replaced(arrayobj, "fix_integer_index", unchecked_index))
        yield
