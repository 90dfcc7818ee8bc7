"""Parsed references of recent small requests, so that a group of single requests reads its reference once.

The key is the text itself, so a hit gives exactly what reading it again would give: the service stays stateless.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from ...kernels.column import TextColumn
from ...kernels.reading.references import References

__all__ = ["MAX_KEY_BYTES", "ReferenceCache"]

MAX_KEY_BYTES = 1 << 16
"""Longer columns are read anew each time: making and comparing their keys would cost about as much."""

Key = tuple[int, int, bytes, bytes]


class ReferenceCache:
    """The least recently used entries go once keys and columns take more than `most_bytes`. Safe to share between
    threads.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: OrderedDict[Key, References] = OrderedDict()
        self._lock = Lock()
        self.nbytes = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, column: TextColumn, limits: tuple[int, int], read: Callable[[], References]) -> References:
        """What `read` gives for `column` under `limits`, remembered; nothing is remembered of a `read` that raises."""
        if column.data.shape[0] > MAX_KEY_BYTES:
            return read()
        key = (*limits, column.data.tobytes(), column.offsets.tobytes())
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                self.hits += 1
                return found
            self.misses += 1
        references = read()
        self._keep(key, references)
        return references

    def _keep(self, key: Key, references: References) -> None:
        size = _size(key, references)
        with self._lock:
            if size > self._most or key in self._held:
                return
            self._held[key] = references
            self.nbytes += size
            while self.nbytes > self._most:
                self.nbytes -= _size(*self._held.popitem(last=False))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._held.clear()
            self.nbytes = 0

    def renew(self) -> None:
        """Begin anew in a forked child: another thread of the parent may have held the lock."""
        self._held = OrderedDict()
        self._lock = Lock()
        self.nbytes = 0


def _size(key: Key, references: References) -> int:
    return len(key[2]) + len(key[3]) + references.nbytes
