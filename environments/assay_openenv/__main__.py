"""Run the server: `python -m assay_openenv`."""

from .server import main

main()
