"""Compilation of kernels to machine code, and the cache that keeps it.

Numba notices a change in the file that defines a cached function, not in the files whose functions it calls, so that
after an edit of a helper it would load stale code. The folder is therefore named by a digest of everything that can
change machine code: all kernel sources and tables, Numba, llvmlite, and the CPU target.

An installation may come with such folders, which `deploy/kernels.py` makes: for the CPU where it was built, and for all
usual CPUs of its architecture. They are read before the cache. Code for another CPU gives the same numbers: Numba
neither reorders nor contracts floating-point operations.

Code loaded from a folder is executed, so a folder is used only if nobody but this user and root can have written to it.

Replaces Numba's own cache, which unpickles whatever it finds, fails to start at a damaged file or a full disk, and
cannot read from a folder that it cannot write to.

`@helper` marks a function that kernels call, `@kernel` one that Python calls. `warmup.py` fixes the argument types of
kernels; they are compiled for no others, and by these rules:

- **Helpers are optimised once.** Numba optimises every function together with its callees and emits machine code for
  it, then optimises the result again in each of its callers: a helper ten calls below a kernel is optimised ten times,
  and its own machine code is never called. Here, the library of a helper keeps its unoptimised code, and the library
  of a kernel links the code of all its helpers, direct and indirect.
- **Operators are resolved once.** Numba tries every implementation of an operator, NumPy's universal functions among
  them, at each place where it occurs. Here, the first answer for the same types is kept.
- **A literal argument is compiled as its type.** Numba compiles a function once for `f(0)` and once for `f(n)`.
- **No index is tested for its sign.** In Numba, as in Python, `a[-1]` is the last element, so every access by a signed
  index tests whether it is negative, which no kernel needs. A kernel must not use negative indices;
  NUMBA_BOUNDSCHECK=1 finds those that do.

Numba has no options for these rules. The functions that decide are replaced inside `kernel_rules()`, under Numba's
compiler lock: no other code of the process is affected. This is the only file that uses their private names;
`tests/kernels/test_private_names.py` names one that has gone. Measurements are in docs/decisions/.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
from llvmlite.binding import Linkage
from numba import types
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.types.functions import BaseFunction, Dispatcher
from numba.np import arrayobj

log = logging.getLogger("assay")

_KERNELS = Path(__file__).parent
SHIPPED = _KERNELS / "compiled"
"""The root of the folders with which this installation came; nothing is written to them."""

PORTABLE = {
    "aarch64": ("generic", ""),
    "x86_64": ("x86-64-v3", "avx2 bmi bmi2 crc32 cx16 f16c fma lzcnt movbe popcnt sahf sse4.2 xsave"),
}
"""By architecture: the CPU for which kernels are shipped, and the features that a CPU must have to run them."""

_WRITABLE_BY_OTHERS = 0o022


def kernels_digest(cpu: str) -> str:
    """Return a hex digest of the kernel sources and tables, the compiler's versions and the CPU target."""
    digest = hashlib.sha256()
    sources = [*_KERNELS.rglob("*.py"), *_KERNELS.rglob("*.npz")]
    for name, source in sorted((source.relative_to(_KERNELS).as_posix(), source) for source in sources):
        content = source.read_bytes()
        digest.update(f"{name}:{len(content)}\n".encode())
        digest.update(content)
    toolchain = [version("numba"), version("llvmlite"), version("numpy"), platform.python_version(), cpu]
    digest.update("\n".join(toolchain).encode())
    return digest.hexdigest()[:20]


def cache_folder(cpu: str) -> Path | None:
    """Return the folder for this digest, or None if no folder can be used.

    Tried in turn: `ASSAY_CACHE_DIR` (or `NUMBA_CACHE_DIR`), the user's cache folder, a private folder under the
    system's temporary one. A folder that is not writable is used if it contains kernels (a read-only image). A folder
    that another user could have written to is skipped with a warning.
    """
    name = f"kernels-{kernels_digest(cpu)}"
    for root in _roots():
        folder = root / name
        try:
            _make_private(folder)
            reason = distrust_reason(root.stat()) or distrust_reason(folder.lstat())
        except OSError as error:
            log.warning("the kernels are not cached in %s: %s", folder, error.strerror)
            continue
        if reason is not None:
            log.warning("the kernels are not cached in %s: %s", folder, reason)
        elif _writable(folder) or any(folder.glob("*.kernel")):
            return folder
    log.warning("the kernels are not cached but compiled at every start: no private folder is writable")
    return None


