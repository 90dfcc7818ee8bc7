"""The cache of machine code: every file is checked before it is loaded, and a kernel is recompiled if a check fails.

Replaces Numba's own cache, which unpickles whatever it finds, fails to start at a damaged file or a full disk, and
cannot read from a folder that it cannot write to. This is the only file that uses Numba's private names.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from .cache import distrust_reason

__all__ = ["CodeFolder", "cache_in_folder"]

log = logging.getLogger("assay")

DIGEST = hashlib.sha256
DIGEST_BYTES = 32


class CodeFolder:
    """Files in a folder of `cache.cache_folder`; each begins with a checksum of its purpose and content."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writable = True

    def read(self, name: str, purpose: bytes) -> bytes | None:
        """Return what was written under this name for this purpose; None if it is missing, damaged or not trusted."""
        path = self._path / name
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
            self._replace(self._path / name, DIGEST(purpose + content).digest() + content)
        except OSError as error:
            self._writable = False
            log.warning("the kernels are not cached in %s: %s", self._path, error.strerror)

    def _replace(self, path: Path, content: bytes) -> None:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(descriptor, "wb") as stream:
                stream.write(content)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


class KernelCache(NullCache):  # type: ignore[misc]
    """The interface by which a Numba dispatcher loads and saves its compiled code."""

    def __init__(self, function: Callable[..., Any], folder: CodeFolder) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._folder = folder

    def _entry(self, signature: Any, codegen: Any) -> tuple[str, bytes]:
        purpose = repr((self._name, signature, codegen.magic_tuple())).encode()
        return f"{self._name}-{DIGEST(purpose).hexdigest()[:16]}.kernel", purpose

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        content = self._folder.read(*self._entry(sig, target_context.codegen()))
        return None if content is None else CompileResult._rebuild(target_context, *pickle.loads(content))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a compiled kernel, unless it contains addresses of this process, as unoptimized code may."""
        if data.library.has_dynamic_globals:
            log.warning("%s cannot be cached and is compiled at every start", self._name)
        else:
            self._folder.write(*self._entry(sig, data.codegen), dumps(data._reduce()))


def cache_in_folder(dispatcher: Any, folder: CodeFolder) -> None:
    """Make the dispatcher load its code from the folder, and save it there after compiling."""
    dispatcher._cache = KernelCache(dispatcher.py_func, folder)
