"""`assay serve`: runs the HTTP service; with a lease, until the processes that use it have ended."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import click

from ..config import ServerSettings
from ..http.process.logs import start_logging
from ..http.process.signals import end_process
from ..settings import ScoreSettings
from ..wording import in_this_shell
from .command import Command, CommandError
from .options import config_option, load_config, settings_options

log = logging.getLogger("assay")

POLL_SECONDS = 0.5
TOUCH_SECONDS = 3600.0
"""Interval of updating the file's time: cleaners of /tmp remove files that have not changed for days."""


def exit_with_lease(path: Path, linger: float) -> None:
    """Start to watch a file, which is created if missing; raise OSError.

    A process holds a lease by a shared `flock` on the file; the system releases it when the process ends, even by
    SIGKILL. Once there has been none for `linger` seconds, this process gets SIGTERM.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    threading.Thread(target=end_without_lease, args=(descriptor, path, linger), name="assay-lease", daemon=True).start()


def end_without_lease(descriptor: int, path: Path, linger: float) -> None:
    used = touched = time.monotonic()
    while True:
        time.sleep(POLL_SECONDS)
        now = time.monotonic()
        if now - touched > TOUCH_SECONDS:
            os.utime(descriptor)
            touched = now
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            used = now
            continue
        if now - used >= linger:
            break  # with the lock held: a new user waits until this process has ended, and starts another
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    log.info("no process holds a lock on %s any more", path)
    os.kill(os.getpid(), signal.SIGTERM)


@click.command(
    cls=Command,
    serves=True,
    examples=("assay serve", "assay serve --host 0.0.0.0 --port 8080 --workers 4 --config assay.toml"),
)
@config_option
@click.option(
    "--exit-with-lease",
    "lease",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Drain and exit once no process holds a lock (flock) on FILE: take a lock before you start the service.",
)
@click.option(
    "--lease-linger",
    type=click.FloatRange(0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="With --exit-with-lease: seconds without a lock before draining.",
)
@settings_options(ServerSettings, ScoreSettings)
def command(config_file: Path | None, lease: Path | None, lease_linger: float, **flags: Any) -> None:
    """Run the HTTP service until SIGTERM or Ctrl-C.

    The reward settings are the defaults of the service; a request may override them.
    """
    config = load_config(flags, config_file)
    start_logging(config.server.log_level, config.server.log_format)  # before imports that choose a cache directory
    if config.server.traces:
        from ..http.request.tracing import TracingUnavailable, require_opentelemetry

        try:
            require_opentelemetry()
        except TracingUnavailable as error:
            raise CommandError(in_this_shell(str(error))) from None
    if lease is not None:
        try:
            exit_with_lease(lease, lease_linger)
        except OSError as error:
            raise CommandError(f"--exit-with-lease {lease}: {error.strerror}") from None
    if config.server.workers > 1:
        from ..http.process.supervisor import supervise

        end_process(supervise(config))
    from ..http.process.server import serve

    end_process(serve(config))
