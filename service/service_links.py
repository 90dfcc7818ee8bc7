"""Variables that Kubernetes sets in every pod next to a Service whose name begins with `assay`; they are not settings.

A Service `assay` with the port 8000 called `http` gives `ASSAY_SERVICE_HOST`, `ASSAY_SERVICE_PORT`,
`ASSAY_SERVICE_PORT_HTTP`, `ASSAY_PORT=tcp://…`, `ASSAY_PORT_8000_TCP=tcp://…`, and the latter with `_ADDR`, `_PORT` and
`_PROTO`; a Service `assay-canary` the same with `ASSAY_CANARY_`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["HINT", "service_links"]

HINT = "set by Kubernetes' service links, not as settings: use enableServiceLinks: false in the pod's specification"

URL = re.compile(r"(tcp|udp|sctp)://\S+")
NUMBER = re.compile(r"\d+")
WORD = re.compile(r"\S+")

KINDS = (
    (re.compile(r"ASSAY_(?:[A-Z0-9_]+_)?PORT(?:_\d+_(?:TCP|UDP|SCTP))?"), URL),
    (re.compile(r"ASSAY_(?:[A-Z0-9_]+_)?PORT_\d+_(?:TCP|UDP|SCTP)_PORT"), NUMBER),
    (re.compile(r"ASSAY_(?:[A-Z0-9_]+_)?PORT_\d+_(?:TCP|UDP|SCTP)_(?:ADDR|PROTO)"), WORD),
)
"""Names, and the form of their values: a port that is set by hand is not a URL."""

OF_A_SERVICE = re.compile(r"(ASSAY_(?:[A-Z0-9_]+_)?SERVICE)_(?:HOST|PORT(?:_[A-Z0-9_]+)?)")
"""Names that could be meant as settings, except that Kubernetes always sets both host and port."""


def service_links(environ: Mapping[str, str]) -> list[str]:
    """Return the names of all such variables in `environ`, sorted."""
    return sorted(name for name in environ if name.startswith("ASSAY_") and is_link(name, environ))


def is_link(name: str, environ: Mapping[str, str]) -> bool:
    service = OF_A_SERVICE.fullmatch(name)
    if service and f"{service[1]}_HOST" in environ and NUMBER.fullmatch(environ.get(f"{service[1]}_PORT", "")):
        return True
    return any(names.fullmatch(name) and values.fullmatch(environ[name]) for names, values in KINDS)
