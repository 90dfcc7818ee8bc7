"""Training runs: their names in requests, and as labels of metrics."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from urllib.parse import unquote_plus

from ...errors import Issue

log = logging.getLogger("assay")

UNNAMED = "unnamed"
OTHER = "other"
MAX_RUN_LENGTH = 100
RUN_NAME = re.compile(f"[ -~]{{1,{MAX_RUN_LENGTH}}}")


def run_issues(name: str, path: str, reason: str = "invalid_run") -> list[Issue]:
    detail = f"must be 1 to {MAX_RUN_LENGTH} printable ASCII characters"
    return [] if RUN_NAME.fullmatch(name) else [Issue(path, reason, detail)]


def read_run(header: bytes | None, query: bytes) -> tuple[str, bytes, list[Issue]]:
    """Return the run of a request, by the header or the query's `run`, the query without it, and every issue."""
    name, issues = "", []
    if header is not None:
        name = header.decode("latin-1")
        issues = run_issues(name, "X-Assay-Run", "invalid_header")
    if b"run" not in query:
        return name, query, issues
    parts = query.split(b"&")
    run_parts = [part for part in parts if part.partition(b"=")[0] == b"run"]
    if run_parts:
        query = b"&".join(part for part in parts if part not in run_parts)
        names = [unquote_plus(part.partition(b"=")[2].decode("latin-1"), "latin-1") for part in run_parts]
        if len(names) > 1:
            issues.append(Issue("query.run", "repeated_setting", "given more than once"))
        elif header is not None and names != [name]:
            issues.append(Issue("query.run", "repeated_setting", "the header X-Assay-Run gives another name"))
        name = names[0]
        issues += run_issues(name, "query.run")
    return name, query, issues


class RunNames:
    """The names of runs that label metrics: the first `max_runs`, so that the number of series is bounded.

    With several processes, the supervisor has names too, which the workers `follow`: otherwise a worker that has seen
    `max_runs` other names would count a run as `other` that the next worker counts by its name.
    """

    def __init__(self, max_runs: int) -> None:
        self.admitted: list[str] = []
        """The names that were seen here first, at most `max_runs`."""
        self._max_runs = max_runs
        self._labels = {"": UNNAMED, UNNAMED: UNNAMED, OTHER: OTHER}
        self._warned = False

    def label(self, name: str) -> str:
        return self._labels.get(name) or self._admit(name)

    def _admit(self, name: str) -> str:
        if len(self.admitted) < self._max_runs:
            self.admitted.append(name)
            self._labels[name] = name
            return name
        if not self._warned:
            self._warned = True
            log.warning("metrics count further runs as %r, from %r on: max_runs is %d", OTHER, name, self._max_runs)
        return OTHER

    def follow(self, names: Iterable[str]) -> None:
        """Label these runs by their names; the caller bounds the number of names."""
        self._labels.update((name, name) for name in names)
