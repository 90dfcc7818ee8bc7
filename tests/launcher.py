"""Starts Python commands as forks of one process that has imported everything: 10 ms of CPU instead of seconds.

`Popen` is `subprocess.Popen`, but a command `[sys.executable, "-c", code, ...]` runs in a fork of the template, and so
do the Python commands that this process starts itself, such as workers of a service. A command is a fresh interpreter
all the same if it needs one (`can_be_forked`), and every command is with ASSAY_TEST_FRESH=1.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FRESH = os.environ.get("ASSAY_TEST_FRESH", "0") not in ("", "0")
MAX_MESSAGE = 1 << 17
MAX_DESCRIPTORS = 250

ACT_AT_START = (
    *("ASSAY_CACHE_DIR", "HOME", "LANG", "LC_", "LD_", "MALLOC_", "NUMBA_", "OMP_", "OPENBLAS_", "PYTHON", "TZ"),
    "XDG_CACHE_HOME",
)
"""Beginnings of the names of variables that act while Python starts or modules are imported."""

_address = ""
_starting = threading.Lock()
_environment: dict[str, str] = {}
"""The template's, once `use` has been called."""


def environment() -> dict[str, str]:
    """Return this process's environment without settings of Assay."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    if "ASSAY_CACHE_DIR" in os.environ:
        plain["ASSAY_CACHE_DIR"] = os.environ["ASSAY_CACHE_DIR"]
    return plain


def use(address: str = "") -> None:
    """Let `Popen` fork from the template at this address; without one, from a template that the first fork starts."""
    from assay.service.http.request.fork_server import ONE_THREAD  # here: tests of trainers' code lack the service

    global _address, _environment
    _address, _environment = address, environment() | ONE_THREAD


def start_template() -> str:
    """Start a template, which ends with this process, and return its address once it has imported everything."""
    folder = mkdtemp(prefix="assay-")
    address = f"{folder}/template"
    command = [sys.executable, "-c", f"from tests.launcher import main; main({address!r})"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=_environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )

    def end() -> None:
        process.communicate()
        shutil.rmtree(folder)

    atexit.register(end)
    if not process.stdout.readline():
        raise RuntimeError("the template of the tests' processes has failed")
    return address


def address_of_template() -> str:
    """Return the address of the template, which this process starts if none is in use."""
    global _address
    with _starting:
        _address = _address or start_template()
        return _address


class Popen(subprocess.Popen):
    """A process that is a fork of the template, if it can be."""

    _channel: socket.socket | None = None

    def _execute_child(self, *arguments: Any) -> None:
        options = inspect.signature(super()._execute_child).bind(*arguments).arguments
        if not can_be_forked(options):
            super()._execute_child(*arguments)
            return
        streams = [options[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        streams = [number if stream < 0 else stream for number, stream in enumerate(streams)]
        request = {
            "command": options["args"],
            "folder": os.path.abspath(options["cwd"] or "."),
            "environment": dict(os.environ if options["env"] is None else options["env"]),
            "new_session": options["start_new_session"],
            "group": options["process_group"],
            "umask": umask(),
            "blocked": list(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))),
            "descriptors": [0, 1, 2, *options["pass_fds"]],
        }
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.connect(address_of_template())
        socket.send_fds(self._channel, [json.dumps(request).encode()], [*streams, *options["pass_fds"]])
        self._exit_lock = threading.Lock()
        self.pid = int(self._channel.recv(MAX_MESSAGE))
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(options[name] for name in pipes))  # type: ignore[attr-defined]

    def poll(self) -> int | None:
        return super().poll() if self._channel is None else self._exit_code(0)

    def wait(self, timeout: float | None = None) -> int:
        if self._channel is None:
            return super().wait(timeout)
        if self._exit_code(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _exit_code(self, timeout: float | None) -> int | None:
        """Return the exit code that the template reports within this time."""
        poller = select.poll()
        if self.returncode is None:
            poller.register(self._channel, select.POLLIN)
            poller.poll(timeout if timeout is None else 1e3 * timeout)
        with self._exit_lock:
            if self.returncode is None:
                with suppress(BlockingIOError):
                    report = self._channel.recv(MAX_MESSAGE, socket.MSG_DONTWAIT)
                    self.returncode = int(report or -signal.SIGKILL)  # nothing: the template was killed
                    self._channel.close()
            return self.returncode


def run(
    command: Sequence[str],
    given: bytes | str | None = b"",
    *,
    capture_output: bool = True,
    timeout: float = 300,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Do as `subprocess.run` does."""
    captured = ("stdin", "stdout", "stderr") if capture_output else ("stdin",)
    with Popen(command, **{**dict.fromkeys(captured, subprocess.PIPE), **options}) as process:
        try:
            output, errors = process.communicate(given, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def can_be_forked(options: Mapping[str, Any]) -> bool:
    environment = os.environ if options["env"] is None else options["env"]
    return (
        not FRESH
        and options["preexec_fn"] is None
        and isinstance(options["args"], list)
        and code_of(options["args"]) is not None
        and all(_environment.get(name) == environment[name] for name in environment if name.startswith(ACT_AT_START))
    )


def code_of(command: list[str]) -> tuple[str, list[str]] | None:
    """Return the code of `python -c` with the arguments after it."""
    if command[:2] == [sys.executable, "-c"]:
        return command[2], command[3:]
    if command[:3] == [sys.executable, "-I", "-c"]:
        return command[3], command[4:]
    return None


def umask() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("\nUmask:")[2].split()[0], 8)


