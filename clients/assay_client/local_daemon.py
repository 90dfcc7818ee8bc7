"""The process that runs a local service for as long as anybody uses it. Run as a script, by its path.

It belongs to no other process: it outlives the one that started it as long as others hold a lease, and ends with the
last of them, whether that let go, exited or was killed. It imports nothing of this package.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

POLL = 0.2
RESTART_SECONDS = 1.0
"""From one start to the next at least."""

STOP_SECONDS = 40.0
TOUCH_SECONDS = 3600.0
"""Cleaners of /tmp remove what has not changed for days."""

PR_SET_PDEATHSIG = 1


def main(orders: dict[str, Any]) -> None:
    """Keep the service until no lease is left."""
    if os.fork():
        os._exit(0)  # the keeper is nobody's child, so that nobody has to wait for it
    folder = Path(orders["folder"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    lease = os.open(folder / "lease", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    service = start(orders["command"], folder)
    listened = False
    try:
        started = touched = last_used = time.monotonic()
        while True:
            time.sleep(POLL)
            now = time.monotonic()
            listened = listened or (folder / "socket").exists()
            if service.poll() is not None:
                if not listened:  # nor would it the next time: its log has the reason, and callers are told at once
                    print(f"the service ended with exit code {service.returncode}", file=sys.stderr, flush=True)
                    return
                if now - started >= RESTART_SECONDS:
                    service, started = start(orders["command"], folder), now
            if now - touched > TOUCH_SECONDS:
                touch(folder)
                touched = now
            if in_use(lease):
                last_used = now
            elif now - last_used < orders["linger"]:
                fcntl.flock(lease, fcntl.LOCK_UN)
            else:
                return  # with the lease locked: who comes now waits until this process and the service are gone
    finally:
        stop(service)
        (folder / "socket").unlink(missing_ok=True)


def start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """The service in a process group of its own; the system ends it if this process is killed (on Linux).

    Each has a socket of its own, to which `socket` points: one that is slow to end does not remove its successor's.
    """
    socket = folder / f"socket-{os.getpid()}-{time.monotonic_ns():x}"
    fresh = folder / "socket-next"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(socket.name)
    fresh.replace(folder / "socket")
    flags = ["serve", "--uds", str(socket), "--drain-seconds", "0", "--log-level", "warning"]
    keeper = os.getpid()

    def die_with_keeper() -> None:
        if sys.platform == "linux":
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != keeper:
                os._exit(1)

    # This process has one thread, so code between fork and exec is safe.
    return subprocess.Popen(
        [*command, *flags], stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_keeper
    )


def stop(service: subprocess.Popen[bytes]) -> None:
    """End the whole process group, by force where asking does not help."""
    for asked in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(service.pid, asked)
        with suppress(subprocess.TimeoutExpired):
            service.wait(STOP_SECONDS)
            return


def in_use(lease: int) -> bool:
    """Whether anybody holds a lease; if not, it is locked here now."""
    try:
        fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def touch(folder: Path) -> None:
    for path in (folder.parent, folder, *folder.iterdir()):
        with suppress(OSError):
            os.utime(path)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
