"""Daemon that runs a local service while any process holds a lease on it. Runs as a stand-alone script.

It outlives the process that started it, and ends once the last lease is released or its holder has exited or was
killed. It imports nothing of this package.
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

POLL_SECONDS = 0.2
RESTART_SECONDS = 1.0
"""Minimum time between two starts."""

STOP_SECONDS = 40.0
TOUCH_SECONDS = 3600.0
"""Interval of updating file times: cleaners of /tmp remove files that have not changed for days."""

PR_SET_PDEATHSIG = 1


def main(options: dict[str, Any]) -> None:
    """Run the service until no lease is left."""
    if os.fork():
        os._exit(0)  # reparent the daemon to init, so that its starter need not reap it
    folder = Path(options["folder"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    lease = os.open(folder / "lease", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    service = start(options["command"], folder)
    has_listened = False
    try:
        started = touched = last_used = time.monotonic()
        while True:
            time.sleep(POLL_SECONDS)
            now = time.monotonic()
            has_listened = has_listened or (folder / "socket").exists()
            if service.poll() is not None:
                if not has_listened:  # nor would it next time: give up, the log has the reason
                    print(f"the service ended with exit code {service.returncode}", file=sys.stderr, flush=True)
                    return
                if now - started >= RESTART_SECONDS:
                    service, started = start(options["command"], folder), now
            if now - touched > TOUCH_SECONDS:
                touch(folder)
                touched = now
            if in_use(lease):
                last_used = now
            elif now - last_used < options["linger"]:
                fcntl.flock(lease, fcntl.LOCK_UN)
            else:
                return  # with the lease locked: new users wait until this process and the service have ended
    finally:
        stop(service)
        (folder / "socket").unlink(missing_ok=True)


def start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start the service in a separate process group; on Linux, it receives SIGTERM if this process is killed.

    Each start uses a new socket, to which `socket` links: a service that is slow to end cannot remove its successor's.
    """
    socket = folder / f"socket-{os.getpid()}-{time.monotonic_ns():x}"
    link = folder / "socket-next"
    link.unlink(missing_ok=True)
    link.symlink_to(socket.name)
    link.replace(folder / "socket")
    flags = ["serve", "--uds", str(socket), "--drain-seconds", "0", "--log-level", "warning"]
    daemon = os.getpid()

    def die_with_daemon() -> None:
        if sys.platform == "linux":
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != daemon:
                os._exit(1)

    # This process has one thread, so code between fork and exec is safe.
    return subprocess.Popen(
        [*command, *flags], stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_daemon
    )


def stop(service: subprocess.Popen[bytes]) -> None:
    """End the whole process group, with SIGKILL if SIGTERM does not suffice."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(service.pid, number)
        with suppress(subprocess.TimeoutExpired):
            service.wait(STOP_SECONDS)
            return


def in_use(lease: int) -> bool:
    """Return whether any process holds a lease; if not, this process now holds the lock."""
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
