"""The private names of Numba that kernels use: each is here with its signature, so that an upgrade fails by name.

If one fails, read the file that uses it before raising the upper bound of Numba in pyproject.toml.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import numba
import pytest
from numba._helperlib import c_helpers  # type: ignore[attr-defined]
from numba.core.registry import cpu_target

SIGNATURES = {
    # compiler.py
    "numba.core.codegen:JITCodeLibrary.finalize": "(self)",
    "numba.core.codegen:JITCodeLibrary.get_pointer_to_function": "(self, name)",
    "numba.core.codegen:JITCodeLibrary._ensure_finalized": "(self)",
    "numba.core.codegen:JITCodeLibrary._raise_if_finalized": "(self)",
    "numba.core.codegen:JITCodeLibrary._finalize_dynamic_globals": "(self)",
    "numba.core.codegen:JITCodeLibrary._get_module_for_linking": "(self)",
    "numba.core.codegen:JITCPUCodegen.set_env": "(self, env_name, env)",
    "numba.core.codegen:JitEngine.is_symbol_defined": "(self, name)",
    "numba.core.types.functions:BaseFunction.get_call_type": "(self, context, args, kws)",
    "numba.core.types.functions:Dispatcher.get_call_type": "(self, context, args, kws)",
    "numba.np.arrayobj:fix_integer_index": "(context, builder, idxty, idx, size)",
    "numba.core.caching:NullCache.load_overload": "(self, sig, target_context)",
    "numba.core.caching:NullCache.save_overload": "(self, sig, cres)",
    "numba.core.compiler:CompileResult._reduce": "(self)",
    "numba.core.runtime:rtsys.initialize": "(ctx)",
    "numba.core.serialize:dumps": "(obj)",
    "numba.core.codegen:JITCPUCodegen.magic_tuple": "(self)",
    # memory.py
    "numba.core.imputils:impl_ret_borrowed": "(ctx, builder, retty, ret)",
    # text/strings.py
    "numba.core.pythonapi:PythonAPI.string_as_string_size_and_kind": "(self, strobj)",
}
"""Functions and methods with their parameters."""
ATTRIBUTES = [
    "numba.core.codegen:JITCPUCodegen._library_class",
    "numba.core.codegen:JITCodeLibrary.has_dynamic_globals",
    "numba.core.compiler:CompileResult._rebuild",
]
LIBRARY = ["_final_module", "_shared_module", "_linking_libraries", "_reload_init", "_finalized"]
"""Attributes of every instance of a code library."""


def named(path: str) -> Any:
    module, _, names = path.partition(":")
    value: Any = import_module(module)
    for name in names.split("."):
        value = getattr(value, name, None)
    return value


def test_private_names():
    signatures = {path: named(path) and str(inspect.signature(named(path))) for path in SIGNATURES}
    assert signatures == SIGNATURES, f"Numba {numba.__version__}"
    library = cpu_target.target_context.codegen().create_library("a library")
    missing = [name for name in LIBRARY if not hasattr(library, name)]
    missing += [path for path in ATTRIBUTES if named(path) is None]
    assert missing == [], f"Numba {numba.__version__}"
    assert hasattr(library.codegen, "_engine")


@pytest.mark.usefixtures("compiled")
def test_options_and_symbols():
    """Options and attributes that compiler.py uses, and the C function by which strings are located."""
    function = numba.njit("int64(int64)", _nrt=False, forceinline=True)(lambda x: x)
    assert hasattr(function, "_cache")
    assert function.overloads[function.signatures[0]].entry_point(3) == 3
    assert "extract_unicode" in c_helpers
