"""Ends the service once the processes that use it have ended, which they show by locks on a file."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import threading
import time
from pathlib import Path

__all__ = ["exit_with_lease"]

log = logging.getLogger("assay")

POLL_SECONDS = 0.5
TOUCH_SECONDS = 3600.0
"""Interval of updating the file's time: cleaners of /tmp remove files that have not changed for days."""


def exit_with_lease(path: Path, linger: float) -> None:
    """Start to watch a file, which is created if missing; raise OSError.

    A process holds a lease by a shared `flock` on the file; the system releases it when the process ends, even by
    SIGKILL. Once there has been none for `linger` seconds, this process gets SIGTERM.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    threading.Thread(target=end_without_lease, args=(descriptor, path, linger), name="assay-lease", daemon=True).start()


def end_without_lease(descriptor: int, path: Path, linger: float) -> None:
    used = touched = time.monotonic()
    while True:
        time.sleep(POLL_SECONDS)
        now = time.monotonic()
        if now - touched > TOUCH_SECONDS:
            os.utime(descriptor)
            touched = now
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            used = now
            continue
        if now - used >= linger:
            break  # with the lock held: a new user waits until this process has ended, and starts another
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    log.info("no process holds a lock on %s any more", path)
    os.kill(os.getpid(), signal.SIGTERM)
