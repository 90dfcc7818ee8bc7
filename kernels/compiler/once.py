"""Does once what Numba does again for every caller: optimises helpers, and resolves the types of operators.

Numba optimises every function together with its callees and emits machine code for it, then optimises the result
again in each of its callers. A helper ten calls below a kernel is optimised ten times, and its own machine code is
never called. Inside `compiling_once()`, the library of a helper therefore keeps its unoptimised code, and the library
of a kernel links that of all its helpers, direct and indirect. Numba also tries every implementation of an operator,
universal functions of NumPy among them, at each place where it occurs; here, the first answer for its types is kept.

Together this more than halves the first start (docs/decisions/numba-and-the-cache-key.md). This is the only file that
uses these private names of Numba; `tests/kernels/test_private_names.py` names one that has gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite.binding import Linkage
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.types.functions import BaseFunction

__all__ = ["compiling_once"]

WRAPPER = "_ZN7cpython"
"""Prefix of the function by which Python calls a kernel; helpers have none."""


class Part:
    """What `JITCodeLibrary.finalize` uses of a library that it links: here without its callees."""

    def __init__(self, library: Any) -> None:
        self._reload_init = library._reload_init
        self._get_module_for_linking = own_module_of(library)


class KernelLibrary(JITCodeLibrary):
    """The code of a kernel, complete and optimised, or that of one helper, without its callees."""

    is_helper = False

    def finalize(self) -> None:
        """Emit the machine code of a kernel; keep that of a helper for its callers."""
        if any(function.name.startswith(WRAPPER) for function in self._final_module.functions):
            self._linking_libraries = [Part(library) for library in self._callees()]
            super().finalize()
        else:
            self._raise_if_finalized()
            self._finalize_dynamic_globals()
            self.is_helper = self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of the function, or 0 for that of a helper."""
        self._ensure_finalized()
        return 0 if self.is_helper else super().get_pointer_to_function(name)

    def _callees(self) -> list[Any]:
        """Return all libraries that this one needs, each before those that it needs itself.

        The order matters: functions are linked only if something linked before refers to them.
        """
        found: dict[Any, None] = {}

        def visit(library: Any) -> None:
            for callee in library._linking_libraries:
                if callee not in found:
                    if is_helper(callee):
                        visit(callee)
                    found[callee] = None

        visit(self)
        return [*reversed(found)]

    def _own_module(self) -> Any:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"
        return self._final_module

    def _get_module_for_linking(self) -> Any:
        """Return the code with all callees, for a function that is compiled outside `compiling_once`."""
        self._ensure_finalized()
        if self.is_helper and self._shared_module is None:
            module = self._own_module().clone()
            for library in self._callees():
                module.link_in(own_module_of(library)(), preserve=True)
            self._shared_module = module
        return super()._get_module_for_linking()


def is_helper(library: Any) -> bool:
    """Return whether the library has unoptimised code without its callees."""
    return isinstance(library, KernelLibrary) and library.is_helper


def own_module_of(library: Any) -> Callable[[], Any]:
    """Return the method that returns what has to be linked of this library besides its callees."""
    method: Callable[[], Any] = library._own_module if is_helper(library) else library._get_module_for_linking
    return method


def set_env(codegen: Any, name: str, environment: Any) -> None:
    """Set the address of a function's environment unless it has no machine code; helpers raise nothing that uses it."""
    if codegen._engine.is_symbol_defined(name):
        genuine_set_env(codegen, name, environment)


genuine_set_env = JITCPUCodegen.set_env
genuine_get_call_type = BaseFunction.get_call_type


def remembering_call_types() -> Callable[..., Any]:
    """Return a `BaseFunction.get_call_type` that remembers its answers; failures are not remembered."""
    found: dict[Any, Any] = {}

    def get_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
        key = function, args, (*kws.items(),)
        signature = found.get(key)
        if signature is None:
            signature = found[key] = genuine_get_call_type(function, context, args, kws)
        return signature

    return get_call_type


@contextmanager
def compiling_once() -> Iterator[None]:
    """Compile inside this context by the rules of this module, under Numba's compiler lock."""
    with global_compiler_lock:
        _ = cpu_target.target_context  # its own libraries are compiled by Numba's rules
        library = JITCPUCodegen._library_class
        JITCPUCodegen._library_class, JITCPUCodegen.set_env = KernelLibrary, set_env
        BaseFunction.get_call_type = remembering_call_types()
        try:
            yield
        finally:
            JITCPUCodegen._library_class, JITCPUCodegen.set_env = library, genuine_set_env
            BaseFunction.get_call_type = genuine_get_call_type
