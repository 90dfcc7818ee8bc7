"""`assay bench`: measures scoring on this machine, and puts load on a service.

Benchmarks process the same batch in different ways, in turns, so that noise affects all of them. Load scenarios send
what trainers send. Every answer is checked.
"""

from __future__ import annotations

__all__ = ["SCENARIOS", "TITLES"]

TITLES = {
    "in_process": "in process, 1 thread",
    "in_process_quantities": "in process, quantities, 1 thread",
    "in_process_all_cores": "in process, all cores",
    "http_json": "over HTTP, JSON",
    "http_arrow": "over HTTP, Arrow",
    "http_json_steps": "over HTTP, JSON with steps",
    "http_arrow_steps": "over HTTP, Arrow with steps",
    "floor": "floor: read, orjson.loads, constant reply",
    "singles": "singles over HTTP",
    "singles_bare": "singles to a bare route",
    "plain_python": "plain Python, 1 thread",
}
"""Name and title of every benchmark; plain Python is slow, so it scores only the first responses."""

SCENARIOS = ("batches", "pieces", "singles", "singles_reconnecting", "mixed", "steady")
"""Load scenarios (README.md)."""
