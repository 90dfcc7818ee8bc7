"""Both ends of the fork server: a process that has loaded everything once, so that forks of it start in milliseconds.

The service asks for a process by passing one end of a socket pair. The server forks, tells the service the id of the
process, passes it a descriptor of the process, and reports how the process ended. The server is started without a
shell and with few environment variables. It holds no key, runs nothing of a request, and has one thread: a fork of
several could wait for ever for a lock of one that it lacks.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import NamedTuple, NoReturn

log = logging.getLogger("assay")

MESSAGE_BYTES = 16
MAX_DESCRIPTORS = 250
"""Descriptors in one message; the kernel allows 253."""

JOB, WORKER, FIRST_WORKER = b"j", b"w", b"f"
"""Messages to the fork server: what to fork."""

NEW, ENDED = b"n", b"e"
"""The first byte of a message from the fork server: there is a new process, it has ended."""

STATUS = struct.Struct("<cq")
"""A message with a number: the id of a new process, or the exit code of one that has ended."""

START_SECONDS = 120.0
"""Maximum time until a new process reports: the fork server may still be loading, on a busy machine."""

REPORT_SECONDS = 1.0
"""Maximum time until the fork server reports that a process has ended."""

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Blocked in the fork server: the service ends it and its jobs itself, once it has drained."""

TEMPLATE = f"{__package__.partition('.request')[0]}.process.template"
INHERITED = (
    "HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NLTK_DATA",
    "TMPDIR",
    "TZ",
    "XDG_CACHE_HOME",
    "ASSAY_CACHE_DIR",
)
INHERITED_PREFIXES = ("LC_", "MALLOC_", "NUMBA_")
"""Variables that the fork server gets from the service's environment."""

ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Variables for NumPy, SciPy and Arrow, which would start threads when they are imported."""


class NotForked(Exception):
    """The fork server has ended; the next call of `ForkServer.fork` starts another one."""


class Forked:
    """A process that the fork server has forked, as its owner sees it."""

    def __init__(self, channel: socket.socket) -> None:
        """Wait for the process; raise NotForked if there will be none."""
        self.channel = channel
        channel.settimeout(START_SECONDS)
        try:
            message, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 1)
        except OSError:
            message, descriptors = b"", []
        if not message or not descriptors:
            channel.close()
            raise NotForked("the fork server has ended")
        _, self.pid = STATUS.unpack(message)
        self.descriptor = descriptors[0]
        self.exit_code: int | None = None
        """None until `receive` has got it, and if the fork server has ended before the process."""
        self._end = select.poll()
        self._end.register(self.descriptor, select.POLLIN)

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, number)

    def ends(self, seconds: float = 0.0) -> bool:
        """Return whether it ends in this time."""
        return bool(self._end.poll(1e3 * seconds))

    def receive(self) -> bytes:
        """Wait shortly for a message of the process or about it, and return its first byte; nothing if none comes."""
        self.channel.settimeout(REPORT_SECONDS)
        message = b""
        with suppress(OSError):
            message = self.channel.recv(MESSAGE_BYTES)
        if message[:1] == ENDED:
            self.exit_code = STATUS.unpack(message)[1]
        return message[:1]

    def close(self) -> None:
        os.close(self.descriptor)
        self.channel.close()


class ForkServer:
    """The fork server of this process, which the first call of `fork` starts, unless it was adopted."""

    def __init__(self, module: str = TEMPLATE) -> None:
        self._module = module
        self._lock = Lock()
        self._control: socket.socket | None = None
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.loaded = False
        """Whether it forks at once: it has forked already."""

    def adopt(self, control: socket.socket) -> None:
        """Use the fork server at the other end of a socket: of the supervisor, or a fork of this process."""
        self._control, self._owner = control, os.getpid()

    def fork(self, kind: bytes = JOB, descriptors: Sequence[int] = ()) -> Forked:
        """Return a new process, which gets the descriptors; raise OSError, and NotForked.

        Of all others than jobs, the first descriptor is a copy of the socket: they may ask the fork server too.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._lock:
            try:
                control = self._started()
                copies = [] if kind == JOB else [control.fileno()]
                socket.send_fds(control, [kind], [theirs.fileno(), *copies, *descriptors])
            except OSError as error:
                ours.close()
                if not isinstance(error, ConnectionError):
                    raise
                self._stop()
                raise NotForked("the fork server has ended") from None
        process = Forked(ours)
        self.loaded = True
        return process

    def _started(self) -> socket.socket:
        if self._control is not None and self._owner == os.getpid():  # not in a fork of the service
            return self._control
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, blocked_signals():
            descriptor = theirs.fileno()
            path = [os.path.abspath(folder) for folder in sys.path if folder]  # the current folder is not searched
            code = f"import sys; sys.path[:] = {path!r}; from {self._module} import main; main({descriptor})"
            names = [n for n in os.environ if n in INHERITED or n.startswith(INHERITED_PREFIXES)]
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", code],
                pass_fds=[descriptor],
                env={name: os.environ[name] for name in names} | ONE_THREAD,
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C reaches the service alone
            )
        self._control, self._owner = ours, os.getpid()
        atexit.register(self.close)
        return ours

    def close(self) -> None:
        with self._lock:
            if self._owner == os.getpid():
                self._stop()

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None
        self.loaded = False