def main(address: str) -> None:
    """Import everything, fork on demand, and run the code that was asked for in each fork."""
    use(address)
    import_everything()
    subprocess.Popen = Popen  # type: ignore[misc]
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    listener = listen(address)
    print("ready", flush=True)
    request, descriptors = fork_on_demand(listener)
    if request["new_session"]:
        os.setsid()
        request, descriptors = fork_template(f"{address}-{os.getpid()}", request, descriptors)
    run_code(become(request, descriptors))


def listen(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(100)
    return listener


def import_everything() -> None:
    from assay.kernels.warmup import warmup
    from assay.service.cli.main import COMMANDS, SHARED
    from assay.service.http.process import server, supervisor, template  # noqa: F401
    from assay.service.tasks.evaluation import every_task

    for name in COMMANDS.keys() - SHARED.keys():
        import_module(f"assay.service.cli.{name}")
    every_task()
    warmup()
    gc.collect()
    gc.freeze()
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"a process with {len(threads)} threads must not be forked"


def fork_on_demand(listener: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Report exit codes, and return in each fork what was asked for; end when standard input is closed."""
    children: dict[int, tuple[int, socket.socket]] = {}
    """Id and channel of each child by its descriptor."""
    poller = select.poll()
    for descriptor in (0, listener):
        poller.register(descriptor, select.POLLIN)
    while True:
        for event, _ in poller.poll():
            if event == 0:
                sys.exit()
            if event != listener.fileno():
                poller.unregister(event)
                os.close(event)
                pid, channel = children.pop(event)
                with channel, suppress(OSError):  # nobody waits for it any more
                    channel.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
                continue
            channel, _ = listener.accept()
            message, descriptors, _, _ = socket.recv_fds(channel, MAX_MESSAGE, MAX_DESCRIPTORS)
            pid = os.fork()
            if not pid:
                listener.close()
                channel.close()
                for child, (_, other) in children.items():
                    os.close(child)
                    other.close()
                return json.loads(message), descriptors
            for descriptor in descriptors:
                os.close(descriptor)
            with suppress(OSError):
                channel.send(str(pid).encode())
            child = os.pidfd_open(pid)
            children[child] = pid, channel
            poller.register(child, select.POLLIN)


def fork_template(address: str, request: dict[str, Any], descriptors: list[int]) -> tuple[dict[str, Any], list[int]]:
    """Fork a template for what this process starts, so that it is in its session and among its descendants.

    Return the arguments in this process, and what was asked for in each fork of the new template.
    """
    use(address)
    listener = listen(address)
    reading, writing = os.pipe()
    if os.fork():
        listener.close()
        os.close(reading)
        fcntl(writing, F_DUPFD_CLOEXEC, max(request["descriptors"]) + MAX_DESCRIPTORS)  # open until this process ends
        os.close(writing)
        return request, descriptors
    os.dup2(reading, 0)
    for descriptor in (reading, writing, *descriptors):
        os.close(descriptor)
    return fork_on_demand(listener)


def become(request: dict[str, Any], descriptors: list[int]) -> str:
    """Give this process what `subprocess` would have given it, and return the code to run."""
    if request["new_session"] and os.getsid(0) != os.getpid():
        os.setsid()
    if request["group"] >= 0:
        os.setpgid(0, request["group"])
    os.umask(request["umask"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    targets = request["descriptors"]
    moved = [fcntl(descriptor, F_DUPFD_CLOEXEC, max(targets) + 1) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, target in zip(moved, targets, strict=True):
        os.dup2(descriptor, target)
        os.close(descriptor)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        stream = os.fdopen(number, old.mode, encoding=old.encoding, errors=old.errors, closefd=False)
        stream.reconfigure(line_buffering=number == 2 or os.isatty(number))
        setattr(sys, name, stream)
    code, arguments = code_of(request["command"])
    sys.argv = ["-c", *arguments]
    signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])
    return code


def run_code(code: str) -> None:
    """Run this process's code; if nothing goes wrong, end without Python's finalization, which takes 130 ms."""
    sys.modules["__main__"] = module = ModuleType("__main__")
    status: object = 0
    try:
        exec(compile(code, "<string>", "exec"), vars(module))
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        status = end.code or 0
    threading._shutdown()  # type: ignore[attr-defined]  # as `multiprocessing` ends its forks
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(status)
    os._exit(status)
