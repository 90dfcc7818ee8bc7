"""Metrics and processes of a server, and waiting for them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.servers import LiveServer

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples_of(client: httpx.Client) -> Samples:
    """Scrape a server; return every sample by name and labels."""
    families = parse_text(client.get("/metrics").text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value_of(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def total_of(samples: Samples, name: str, **labels: str) -> float:
    """Return the sum of the samples of a name that have these labels."""
    return sum(value for (other, item), value in samples.items() if other == name and labels.items() <= item)


def metric(server: LiveServer, name: str) -> float:
    """Return the sample that begins with this name and its labels; 0 if there is none."""
    with server.client() as client:
        text = client.get("/metrics").text
    return float((text.partition(f"\n{name} ")[2].split() or ["0"])[0])


def rejections(server: LiveServer, reason: str) -> float:
    return metric(server, f'assay_rejections_total{{reason="{reason}"}}')


def in_time(condition: Callable[[], object], seconds: float = 60) -> bool:
    """Return whether the condition is met in time, by a last look after that: this process may have been stopped."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def comes_to(server: LiveServer, seconds: float = 10, **values: float) -> bool:
    """Return whether metrics reach these values in time."""
    return in_time(lambda: all(metric(server, f"assay_{name}") == value for name, value in values.items()), seconds)


def resident(pid: int, name: str = "VmRSS") -> int:
    """Return the resident memory of a process in bytes, or its peak (VmHWM)."""
    match = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1]) * 1024


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, without its children."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def workers_of(server: LiveServer) -> list[int]:
    """Return the ids, by the supervisor's log, of the ready workers that still run."""
    pids = [int(pid) for pid in re.findall(r"worker \d+ \(pid (\d+)\) is ready", server.log)]
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


def wait_for_workers(server: LiveServer, number: int) -> None:
    """Wait until the log has a line for each of `number` workers that became ready, replacements included."""
    assert in_time(lambda: server.log.count("is ready") >= number, 120), server.log
