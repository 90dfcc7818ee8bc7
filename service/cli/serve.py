"""`assay serve`: runs the HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..config import ServerSettings
from ..extras import in_this_shell
from ..http.process.log_format import start_logging
from ..http.process.signals import end_process
from ..settings import ScoreSettings
from .options import Command, CommandError, config_option, load_config, settings_options

__all__ = ["command"]


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
        from ..http.request.telemetry.tracing import TracingUnavailable, require_opentelemetry

        try:
            require_opentelemetry()
        except TracingUnavailable as error:
            raise CommandError(in_this_shell(str(error))) from None
    if lease is not None:
        from ..http.process.lease import exit_with_lease

        try:
            exit_with_lease(lease, lease_linger)
        except OSError as error:
            raise CommandError(f"--exit-with-lease {lease}: {error.strerror}") from None
    if config.server.workers > 1:
        from ..http.process.supervisor import supervise

        end_process(supervise(config))
    from ..http.process.server import serve

    end_process(serve(config))