FORK_SERVER = ForkServer()


@contextmanager
def blocked_signals() -> Iterator[None]:
    """Block the signals in this thread, and in processes that it starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In the fork server


class JobKind(NamedTuple):
    """A kind of processes that the fork server forks."""

    run: Callable[[socket.socket, list[int]], object]
    """Called in the new process, with its end of the pair, and the other descriptors."""

    load: Callable[[], object] = lambda: None
    """Called before each fork, in the fork server."""

    owned: bool = False
    """True if it must not outlive its owner: it is killed once the other end of its pair is closed."""


class Child(NamedTuple):
    pid: int
    descriptor: int
    channel: socket.socket

    def report(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        with suppress(OSError):  # its owner has gone
            socket.send_fds(self.channel, [message], descriptors, socket.MSG_DONTWAIT)

    def close(self) -> None:
        os.close(self.descriptor)
        self.channel.close()


def serve(descriptor: int, kinds: Mapping[bytes, JobKind]) -> None:
    """Fork a process for each message through the socket `descriptor`, until all copies of its other end are closed."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    gc.collect()
    gc.freeze()  # collections, which write to every object, would copy the memory that processes share
    if (threads := len(os.listdir("/proc/self/task"))) > 1:
        log.warning("the fork server has %d threads instead of one: its processes may hang", threads)
    control = socket.socket(fileno=descriptor)
    children: dict[int, Child] = {}
    """By their descriptors."""
    owners: dict[int, int] = {}
    """Descriptors of processes that must not outlive their owners, by those of their channels."""
    poller = select.poll()
    poller.register(control, select.POLLIN)
    while True:
        ready = {number for number, _ in poller.poll()}
        for number in ready & owners.keys():  # their other ends were closed
            poller.unregister(number)
            signal.pidfd_send_signal(owners.pop(number), signal.SIGKILL)
        for number in ready & children.keys():
            poller.unregister(number)
            child = children.pop(number)
            if owners.pop(child.channel.fileno(), None) is not None:
                poller.unregister(child.channel)
            code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
            child.report(STATUS.pack(ENDED, code))
            child.close()
        if descriptor in ready:  # last: a new process gets numbers of descriptors that were closed above
            message, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, MAX_DESCRIPTORS)
            if not message:
                return
            kind = kinds[message]
            kind.load()
            channel, others = socket.socket(fileno=descriptors[0]), descriptors[1:]
            try:
                pid = os.fork()
            except OSError as error:  # too many processes, or not enough memory
                log.error("a process cannot be forked: %s", error.strerror)
                channel.close()
            else:
                if pid == 0:
                    control.close()
                    for child in children.values():
                        child.close()
                    run_child(kind, channel, others)
                child = Child(pid, os.pidfd_open(pid), channel)
                child.report(STATUS.pack(NEW, pid), [child.descriptor])
                children[child.descriptor] = child
                poller.register(child.descriptor, select.POLLIN)
                if kind.owned:
                    owners[channel.fileno()] = child.descriptor
                    poller.register(channel, 0)  # POLLHUP is always reported
            for number in others:
                os.close(number)


def run_child(kind: JobKind, channel: socket.socket, descriptors: list[int]) -> NoReturn:
    code = 1
    try:
        kind.run(channel, descriptors)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)
