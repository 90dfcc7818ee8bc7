"""Mode "local": a service on this machine, shared by all processes that use it with the same settings.

It relies on three lock files in a folder that only this user can access. The operating system releases a lock when its
last holder ends, even by `kill -9`, so that nothing is left running:

- `start`: held briefly by the process that checks whether the service runs and starts it if not;
- `lease`: held, shared, by every process that uses the service;
- `keeper`: held by the daemon (local_daemon.py), which runs the service while there is a lease.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import LocalServiceError, Unavailable
from .settings import ClientSettings
from .transport.addresses import Address, unix_address
from .transport.http11 import Exchange, Fault, request_head
from .transport.sync import SyncTransport

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["LocalService", "shared_local_service"]

CLIENT_PREFIX = "ASSAY_CLIENT_"
EXCLUDED = {
    *("ASSAY_URL", "ASSAY_API_KEY"),
    *("ASSAY_HOST", "ASSAY_PORT", "ASSAY_UDS", "ASSAY_API_KEYS", "ASSAY_API_KEYS_FILE"),
}
"""Variables of the client, and those of a service's address and keys: this one listens on a socket in a folder that
only this user can access."""

POLL_SECONDS = 0.05
LOG_TAIL = 2000
"""Characters from the end of the service's log that an error contains."""


class LocalService:
    """Lease of this process on a local service, shared by its clients."""

    def __init__(self, settings: ClientSettings, command: tuple[str, ...], folder: Path) -> None:
        self._command = command
        self._linger = settings.linger
        self._folder = folder
        self._lock = threading.Lock()
        self._lease: int | None = None
        self._clients = 0
        self.address: Address = unix_address(str(folder / "socket"))

    def ensure(self, seconds: float) -> Address:
        """Take the lease and wait until the service is ready, starting it if needed; raise LocalServiceError."""
        end = time.monotonic() + max(seconds, 0.1)
        with self._lock:
            with locked(self._folder / "start", end):
                if self._lease is None:
                    self._lease = take_lease(self._folder / "lease", end)
                if not self._daemon_runs():
                    self._start_daemon(end)
            self._wait_until_ready(end)
        return self.address

    def acquire(self) -> None:
        """Count one more client of this process."""
        with self._lock:
            self._clients += 1

    def release(self) -> None:
        """Uncount a client of this process, and release the lease with the last one."""
        with self._lock:
            self._clients -= 1
            if self._clients <= 0 and self._lease is not None:
                # Closed, not unlocked: a forked child shares this lock and may still need it.
                os.close(self._lease)
                self._lease = None

    def _daemon_runs(self) -> bool:
        """Return whether there is a daemon. A shared lock suffices and does not look like a daemon's."""
        probe = open_lock(self._folder / "keeper")
        try:
            return not try_lock(probe, fcntl.LOCK_SH)
        finally:
            os.close(probe)

    def _start_daemon(self, end: float) -> None:
        """Start a daemon, which inherits the lock already held here, so that it is never free in between."""
        held = open_lock(self._folder / "keeper")
        try:
            wait_for_lock(held, fcntl.LOCK_EX, end)  # another process may be checking for a daemon
            options = {"command": self._command, "folder": str(self._folder), "linger": self._linger}
            script = Path(__file__).with_name("local_daemon.py")
            with (self._folder / "log").open("wb") as log:
                process = subprocess.run(
                    [sys.executable, "-I", "-S", str(script), json.dumps(options)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=service_environment(),
                    pass_fds=[held],
                    start_new_session=True,
                    check=False,
                )
            if process.returncode:
                raise LocalServiceError(f"the daemon of the local service could not be started{self._log_tail()}")
        finally:
            os.close(held)

    def _wait_until_ready(self, end: float) -> None:
        transport = SyncTransport(1.0)
        head = request_head("GET", self.address, "/readyz", {"Connection": "close"}, 0)
        last_status = ""
        while time.monotonic() < end:
            try:
                reply = transport.exchange(Exchange(self.address, head, b"", 5.0, end))
                if reply.status == 200:
                    return
                last_status = f"HTTP {reply.status}"
            except Fault as fault:
                last_status = fault.detail
                if not self._daemon_runs():
                    raise LocalServiceError(f"the local service has ended{self._log_tail()}") from None
            time.sleep(POLL_SECONDS)
        raise LocalServiceError(f"the local service is not ready in time ({last_status}){self._log_tail()}")

    def _log_tail(self) -> str:
        path = self._folder / "log"
        try:
            tail = path.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:].strip()
        except OSError:
            tail = ""
        return f"; {path} ends with:\n{tail}" if tail else ""


