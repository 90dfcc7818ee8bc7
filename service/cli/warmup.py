"""`assay warmup`: compiles every kernel into the cache, so that the next start is fast."""

from __future__ import annotations

import click

from ..terminal import say
from .command import Command
from .options import quiet_option


@click.command(cls=Command, examples=("assay warmup", "ASSAY_CACHE_DIR=/cache assay warmup"))
@quiet_option
def command(quiet: bool) -> None:
    """Compile every kernel into the cache (ASSAY_CACHE_DIR, or the cache directory of the user)."""
    from ...kernels.warmup import warmup

    report = warmup()
    if not quiet:
        say(f"{report.signatures} kernel signatures ready after {report.seconds:.2f} s")
        say(f"cache: {report.cache or 'none (no writable directory)'}")
