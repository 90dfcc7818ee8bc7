"""A substitute for `assay serve --uds PATH --exit-with-lease FILE` that starts quickly.

Run it as `python -m tests.clients.fleeting_service FOLDER serve --uds PATH …`.
It writes the names of its ASSAY variables to FOLDER/PID, and replies like the fault server.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from assay.service.cli.serve import exit_with_lease
from tests.clients.fault_server import FaultServer


def main(folder: str, _command: str, *flags: str) -> None:
    """Serve until SIGTERM, then remove the socket."""
    path, lease, linger = (flags[flags.index(f) + 1] for f in ("--uds", "--exit-with-lease", "--lease-linger"))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    (Path(folder) / str(os.getpid())).write_text(json.dumps([name for name in os.environ if name.startswith("ASSAY_")]))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    exit_with_lease(Path(lease), float(linger))
    with FaultServer(path):
        signal.sigwait({signal.SIGTERM})
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
