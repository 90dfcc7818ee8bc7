"""A progress bar, shown only on a terminal."""

from __future__ import annotations

import shutil
import sys
import time

__all__ = ["Progress"]

INTERVAL = 0.1
ERASE = "\r\x1b[K"


class Progress:
    """One line on standard error, redrawn in place; it shows a percentage if the size of the input is known."""

    def __init__(self, size: int | None, visible: bool) -> None:
        self._size = size
        self._visible = visible
        self._bytes = 0
        self._rows = 0
        self._started = time.monotonic()
        self._drawn = 0.0

    def advance(self, rows: int, size: int) -> None:
        """Count finished rows and the bytes of input they came from."""
        self._rows += rows
        self._bytes += size
        now = time.monotonic()
        if self._visible and now - self._drawn >= INTERVAL:
            self._drawn = now
            sys.stderr.write(ERASE + self._line(now)[: shutil.get_terminal_size().columns - 1])
            sys.stderr.flush()

    def message(self, text: str) -> None:
        """Print a line above the bar."""
        sys.stderr.write(f"{ERASE if self._visible else ''}{text}\n")

    def finish(self) -> None:
        """Remove the bar."""
        if self._visible:
            sys.stderr.write(ERASE)
            sys.stderr.flush()

    def _line(self, now: float) -> str:
        rate = f"{self._rows:,} rows, {self._rows / max(now - self._started, 1e-9):,.0f} a second"
        if not self._size:
            return rate
        share = min(self._bytes / self._size, 1.0)
        return f"[{'#' * int(30 * share):<30}] {100 * share:5.1f} %  {rate}"