_shared: dict[Path, LocalService] = {}
_shared_lock = threading.Lock()


def shared_local_service(settings: ClientSettings) -> LocalService:
    """Return this process's lease on the service of these settings; raise LocalServiceError."""
    if fcntl is None:
        raise LocalServiceError('mode "local" needs Unix sockets and file locks')
    command = settings.command or find_command()
    folder = service_folder(settings, command)
    with _shared_lock:
        service = _shared.get(folder)
        if service is None:
            service = _shared[folder] = LocalService(settings, command, folder)
    service.acquire()
    return service


def _forget_after_fork() -> None:
    """Forget the inherited leases of a forked child, which takes its own; they only prolong the service."""
    global _shared_lock
    _shared_lock = threading.Lock()
    _shared.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def find_command() -> tuple[str, ...]:
    """Return the `assay` command on PATH, or next to this Python."""
    found = shutil.which("assay") or shutil.which("assay", path=os.path.dirname(sys.executable))
    if found is None:
        hint = "install Assay into a separate environment and set ASSAY_CLIENT_COMMAND to its command"
        raise LocalServiceError(f"no command `assay` on PATH: {hint}")
    return (found,)


def service_environment() -> dict[str, str]:
    """Return the environment without the variables of the client, which the service would refuse."""
    kept = {name: v for name, v in os.environ.items() if not name.startswith(CLIENT_PREFIX) and name not in EXCLUDED}
    if kept.get("ASSAY_CONFIG"):
        kept["ASSAY_CONFIG"] = os.path.abspath(kept["ASSAY_CONFIG"])
    return kept


def service_folder(settings: ClientSettings, command: tuple[str, ...]) -> Path:
    """Return the folder of the service with this command and the ASSAY_ variables of the environment."""
    own = {name: value for name, value in service_environment().items() if name.startswith("ASSAY_")}
    digest = hashlib.sha256(json.dumps([command, sorted(own.items())]).encode()).hexdigest()[:16]
    parent = Path(settings.runtime_dir) if settings.runtime_dir else Path("/tmp") / f"assay-{os.getuid()}"
    try:
        make_private_folder(parent)
        return make_private_folder(parent / digest)
    except OSError as error:
        raise LocalServiceError(f"the folder {error.filename or parent} cannot be used: {error.strerror}") from None


def make_private_folder(path: Path) -> Path:
    """Create a folder for this user only; raise PermissionError if others can access it."""
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(1, "others can access it", str(path))
    return path


def open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def take_lease(path: Path, end: float) -> int:
    """Return a descriptor that holds a shared lock; wait for a daemon that is ending. Raise Unavailable."""
    descriptor = open_lock(path)
    try:
        wait_for_lock(descriptor, fcntl.LOCK_SH, end)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def locked(path: Path, end: float) -> Iterator[None]:
    """Hold an exclusive lock; raise Unavailable."""
    descriptor = open_lock(path)
    try:
        wait_for_lock(descriptor, fcntl.LOCK_EX, end)
        yield
    finally:
        os.close(descriptor)


def wait_for_lock(descriptor: int, kind: int, end: float) -> None:
    while not try_lock(descriptor, kind):
        if time.monotonic() >= end:
            raise Unavailable("another process does not finish starting or stopping the local service")
        time.sleep(POLL_SECONDS)
