"""`python -m assay` is the command `assay`."""

from .service.cli import start

start()
