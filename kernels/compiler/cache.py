"""The cache folder of compiled kernels.

Numba notices a change in the file that defines a cached function, not in the files whose functions it calls, so that
after an edit of a helper it would load stale code. The folder is therefore named by a digest of everything that can
change machine code: all kernel sources and tables, Numba, llvmlite, and the CPU target.

Code loaded from the folder is executed, so a folder is used only if nobody but this user and root can have written to
it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path

__all__ = ["cache_folder", "distrust_reason", "kernels_digest"]

log = logging.getLogger("assay")

_KERNELS = Path(__file__).parents[1]
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
