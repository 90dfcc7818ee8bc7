"""Mode "local": one service of this machine's own, shared by all processes that ask for it with the same settings.

Everything hangs on three lock files in a folder that only this user can enter. The operating system releases a lock
when its last holder is gone, however it went, so nothing is left running after `kill -9`:

- `start`: held, for a moment, by the process that looks whether the service runs and starts it if not;
- `lease`: held in common by every process that uses the service;
- `keeper`: held by the keeper (local_daemon.py), the process that runs the service for as long as there is a lease.
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
from .transport.http11 import Fault, request_head
from .transport.sync import SyncTransport

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["LocalService", "shared_local_service"]

OURS_ALONE = "ASSAY_CLIENT_"
REPLACED = {
    *("ASSAY_URL", "ASSAY_API_KEY"),
    *("ASSAY_HOST", "ASSAY_PORT", "ASSAY_UDS", "ASSAY_API_KEYS", "ASSAY_API_KEYS_FILE"),
}
"""Variables of the client, and those that say how a service listens and to whom: this one listens on a socket in a
folder that only this user can enter."""

POLL = 0.05
LOG_TAIL = 2000
"""Characters of the service's log that an error repeats."""


class LocalService:
    """This process's hold on a service."""

    def __init__(self, settings: ClientSettings, command: tuple[str, ...], folder: Path) -> None:
        self._command = command
        self._linger = settings.linger
        self._folder = folder
        self._lock = threading.Lock()
        self._lease: int | None = None
        self._holders = 0
        self.address: Address = unix_address(str(folder / "socket"))

    def ensure(self, seconds: float) -> Address:
        """Hold the service and wait until it is ready; starts it if it does not run. Raises LocalServiceError."""
        end = time.monotonic() + max(seconds, 0.1)
        with self._lock:
            with locked(self._folder / "start", end):
                if self._lease is None:
                    self._lease = take_lease(self._folder / "lease", end)
                if not self._kept():
                    self._launch(end)
            self._wait_until_ready(end)
        return self.address

    def hold(self) -> None:
        """Count one more client of this process."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """Let the service go with the last client of this process that holds it."""
        with self._lock:
            self._holders -= 1
            if self._holders <= 0 and self._lease is not None:
                # Closed, not unlocked: a forked child has its share in the same lock, and may need it on.
                os.close(self._lease)
                self._lease = None

    def _kept(self) -> bool:
        """Whether there is a keeper. Asks for a common lock, so that who asks does not look like one."""
        probe = open_lock(self._folder / "keeper")
        try:
            return not try_lock(probe, fcntl.LOCK_SH)
        finally:
            os.close(probe)

    def _launch(self, end: float) -> None:
        """Start a keeper, which takes over the lock that is held here already: there is no moment without."""
        held = open_lock(self._folder / "keeper")
        try:
            wait_for_lock(held, fcntl.LOCK_EX, end)  # others may just be asking whether there is a keeper
            orders = {"command": self._command, "folder": str(self._folder), "linger": self._linger}
            keeper = Path(__file__).with_name("local_daemon.py")
            with (self._folder / "log").open("wb") as log:
                process = subprocess.run(
                    [sys.executable, "-I", "-S", str(keeper), json.dumps(orders)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=service_environment(),
                    pass_fds=[held],
                    start_new_session=True,
                    check=False,
                )
            if process.returncode:
                raise LocalServiceError(f"the keeper of the local service could not be started{self._log_tail()}")
        finally:
            os.close(held)

    def _wait_until_ready(self, end: float) -> None:
        transport = SyncTransport(1.0)
        head = request_head("GET", self.address, "/readyz", {"Connection": "close"}, 0)
        seen = ""
        while time.monotonic() < end:
            try:
                reply = transport.exchange(self.address, head, b"", 5.0)
                if reply.status == 200:
                    return
                seen = f"HTTP {reply.status}"
            except Fault as fault:
                seen = fault.what
                if not self._kept():
                    raise LocalServiceError(f"the local service has ended{self._log_tail()}") from None
            time.sleep(POLL)
        raise LocalServiceError(f"the local service is not ready in time ({seen}){self._log_tail()}")

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
    """This process's only hold on the service of these settings; raises LocalServiceError."""
    if fcntl is None:
        raise LocalServiceError('mode "local" needs Unix sockets and file locks')
    command = settings.command or found_command()
    folder = service_folder(settings, command)
    with _shared_lock:
        service = _shared.get(folder)
        if service is None:
            service = _shared[folder] = LocalService(settings, command, folder)
    service.hold()
    return service


def _forget_after_fork() -> None:
    """A child takes a lease of its own; the parent's, which it has inherited, only makes the service stay longer."""
    global _shared_lock
    _shared_lock = threading.Lock()
    _shared.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def found_command() -> tuple[str, ...]:
    """The `assay` command on PATH, or beside this Python."""
    found = shutil.which("assay") or shutil.which("assay", path=os.path.dirname(sys.executable))
    if found is None:
        hint = "install Assay into an environment of its own, and name its command by ASSAY_CLIENT_COMMAND"
        raise LocalServiceError(f"there is no command `assay` on PATH: {hint}")
    return (found,)


def service_environment() -> dict[str, str]:
    """The environment without what is the client's own, which the service would refuse."""
    kept = {name: v for name, v in os.environ.items() if not name.startswith(OURS_ALONE) and name not in REPLACED}
    if kept.get("ASSAY_CONFIG"):
        kept["ASSAY_CONFIG"] = os.path.abspath(kept["ASSAY_CONFIG"])
    return kept


def service_folder(settings: ClientSettings, command: tuple[str, ...]) -> Path:
    """The folder of the service with this command and these settings in the environment."""
    own = {name: value for name, value in service_environment().items() if name.startswith("ASSAY_")}
    digest = hashlib.sha256(json.dumps([command, sorted(own.items())]).encode()).hexdigest()[:16]
    parent = Path(settings.runtime_dir) if settings.runtime_dir else Path("/tmp") / f"assay-{os.getuid()}"
    try:
        private_folder(parent)
        return private_folder(parent / digest)
    except OSError as error:
        raise LocalServiceError(f"the folder {error.filename or parent} cannot be used: {error.strerror}") from None


def private_folder(path: Path) -> Path:
    """Make a folder for this user alone; raises PermissionError for one that is anybody else's too."""
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(1, "it is not for this user alone", str(path))
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
    """A descriptor that holds a common lock; waits for a keeper that is just leaving. Raises Unavailable."""
    descriptor = open_lock(path)
    try:
        wait_for_lock(descriptor, fcntl.LOCK_SH, end)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def locked(path: Path, end: float) -> Iterator[None]:
    """Hold a lock alone; raises Unavailable."""
    descriptor = open_lock(path)
    try:
        wait_for_lock(descriptor, fcntl.LOCK_EX, end)
        yield
    finally:
        os.close(descriptor)


def wait_for_lock(descriptor: int, kind: int, end: float) -> None:
    while not try_lock(descriptor, kind):
        if time.monotonic() >= end:
            raise Unavailable("the local service is being started or stopped elsewhere, and does not come to an end")
        time.sleep(POLL)