def distrust_reason(status: os.stat_result) -> str | None:
    """Return why a file or folder is not trusted, or None if only this user and root can have written to it."""
    if not hasattr(os, "getuid"):
        return None
    if status.st_uid not in (os.getuid(), 0):
        return f"it belongs to user {status.st_uid}, not to user {os.getuid()}"
    if status.st_mode & _WRITABLE_BY_OTHERS:
        return f"others can write to it (mode {status.st_mode & 0o7777:04o}; chmod go-w)"
    return None


def _roots() -> list[Path]:
    roots = []
    chosen = os.environ.get("ASSAY_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        roots.append(Path(chosen))
    else:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        if os.path.isabs(home):
            roots.append(Path(home) / "assay")
    private = _private_temporary()
    return [*roots, private] if private is not None else roots


def _private_temporary() -> Path | None:
    """Return this user's folder under the temporary one, where others may have created the same name first."""
    try:
        folder = Path(tempfile.gettempdir()) / f"assay-{os.getuid() if hasattr(os, 'getuid') else 0}"
        _make_private(folder)
    except OSError:
        return None
    if folder.is_symlink():
        log.warning("the kernels are not cached in %s: it is a link", folder)
        return None
    return folder


def _make_private(folder: Path) -> None:
    """Create the folder and its missing parents for this user alone, whatever the umask is."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def _writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


DIGEST = hashlib.sha256
DIGEST_BYTES = 32


class CodeFolder:
    """Files in a folder of compiled code; each begins with a checksum of its purpose and content."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writable = True

    def read(self, name: str, purpose: bytes) -> bytes | None:
        """Return what was written under this name for this purpose; None if it is missing, damaged or not trusted."""
        path = self.path / name
        try:
            with path.open("rb") as stream:
                reason = distrust_reason(os.fstat(stream.fileno()))
                content = b"" if reason is not None else stream.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = error.strerror
        if reason is None and content[:DIGEST_BYTES] != DIGEST(purpose + content[DIGEST_BYTES:]).digest():
            reason = "it is damaged"
        if reason is not None:
            log.warning("a kernel is recompiled: %s cannot be used: %s", path, reason)
            return None
        return content[DIGEST_BYTES:]

    def write(self, name: str, purpose: bytes, content: bytes) -> None:
        """Write the content atomically. The first failure is logged, and nothing is written after it."""
        if not self._writable:
            return
        try:
            descriptor, temporary = tempfile.mkstemp(dir=self.path, prefix=f".{name}.")
            try:
                with open(descriptor, "wb") as stream:
                    stream.write(DIGEST(purpose + content).digest() + content)
                os.replace(temporary, self.path / name)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError as error:
            self._writable = False
            log.warning("the kernels are not cached in %s: %s", self.path, error.strerror)


class KernelCache(NullCache):  # type: ignore[misc]
    """The interface by which a Numba dispatcher loads and saves its compiled code."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"

    def _entry(self, signature: Any, folder: CodeFolder) -> tuple[str, bytes]:
        """Return the name of a file, and its purpose, which includes all that is in the digest of the folder."""
        kernel = repr((self._name, signature)).encode()
        return f"{self._name}-{DIGEST(kernel).hexdigest()[:16]}.kernel", kernel + os.fsencode(folder.path.name)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load a kernel. Its code is complete: it needs Numba's runtime, but nothing of what compiles."""
        rtsys.initialize(target_context)
        for find in (shipped, cached):
            folder = find()
            if folder is not None and (content := folder.read(*self._entry(sig, folder))) is not None:
                return CompileResult._rebuild(target_context, *pickle.loads(content))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a compiled kernel, unless it contains addresses of this process, as unoptimized code may."""
        if data.library.has_dynamic_globals:
            log.warning("%s cannot be cached and is compiled at every start", self._name)
        elif (folder := cached()) is not None:
            (name, kind, (code, bitcode)), *others = data._reduce()
            library = name, kind, (code, names_in(bitcode))
            folder.write(*self._entry(sig, folder), dumps((library, *others)))


def names_in(bitcode: bytes) -> bytes:
    """Return bitcode with the names that loading looks for, but without the functions: no function calls a kernel."""
    module = llvmlite.binding.parse_bitcode(bitcode)
    values = [*module.functions, *(value for value in module.global_variables if value.name.startswith(ENVIRONMENT))]
    names = "".join(f'@"{value.name}" = global i8 0\n' for value in values if not value.is_declaration)
    return llvmlite.binding.parse_assembly(names).as_bitcode()


HELPER_OPTIONS = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only compiled functions call: they need no wrappers."""

JIT = not numba.config.DISABLE_JIT
"""False under NUMBA_DISABLE_JIT=1: kernels run as plain Python (for coverage and debugging)."""


def _targets() -> list[str]:
    """Return the target that Numba compiles for; then, unless it was chosen, the portable one if this CPU runs it."""
    config = numba.config
    triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    cpus = [(cpu, features)]
    portable, needed = PORTABLE.get(triple.partition("-")[0], (cpu, features))
    if config.CPU_NAME is config.CPU_FEATURES is None and {*needed.split()} <= {*features.replace("+", "").split(",")}:
        cpus.append((portable, ""))
    return [f"{triple} {name} {features} boundscheck={config.BOUNDSCHECK} opt={config.OPT}" for name, features in cpus]


@cache
def shipped() -> CodeFolder | None:
    """Return the folder with which this installation came for the first of the targets, or None."""
    folders = (SHIPPED / f"kernels-{kernels_digest(cpu)}" for cpu in (_targets() if JIT and SHIPPED.is_dir() else ()))
    for folder in filter(Path.is_dir, folders):
        reason = distrust_reason(SHIPPED.stat()) or distrust_reason(folder.lstat())
        if reason is None:
            return CodeFolder(folder)
        log.warning("the kernels in %s are not used: %s", folder, reason)
    return None


@cache
def cached() -> CodeFolder | None:
    """Return the folder where compiled kernels are kept, or None if they cannot be cached."""
    folder = cache_folder(_targets()[0]) if JIT else None
    return CodeFolder(folder) if folder is not None else None


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
    """Compile `function` as a kernel, which Python calls; its code is cached."""
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
    """Compile `function` as a hot kernel that holds the GIL, because it is short or reads Python objects."""
    return _entry(function, counts=False, nogil=False)


def _entry(function: Callable[..., Any], counts: bool, nogil: bool = True) -> Any:
    dispatcher = _compiled(function, nogil=nogil, _nrt=counts)
    KERNELS.append(dispatcher)
    dispatcher._cache = KernelCache(function)
    return dispatcher


ENVIRONMENT = "_ZN08NumbaEnv"
"""Prefix of the variable in which a kernel finds its environment."""

WRAPPER = "_ZN7cpython"
"""Prefix of the function by which Python calls a kernel; helpers have none."""


class HandedOverError(BaseException):
    """A child process finishes this kernel. (Numba catches subclasses of Exception.)"""


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel, complete and optimised, or of a helper, without its callees."""

    is_helper = False
    forks = False
    """Whether to print the name of each function, and to leave each kernel to a child process."""
    _shared_module: Any

    def finalize(self) -> None:
        """Emit the machine code of a kernel; keep the code of a helper for its callers."""
        if self.forks:
            print(self.name, flush=True)
        if any(function.name.startswith(WRAPPER) for function in self._final_module.functions):
            if self.forks and os.fork():
                raise HandedOverError
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


def without_literals(get_call_type: Callable[..., Any]) -> Callable[..., Any]:
    """Return `Dispatcher.get_call_type` that passes `types.int64` for the literal 0."""

    def plain(function: Any, context: Any, args: Any, kws: Any) -> Any:
        return get_call_type(function, context, tuple(map(types.unliteral, args)), kws)

    return plain


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
def kernel_rules(forks: bool = False) -> Iterator[None]:
    """Compile by the rules of this module inside this context.

    With `forks`, a child process optimises each kernel and writes it to the cache, while this process infers the types
    of the next: compiling a kernel raises HandedOverError here, and returns in the child.
    """
    with global_compiler_lock, ExitStack() as rules:
        rules.enter_context(replaced(KernelLibrary, "forks", forks))
        _ = cpu_target.target_context  # its own libraries are compiled by Numba's rules
        rules.enter_context(replaced(JITCPUCodegen, "_library_class", KernelLibrary))
        rules.enter_context(replaced(JITCPUCodegen, "set_env", setting_known(JITCPUCodegen.set_env)))
        rules.enter_context(replaced(BaseFunction, "get_call_type", remembering(BaseFunction.get_call_type)))
        rules.enter_context(replaced(Dispatcher, "get_call_type", without_literals(Dispatcher.get_call_type)))
        rules.enter_context(replaced(arrayobj, "fix_integer_index", unchecked_index))
        yield
