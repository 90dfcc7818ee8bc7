"""The subcommands of `assay`, one module each, which defines `command`; `start` is the program."""

from __future__ import annotations

import signal
import sys

__all__ = ["start"]


def start() -> None:
    """Run the command of `sys.argv`; handle signals from here on, before its modules are imported."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        if sys.argv[1:2] == ["serve"]:
            from ..http.process.signals import handle_early

            handle_early()
        else:
            from ..interruption import exit_early

            exit_early()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    from .main import main

    main()
