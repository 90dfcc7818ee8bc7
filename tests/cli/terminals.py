"""What a command shows on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable
from typing import Any


def shown_on_a_terminal(
    start: Callable[..., subprocess.Popen[bytes]], *arguments: Any, stream: str = "stderr", columns: int = 200
) -> tuple[int, str]:
    """Run with a terminal as one of the standard streams; return the exit code and what it shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: theirs}
    process = start(*arguments, **streams)
    os.close(theirs)
    shown = b""
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not block:
            break
        shown += block
    os.close(ours)
    return process.wait(timeout=60), shown.decode()
