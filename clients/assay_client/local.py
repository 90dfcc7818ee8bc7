"""Mode "local": a service on this machine, shared by all processes that use it with the same settings.

It relies on two lock files in a folder that only this user can access. The operating system releases a lock when its
last holder ends, even by `kill -9`, so that nothing is left running:

- `lease`: held, shared, by every process that uses the service, which ends once nobody does (`--exit-with-lease`).
  It then holds the lock itself until it has ended: a process that comes too late waits, and starts another one.
- `server`: held by the service. Who finds it free starts the service, which inherits the lock.
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
from pathlib import Path

from .errors import LocalServiceError
from .settings import ClientSettings
from .transport.addresses import Address, unix_address
from .transport.http11 import HttpExchange, TransportFault, request_head
from .transport.transports import Transport
from .transport.waiting import Blocking, completed

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

EXCLUDED = {
    *("ASSAY_URL", "ASSAY_API_KEY", "ASSAY_ROWS"),
    *("ASSAY_HOST", "ASSAY_PORT", "ASSAY_UDS", "ASSAY_API_KEYS", "ASSAY_API_KEYS_FILE"),
}
"""Variables of the client, of the environments, and of a service's address and keys: this one listens on a socket in a
folder that only this user can access."""

POLL_SECONDS = 0.05
STATUS_SECONDS = 5.0
LOG_TAIL = 2000
SPAWN = "import subprocess, sys; subprocess.Popen(sys.argv[1:], close_fds=False)"
"""Starts the service and ends, so that init reaps the service and not the process that happened to need it first."""


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
            if self._lease is None:
                self._lease = take_lease(self._folder / "lease", end)
            has_started = False
            while (status := self._status(end)) != "HTTP 200":
                server = None if status.startswith("HTTP") else take_lock(self._folder / "server", fcntl.LOCK_EX)
                if server is not None:  # it does not run
                    try:
                        if has_started:
                            raise LocalServiceError(f"the local service has ended{self._log_tail()}")
                        self._start(server)
                        has_started = True
                    finally:
                        os.close(server)
                if time.monotonic() >= end:
                    raise LocalServiceError(f"the local service is not ready in time ({status}){self._log_tail()}")
                time.sleep(POLL_SECONDS)
        return self.address

    def acquire(self) -> None:
        with self._lock:
            self._clients += 1

    def release(self) -> None:
        with self._lock:
            self._clients -= 1
            if self._clients <= 0 and self._lease is not None:
                # Closed, not unlocked: a forked child shares this lock and may still need it.
                os.close(self._lease)
                self._lease = None

    def _start(self, server: int) -> None:
        flags = ["--uds", str(self._folder / "socket"), "--exit-with-lease", str(self._folder / "lease")]
        flags += ["--lease-linger", str(self._linger), "--drain-seconds", "0", "--log-level", "warning"]
        with (self._folder / "log").open("wb") as log:
            spawned = subprocess.run(
                [sys.executable, "-I", "-S", "-c", SPAWN, *self._command, "serve", *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=service_environment(),
                pass_fds=[server],
                start_new_session=True,
                check=False,
            )
        if spawned.returncode:
            raise LocalServiceError(f"the local service could not be started{self._log_tail()}")

    def _status(self, end: float) -> str:
        head = request_head("GET", self.address, "/readyz", {"Connection": "close"}, 0)
        try:
            exchange = HttpExchange(self.address, head, b"", STATUS_SECONDS, end)
            reply = completed(Transport(1.0, Blocking()).exchange(exchange))
        except TransportFault as fault:
            return fault.detail
        return f"HTTP {reply.status}"

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
    command = shutil.which("assay") or shutil.which("assay", path=os.path.dirname(sys.executable))
    if command is None:
        hint = "install Assay into a separate environment and set ASSAY_CLIENT_COMMAND to its command"
        raise LocalServiceError(f"no command `assay` on PATH: {hint}")
    return (command,)


def service_environment() -> dict[str, str]:
    """Return the environment without the variables of the client, which the service would refuse."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_CLIENT_") and k not in EXCLUDED}
    if environment.get("ASSAY_CONFIG"):
        environment["ASSAY_CONFIG"] = os.path.abspath(environment["ASSAY_CONFIG"])
    return environment


def service_folder(settings: ClientSettings, command: tuple[str, ...]) -> Path:
    variables = {name: value for name, value in service_environment().items() if name.startswith("ASSAY_")}
    digest = hashlib.sha256(json.dumps([command, sorted(variables.items())]).encode()).hexdigest()[:16]
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


def take_lock(path: Path, kind: int) -> int | None:
    """Return a descriptor that holds a lock, or None if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def take_lease(path: Path, end: float) -> int:
    """Return a descriptor that holds a shared lock; wait for a service that is ending. Raise LocalServiceError."""
    while (descriptor := take_lock(path, fcntl.LOCK_SH)) is None:
        if time.monotonic() >= end:
            raise LocalServiceError("the local service does not finish stopping")
        time.sleep(POLL_SECONDS)
    return descriptor
