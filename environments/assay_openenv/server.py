"""Serves the environment over OpenEnv's protocol: HTTP for descriptions, a WebSocket for sessions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from openenv.core.env_server.http_server import create_app

from assay_environments import read_rows

from .environment import AssayEnvironment
from .models import AssayAction, AssayObservation

__all__ = ["main", "new_app"]


def new_app(rows: str | None = None, split: str = "train", sessions: int = 256, **where: Any) -> FastAPI:
    """Return the application for the rows of a file or folder (by default ASSAY_ROWS) that `where` selects.

    sessions: how many may be open at once. Raises as `read_rows` does.
    """
    environment = partial(AssayEnvironment, read_rows(rows, split, **where))
    return create_app(environment, AssayAction, AssayObservation, env_name="assay", max_concurrent_envs=sessions)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m assay_openenv", description="Serve prepared rows with OpenEnv.")
    parser.add_argument("rows", nargs="?", help="file or folder that `assay prepare` wrote (default: ASSAY_ROWS)")
    parser.add_argument("--split", default="train", help="which file of the folder (default: train)")
    for name in ("task", "type", "level"):
        parser.add_argument(f"--{name}", help=f"only rows of this {name}")
    parser.add_argument("--sessions", type=int, default=256, help="how many may be open at once (default: 256)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8001)
    options = vars(parser.parse_args(arguments))
    host, port = options.pop("host"), options.pop("port")
    uvicorn.run(new_app(**options), host=host, port=port)
