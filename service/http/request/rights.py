"""The rights of a process of jobs: a filter refuses the system calls that no job needs."""

from __future__ import annotations

import ctypes
import platform
import struct

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
