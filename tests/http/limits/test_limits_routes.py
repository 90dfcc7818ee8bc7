"""What a route refuses it does not keep."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.http.limits.hostile import JSON, Attack, empty_strings, long_string, many_names, wide
from tests.http.limits.posting import MIB, connected
from tests.http.process.watching import resident
from tests.http.samples import paths_with_bodies

pytestmark = pytest.mark.attack

PATHS = paths_with_bodies()


def send(url: str, attack: Attack, body: bytes) -> int:
    """Send a body on a new connection; return the status of the reply."""
    with connected(url) as connection:
        return connection.send("POST", attack.path, body, {"content-type": attack.media_type})[0]


REFUSED: dict[str, Callable[[int], bytes]] = {
    "names": many_names,
    "wide": wide,
    "text": long_string,
    "empty strings": empty_strings,
    "not JSON": lambda nbytes: b"[" * nbytes,
}


@pytest.mark.parametrize("path", PATHS)
def test_what_is_refused_is_not_kept(server, path):
    """The service's size does not grow with sequential requests of one client."""
    process = server.process.pid
    attacks = [Attack(name, path, JSON, shape) for name, shape in REFUSED.items()]

    def send_all() -> None:
        for attack in attacks:
            accepted = (200,) if path.endswith("_session") and attack.name != "not JSON" else (400, 413, 422)
            assert send(server.url, attack, attack.body(8 * MIB)) in accepted, attack.name

    send_all()
    before = resident(process)
    for _ in range(4):
        send_all()
    assert resident(process) - before < 4 * 8 * MIB  # of 160 MiB sent
