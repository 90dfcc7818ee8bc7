"""The process of jobs, which the fork server forks; `processes` has the service's end.

Through its channel the process gets two files in memory for each job, as descriptors: one with the call and the body,
one for the reply. Calls and replies are JSON with a fixed schema beside bytes, and a job is named in a closed table, so
nothing that a request may contain is executed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict

from ...errors import Issue, format_traceback
from ...wire.json_codec import RequestLimits
from ...wire.parts import Buffer, write_frame
from ...wire.problems import Problem, Refusal
from ...wire.stage_times import StageTimes
from .exchange import Deadline
from .fork_server import MESSAGE_BYTES

TAKEN, DONE = b"t", b"d"
"""Messages about a job: its body was taken, it is done."""

RESULT, OUTCOME = b"r", b"o"
"""The kinds of frames in a reply: parts of the result, and then the outcome."""

MAX_RESULT_BYTES = 128 << 20
"""Maximum bytes of a result: statistics may be many times as long as their input."""

MAX_FILE_BYTES = MAX_RESULT_BYTES + (16 << 20)
MAX_DESCRIPTORS = 64
GRACE_SECONDS = 2
"""CPU time beyond a job's deadline: a fallback, as the service kills the process at the deadline."""

CHANNEL = 3
"""The descriptor of the channel in the process of a job, which has no others besides the standard ones."""

PR_SET_PDEATHSIG = 1


class JobCall(BaseModel):
    """The name, limits and arguments of a job; its body is passed separately."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    job: str
    moment: float
    """The deadline, as a time of `perf_counter`, which all processes of a machine share."""
    limits: RequestLimits = RequestLimits(0, 0, 0)
    encoding: str = ""
    arguments: dict[str, Any] = {}

    @property
    def deadline(self) -> Deadline:
        return Deadline(self.moment)


class Outcome(BaseModel):
    """How a job ended; the last frame of its reply, after the parts of the result."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    stages: tuple[float, float, float]
    """Seconds of decoding, scoring and encoding."""
    refusal: Refusal | None = None
    out_of_memory: bool = False
    traceback: str = ""

    @property
    def times(self) -> StageTimes:
        times = StageTimes()
        times.decode, times.score, times.encode = self.stages
        return times


Job = Callable[[bytes, JobCall, StageTimes], bytes | Iterable[list[Buffer]]]
"""Takes a body, the call and the times, which it sets. Returns the result, or yields the parts of each frame of the
result: frames that it has yielded are not lost if its process is killed."""

Jobs = Mapping[str, Job]


def run_process(channel: socket.socket, jobs: Jobs) -> None:
    """Give up rights, then do jobs until the service closes the channel."""
    channel = isolate(channel)
    drop_rights()
    while work(channel, jobs):
        pass


def isolate(channel: socket.socket) -> socket.socket:
    """Keep no descriptor but the channel's, lower the limits, and end with the fork server; return the channel."""
    die_with(os.getppid())
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(CHANNEL):
        os.dup2(null, standard)
    os.dup2(channel.detach(), CHANNEL)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > CHANNEL:
            with suppress(OSError):  # the descriptor of the listing
                os.close(int(name))
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NOFILE, MAX_DESCRIPTORS)
    limit(resource.RLIMIT_FSIZE, MAX_FILE_BYTES)
    with suppress(OSError):  # the kernel's OOM killer takes this process, not the service
        Path("/proc/self/oom_score_adj").write_text("1000")
    return socket.socket(fileno=CHANNEL)


def die_with(parent: int) -> None:
    from ctypes import CDLL

    CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def limit(kind: int, value: int) -> None:
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (value, value))


def work(channel: socket.socket, jobs: Jobs) -> bool:
    """Wait for a job and perform it; return False once the service has closed the channel."""
    message, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 2)
    if not message:
        return False
    with open(descriptors[0], "r+b") as request, open(descriptors[1], "r+b") as reply:
        call, body = take(request)
        os.write(channel.fileno(), TAKEN)
        outcome = perform(call, body, jobs, reply)
        write_frame(reply, OUTCOME, outcome.model_dump_json().encode())
    os.write(channel.fileno(), DONE)
    return True


def take(request: BinaryIO) -> tuple[JobCall, bytes]:
    """Return the call and the body of a job, and free their memory in the file."""
    request.seek(0)
    head, body = request.readline(), request.read()
    request.truncate(0)
    return JobCall.model_validate_json(head), body


