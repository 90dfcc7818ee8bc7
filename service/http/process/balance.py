"""Divides new connections evenly: the worker that accepts one passes it on to the worker with the fewest.

The kernel chooses by a hash which worker accepts a connection, so a few connections that stay open may all meet at one
worker. Workers count their connections in a table that they share, and pass descriptors through one socket for each
worker, which the supervisor has made; the supervisor itself sees no connection. A worker takes part while it holds a
lock on its row, which the kernel removes when the process ends, and which it gives up before it drains.
"""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

ROW_BYTES = 16
"""A worker's row: how many connections it was given, and how many of them are closed, as int64."""

LOCK_TRIES = 50
LOCK_SECONDS = 0.0002
"""Tries, and seconds between them, to get the lock of the table, which is held for microseconds."""

CONNECTION = b"c"


def new_table(workers: int) -> int:
    """Return the descriptor of a shared file for the rows of so many workers."""
    if hasattr(os, "memfd_create"):
        table = os.memfd_create("assay-connections")
    else:
        with tempfile.TemporaryFile() as file:
            table = os.dup(file.fileno())
    os.ftruncate(table, workers * ROW_BYTES)
    return table


class Balance:
    """The part of one worker; for the thread of its event loop only."""

    def __init__(self, slot: int, descriptors: Sequence[int]) -> None:
        """Use what the worker of a slot has inherited (see `Inboxes.descriptors`)."""
        self._slot = slot
        self._table, *numbers = descriptors
        self._inbox, *self._inboxes = sockets = [socket.socket(fileno=number) for number in numbers]
        for inherited in sockets:
            inherited.setblocking(False)
        self._counts = memoryview(mmap.mmap(self._table, len(self._inboxes) * ROW_BYTES)).cast("q")
        self._takes_part = False

    def join(self, take: Callable[[socket.socket], None]) -> None:
        """Take part from now on; `take` is called with each connection that is passed to this worker.

        Connections that were passed to an earlier worker of this slot, which was killed, are taken over.
        """
        with self._locked():
            descriptors = list(self._arrived())
            assigned, closed = 2 * self._slot, 2 * self._slot + 1
            self._counts[closed] = self._counts[assigned] - len(descriptors)
            fcntl.lockf(self._table, fcntl.LOCK_EX, 1, self._slot)
            self._takes_part = True
        for descriptor in descriptors:
            take(socket.socket(fileno=descriptor))
        asyncio.get_running_loop().add_reader(self._inbox.fileno(), self._receive, take)

    def leave(self) -> None:
        """Be given no more connections; those of the own listener are kept only if nobody else takes part."""
        if self._takes_part:
            self._takes_part = False
            fcntl.lockf(self._table, fcntl.LOCK_UN, 1, self._slot)

    def pass_on(self, descriptor: int) -> bool:
        """Give a new connection to the worker with the fewest; return False if that is this worker."""
        with self._locked() as locked:
            target = self._fewest() if locked else self._slot
            if target != self._slot:
                with suppress(OSError):  # its inbox is full
                    socket.send_fds(self._inboxes[target], [CONNECTION], [descriptor])
                    self._counts[2 * target] += 1
                    return True
            self._counts[2 * self._slot + 1] -= 1  # not the other number, for which this worker may lack the lock
        return False

    def closed(self) -> None:
        """Count a connection of this worker as closed."""
        self._counts[2 * self._slot + 1] += 1

    def connections(self, slot: int) -> int:
        assigned, closed = self._counts[2 * slot : 2 * slot + 2]
        return assigned - closed

    def _fewest(self) -> int:
        slots = range(len(self._inboxes))
        for slot in sorted(slots, key=lambda slot: (self.connections(slot), slot != self._slot)):
            if self._takes_part if slot == self._slot else self._is_locked(slot):
                return slot
        return self._slot

    def _is_locked(self, slot: int) -> bool:
        """Return whether a worker takes part; call it with the lock of the table."""
        try:
            fcntl.lockf(self._table, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
        except OSError:
            return True
        fcntl.lockf(self._table, fcntl.LOCK_UN, 1, slot)
        return False

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        """Hold the lock of the table; yield False without it if a stopped process holds it."""
        locked, place = False, len(self._inboxes)
        for _ in range(LOCK_TRIES):
            with suppress(OSError):
                fcntl.lockf(self._table, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                locked = True
                break
            time.sleep(LOCK_SECONDS)
        try:
            yield locked
        finally:
            if locked:
                fcntl.lockf(self._table, fcntl.LOCK_UN, 1, place)

    def _arrived(self) -> Iterator[int]:
        """Take the connections out of the inbox."""
        with suppress(BlockingIOError):
            while True:
                message, descriptors, _, _ = socket.recv_fds(self._inbox, len(CONNECTION), 1)
                if not message:
                    return
                if not descriptors:  # this process had none left: the connection is closed
                    self.closed()
                yield from descriptors

    def _receive(self, take: Callable[[socket.socket], None]) -> None:
        for descriptor in self._arrived():
            take(socket.socket(fileno=descriptor))


class Inboxes:
    """The supervisor's part: the table, and an inbox for each worker, which keeps what a killed worker has not read."""

    def __init__(self, workers: int) -> None:
        self._table = new_table(workers)
        self._pairs = [socket.socketpair() for _ in range(workers)]

    def descriptors(self, slot: int) -> list[int]:
        """Return what the worker of a slot inherits: the table, its inbox, and the way to each inbox."""
        return [self._table, self._pairs[slot][0].fileno(), *(sender.fileno() for _, sender in self._pairs)]

    def close(self) -> None:
        os.close(self._table)
        for ours, theirs in self._pairs:
            ours.close()
            theirs.close()
