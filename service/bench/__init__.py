"""`assay bench`: measures scoring on this machine, compared with a lower bound and with plain Python.

Each benchmark processes the same batch in a different way. They run in turns, so that noise affects all of them, and
every result is checked.
"""

from __future__ import annotations

__all__ = ["TITLES"]

TITLES = {
    "in_process": "in process, 1 thread",
    "in_process_all_cores": "in process, all cores",
    "http_json": "over HTTP, JSON",
    "http_arrow": "over HTTP, Arrow",
    "floor": "floor: read, orjson.loads, constant reply",
    "singles": "singles over HTTP",
    "singles_bare": "singles to a bare route",
    "plain_python": "plain Python, 1 thread",
}
"""Name and title of every benchmark; plain Python is slow, so it scores only the first responses."""
