"""Mode "local": all processes share one service, which ends with the last of them, however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from assay_client import AsyncClient, Client, LocalServiceError
from tests.http.samples import PERFECT, REFERENCE
from tests.own_process import environment, printed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs Unix sockets and file locks")

FLEETING = ["env", f"PYTHONPATH={environment()['PYTHONPATH']}", sys.executable, "-m", "tests.clients.fleeting_service"]
REAL = [sys.executable, "-c", "from assay.service.cli.main import main; main()"]

USER = """
import json, sys
from assay_client import Client
client = Client(**json.loads(sys.argv[1]))
print(client.score(["xx"], ["r"]).rewards[0], flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """Yield a folder with a short path for sockets; kill the services that still run at the end."""
    with TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)
        for record in Path(folder).glob("started/*"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(record.name), signal.SIGKILL)


@pytest.fixture
def settings(home: Path) -> dict[str, Any]:
    """Return settings of a service that starts quickly and leaves a file for each start in `home/started`."""
    (home / "started").mkdir()
    command = [*FLEETING, str(home / "started")]
    return {"mode": "local", "command": command, "runtime_dir": str(home / "run"), "linger": 0.0, "backoff": 0.02}


def services(home: Path) -> list[int]:
    """Return the process ids of all started services."""
    return [int(path.name) for path in sorted((home / "started").iterdir(), key=lambda path: path.stat().st_mtime_ns)]


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until(condition: Any, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def user(settings: dict[str, Any]) -> subprocess.Popen[str]:
    """Start a process that uses the service until its standard input ends."""
    command = [sys.executable, "-c", USER, json.dumps(settings)]
    return subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def test_many_processes_start_one_service_and_the_last_one_ends_it(home: Path, settings: dict[str, Any]) -> None:
    """Some of them are killed, the one that has started it first."""
    users = [user(settings)]
    assert until(lambda: services(home))
    users += [user(settings) for _ in range(2)]
    for process in users:
        assert process.stdout is not None
        assert process.stdout.readline() == "0.002\n"
    (service,) = services(home)
    users[0].kill()
    for process in users[:2]:
        process.communicate("")
    time.sleep(0.5)
    assert runs(service)
    users[2].kill()
    users[2].communicate("")
    assert until(lambda: not runs(service))


def test_closing_releases_it_and_using_the_client_again_starts_it(home: Path, settings: dict[str, Any]) -> None:
    client, other = Client(**settings), AsyncClient(**settings)
    assert client.score(["xx"], ["r"]).rewards == [0.002]

    async def concurrent_calls() -> list[float]:
        return [score.reward for score in await asyncio.gather(*(other.score_one("x" * k, "r") for k in range(40)))]

    assert asyncio.run(concurrent_calls()) == [k / 1000 for k in range(40)]
    (service,) = services(home)
    client.close()
    time.sleep(0.5)
    assert runs(service)
    asyncio.run(other.close())
    assert until(lambda: not runs(service))
    assert client.score_one("xxx", "r").reward == 0.003
    assert len(services(home)) == 2
    client.close()
    assert until(lambda: not runs(services(home)[1]))


def test_it_is_restarted_after_a_kill(home: Path, settings: dict[str, Any]) -> None:
    with Client(**settings) as client:
        assert client.score(["xx"], ["r"]).rewards == [0.002]
        (service,) = services(home)
        os.kill(service, signal.SIGKILL)
        assert until(lambda: not runs(service))
        for k in range(1, 5):
            assert client.score(["x" * k], ["r"]).rewards == [k / 1000]
        second = services(home)[-1]
        assert second != service
    assert until(lambda: not runs(second))


def test_users_that_come_while_it_ends_start_another(home: Path, settings: dict[str, Any]) -> None:
    """Release and use it again at every moment around the poll that ends it."""
    with Client(**settings) as client:
        for k in range(1, 7):
            assert client.score(["x" * k], ["r"]).rewards == [k / 1000]
            client.close()
            time.sleep(0.12 * k)
    assert until(lambda: not any(map(runs, services(home))))
    assert 1 < len(services(home)) <= 6


def test_the_error_says_why_a_service_does_not_start(
    home: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [sys.executable, "-c", "import sys; sys.exit('no kernel fits this machine')"]
    with pytest.raises(LocalServiceError, match="no kernel fits this machine"):
        Client(**{**settings, "command": broken}).score(["xx"], ["r"])
    with pytest.raises(LocalServiceError, match="No such file"):
        Client(**{**settings, "command": ["/no/such/command"]}).score(["xx"], ["r"])
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(LocalServiceError, match="ASSAY_CLIENT_COMMAND"):
        Client(mode="local", runtime_dir=settings["runtime_dir"]).score(["xx"], ["r"])


def test_the_folder_is_private(home: Path, settings: dict[str, Any]) -> None:
    (home / "run").mkdir()
    (home / "run").chmod(0o710)
    with pytest.raises(LocalServiceError, match="others can access it"):
        Client(**settings).score(["xx"], ["r"])
    (home / "run").rmdir()
    with Client(**settings) as client:
        client.score(["xx"], ["r"])
        assert stat.S_IMODE((home / "run").stat().st_mode) == 0o700


def test_the_service_does_not_get_the_variables_of_the_client(
    home: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ASSAY_URL", "ASSAY_API_KEY", "ASSAY_CLIENT_TIMEOUT", "ASSAY_ROWS", "ASSAY_PORT", "ASSAY_API_KEYS"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setenv("ASSAY_ORDER", "lcs")
    with Client(**settings) as client:
        client.score(["xx"], ["r"])
        (record,) = (home / "started").iterdir()
    assert set(json.loads(record.read_text())) - {"ASSAY_CACHE_DIR"} == {"ASSAY_ORDER"}


FORKED_USER = """
import json, os, sys
from assay_client import Client
settings, response, reference = json.loads(sys.argv[1])
client = Client(**settings)
def wrong():
    return sum(client.score([response], [reference]).rewards != [1.0] for _ in range(15))
assert not wrong()
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 2 if wrong() else 0
            client.close()
        finally:
            os._exit(code)
    children.append(child)
found = wrong()
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
print(found, codes, wrong())
client.close()
"""


def test_both_sides_of_a_fork_score_at_once(home: Path) -> None:
    """A used client and its children share one real service, which outlives the first of them to end."""
    settings = {"mode": "local", "command": REAL, "runtime_dir": str(home / "run"), "linger": 0.0}
    assert printed(FORKED_USER, json.dumps([settings, PERFECT, REFERENCE])) == "0 [0, 0] 0\n"
    (folder,) = (home / "run").iterdir()
    assert until(lambda: not (folder / "socket").exists())
    assert (folder / "log").read_text() == ""