def perform(call: JobCall, body: bytes, jobs: Jobs, reply: BinaryIO) -> Outcome:
    times = StageTimes()
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime + call.deadline.left) + GRACE_SECONDS
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    refusal, out_of_memory, traceback = None, False, ""
    try:
        result = jobs[call.job](body, call, times)
        written = 0
        for parts in [[result]] if isinstance(result, bytes) else result:
            written += sum(map(len, parts))
            if written > MAX_RESULT_BYTES:
                raise reply_too_large()
            write_frame(reply, RESULT, *parts)
    except Problem as problem:
        refusal = Refusal.of(problem)
    except MemoryError:
        out_of_memory = True
    except Exception as error:
        traceback = format_traceback(error)
    stages = times.decode, times.score, times.encode
    return Outcome(stages=stages, refusal=refusal, out_of_memory=out_of_memory, traceback=traceback)


def reply_too_large() -> Problem:
    issue = Issue("body", "reply_too_large", f"the reply has more than {MAX_RESULT_BYTES} bytes")
    return Problem("too-large", f"A reply may have {MAX_RESULT_BYTES} bytes here.", [issue])


PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 38, 22
SECCOMP_MODE_FILTER = 2
LOAD, JUMP_EQUAL, JUMP_GREATER_OR_EQUAL, RETURN = 0x20, 0x15, 0x35, 0x06
"""Instructions of a classic BPF program."""

ALLOW, REFUSE = 0x7FFF0000, 0x00050001
"""Perform the system call, or let it fail with EPERM."""

OTHER_ABI = 1 << 30
"""The first number of x32, another interface of the same kernel."""

REFUSED = {
    "x86_64": (
        0xC000003E,
        {
            **{"socket": 41, "connect": 42, "accept": 43, "bind": 49, "listen": 50, "socketpair": 53, "accept4": 288},
            **{"execve": 59, "execveat": 322, "kill": 62, "ptrace": 101, "perf_event_open": 298, "bpf": 321},
            **{"process_vm_readv": 310, "process_vm_writev": 311, "pidfd_send_signal": 424, "pidfd_getfd": 438},
            **{"mount": 165, "unshare": 272, "setns": 308, "open_by_handle_at": 304, "userfaultfd": 323},
            **{"add_key": 248, "request_key": 249, "keyctl": 250, "io_uring_setup": 425},
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            **{"socket": 198, "connect": 203, "accept": 202, "bind": 200, "listen": 201, "socketpair": 199},
            **{"accept4": 242, "execve": 221, "execveat": 281, "kill": 129, "ptrace": 117, "perf_event_open": 241},
            **{"bpf": 280, "process_vm_readv": 270, "process_vm_writev": 271, "pidfd_send_signal": 424},
            **{"pidfd_getfd": 438, "mount": 40, "unshare": 97, "setns": 268, "open_by_handle_at": 265},
            **{"userfaultfd": 282, "add_key": 217, "request_key": 218, "keyctl": 219, "io_uring_setup": 425},
        },
    ),
}
"""The kernel's number of each processor (AUDIT_ARCH_…), and the numbers of the system calls that no job needs."""


def drop_rights() -> bool:
    """Give up rights of this process and its children; return whether the kernel filters their system calls."""
    kernel = ctypes.CDLL(None)
    zero = ctypes.c_ulong(0)
    kernel.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero)
    if platform.machine() not in REFUSED:
        return False
    steps = filter_of(*REFUSED[platform.machine()])
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    description = struct.pack("HP", len(steps), ctypes.addressof(program))
    error: int = kernel.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), description, zero, zero)
    return not error


def filter_of(architecture: int, refused: dict[str, int]) -> list[tuple[int, int, int, int]]:
    """Return the program: (code, jump if true, jump if false, operand) of each instruction."""
    numbers = sorted(refused.values())
    steps = [
        (LOAD, 0, 0, 4),  # the architecture of the call
        (JUMP_EQUAL, 0, len(numbers) + 3, architecture),
        (LOAD, 0, 0, 0),  # its number
        (JUMP_GREATER_OR_EQUAL, len(numbers) + 1, 0, OTHER_ABI),
    ]
    steps += [(JUMP_EQUAL, len(numbers) - k, 0, number) for k, number in enumerate(numbers)]
    return [*steps, (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
