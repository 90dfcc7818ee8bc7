"""The Grafana dashboard. `derive.py` writes it to grafana/assay.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["dashboard"]

WIDTH = 24
"""Columns of Grafana's grid."""

CHOSEN = 'job="$job", instance=~"$instance"'
PROBES = 'route!~"/livez|/readyz|/v2/health/live|/v2/health/ready|/health|/ping|/metrics"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Query = tuple[str, str]
"""A PromQL expression and the legend of its series."""


def rate(metric: str, *matchers: str) -> str:
    return f"rate({metric}{{{', '.join((CHOSEN, *matchers))}}}[$__rate_interval])"


def total(metric: str, *matchers: str, by: str = "") -> str:
    return f"sum{f' by ({by})' if by else ''} ({rate(metric, *matchers)})"


def quantile(share: float, metric: str, *matchers: str) -> str:
    return f"histogram_quantile({share}, {total(metric + '_bucket', *matchers, by='le')})"


def mean(metric: str, *matchers: str, by: str = "") -> str:
    return f"{total(metric + '_sum', *matchers, by=by)} / {total(metric + '_count', *matchers, by=by)}"


def gauge(metric: str) -> str:
    return f"{metric}{{{CHOSEN}}}"


def panel(kind: str, title: str, description: str, queries: Sequence[Query], unit: str, **more: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": unit, "min": 0, "custom": more.pop("custom", {})}
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults | more.pop("defaults", {}), "overrides": []},
        "options": more.pop("options", {}),
        "targets": [
            {"refId": chr(ord("A") + k), "datasource": SOURCE, "expr": expression, "legendFormat": legend, **more}
            for k, (expression, legend) in enumerate(queries)
        ],
    }


def lines(title: str, description: str, queries: Sequence[Query], unit: str = "short") -> dict[str, Any]:
    custom = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 8, "showPoints": "never"}
    return panel("timeseries", title, description, queries, unit, custom=custom, options=legend())


def stacked(title: str, description: str, queries: Sequence[Query], unit: str, percent: bool = False) -> dict[str, Any]:
    stacking = {"mode": "percent" if percent else "normal", "group": "A"}
    custom = {"drawStyle": "line", "lineWidth": 0, "fillOpacity": 70, "showPoints": "never", "stacking": stacking}
    return panel("timeseries", title, description, queries, unit, custom=custom, options=legend())


def legend() -> dict[str, Any]:
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def figure(title: str, description: str, expression: str, unit: str, steps: Sequence[tuple[float | None, str]]) -> Any:
    """Return a panel with one number, colored by the thresholds `steps`."""
    thresholds = {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}
    options = {
        "colorMode": "value",
        "graphMode": "area",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    return panel(
        "stat", title, description, [(expression, "")], unit, defaults={"thresholds": thresholds}, options=options
    )


def heatmap(title: str, description: str, metric: str, unit: str, *matchers: str) -> dict[str, Any]:
    expression = f"sum by (le) (increase({metric}_bucket{{{', '.join((CHOSEN, *matchers))}}}[$__rate_interval]))"
    options = {
        "calculate": False,
        "cellGap": 1,
        "color": {"mode": "scheme", "scheme": "Viridis", "steps": 64, "reverse": False, "exponent": 0.5},
        "yAxis": {"axisPlacement": "left", "unit": unit},
        "tooltip": {"mode": "single", "yHistogram": True},
        "legend": {"show": False},
    }
    return panel("heatmap", title, description, [(expression, "{{le}}")], unit, options=options, format="heatmap")


OVERVIEW = [
    figure(
        "Ready replicas",
        "Replicas that are ready, neither starting nor draining.",
        f"sum({gauge('assay_ready')} * (1 - {gauge('assay_draining')}))",
        "short",
        [(None, "red"), (1, "green")],
    ),
    figure("Responses", "Scored responses per second.", total("assay_responses_total"), "ops", [(None, "blue")]),
    figure(
        "Passing the gates",
        "Share of responses with the reason ok.",
        total("assay_responses_total", 'reason="ok"') + " / " + total("assay_responses_total"),
        "percentunit",
        [(None, "red"), (0.01, "orange"), (0.1, "green")],
    ),
    figure("Mean reward", "As returned, on the requested scale.", mean("assay_reward"), "short", [(None, "blue")]),
    figure(
        "p99 of scoring",
        "From a request's head to its reply, for batches and single requests.",
        quantile(0.99, "assay_request_duration_seconds", 'route="/v1/score"'),
        "s",
        [(None, "green"), (2.5, "orange"), (10, "red")],
    ),
    figure(
        "Refused",
        "Share of requests refused for lack of capacity or by the deadline.",
        total("assay_rejections_total", 'reason=~"over_capacity|deadline"')
        + " / "
        + total("assay_request_duration_seconds_count", PROBES),
        "percentunit",
        [(None, "green"), (0.001, "orange"), (0.01, "red")],
    ),
]

TRAFFIC = [
    lines(
        "Responses by replica",
        "If a replica differs from the others, clients hold their connections, or one address has most of them.",
        [(total("assay_responses_total", by="instance"), "{{instance}}")],
        "ops",
    ),
    lines(
        "Requests by route and code",
        "Without probes and metrics.",
        [(total("assay_request_duration_seconds_count", PROBES, by="route, code"), "{{route}} {{code}}")],
        "reqps",
    ),
    heatmap("Batch sizes", "Responses per request.", "assay_batch_responses", "short"),
]

LATENCY = [
    lines(
        "Scoring, by quantile",
        "From a request's head to its reply.",
        [
            (quantile(share, "assay_request_duration_seconds", 'route="/v1/score"'), name)
            for share, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
        ],
        "s",
    ),
    heatmap("Request duration", "All routes except probes.", "assay_request_duration_seconds", "s", PROBES),
    stacked(
        "Where the time goes",
        "Mean time of each stage; queue is the wait for a thread.",
        [(mean("assay_stage_duration_seconds", by="stage"), "{{stage}}")],
        "s",
    ),
]

REWARDS = [
    heatmap("Reward distribution", "Number of responses by reward.", "assay_reward", "short"),
    lines(
        "Mean reward and share that passes",
        "If both are 0, all responses fail a gate; see the reasons.",
        [
            (mean("assay_reward"), "mean reward"),
            (total("assay_responses_total", 'reason="ok"') + " / " + total("assay_responses_total"), "share of ok"),
        ],
    ),
    stacked(
        "Reasons",
        "Shares of the responses.",
        [(total("assay_responses_total", by="reason"), "{{reason}}")],
        "percentunit",
        percent=True,
    ),
]

CAPACITY = [
    lines(
        "Bytes in work",
        "Requests being read or scored, unread replies, and their limit, by replica.",
        [
            (gauge("assay_work_bytes"), "{{instance}}"),
            (gauge("assay_unread_reply_bytes"), "{{instance}} unread replies"),
            (f"max({gauge('assay_work_bytes_limit')})", "limit of each"),
        ],
        "bytes",
    ),
    lines(
        "Bytes queued",
        "Bodies of queued requests, not yet read, and their limit, by replica.",
        [(gauge("assay_queued_bytes"), "{{instance}}"), (f"max({gauge('assay_queued_bytes_limit')})", "limit of each")],
        "bytes",
    ),
    lines(
        "Waiting, by quantile",
        "Of the requests that had to wait for admission.",
        [(quantile(share, "assay_queue_wait_seconds"), name) for share, name in ((0.5, "p50"), (0.99, "p99"))],
        "s",
    ),
    lines(
        "Waiting requests",
        "Waiting for admission, and batches that are scored or wait for a thread; by replica.",
        [
            (gauge("assay_queued_requests"), "{{instance}} admission"),
            (gauge("assay_batches_unfinished"), "{{instance}} batches"),
        ],
    ),
    lines(
        "Waiting for a thread, by quantile",
        "Of admitted batches.",
        [
            (quantile(share, "assay_stage_duration_seconds", 'stage="queue"'), name)
            for share, name in ((0.5, "p50"), (0.99, "p99"))
        ],
        "s",
    ),
    lines(
        "Rejections and losses",
        "Refused requests by reason, and clients that disconnected.",
        [
            (total("assay_rejections_total", by="reason"), "{{reason}}"),
            (total("assay_client_disconnects_total"), "client gone"),
        ],
        "reqps",
    ),
]

PROCESS = [
    lines(
        "Resident memory",
        "By replica, and the size above which it refuses new batches.",
        [
            (gauge("assay_process_resident_memory_bytes"), "{{instance}}"),
            (gauge("assay_resident_limit_bytes"), "{{instance}} limit"),
        ],
        "bytes",
    ),
    lines("Cores in use", "By replica.", [(rate("assay_process_cpu_seconds_total"), "{{instance}}")]),
    lines("Open files", "Connections, mostly.", [(gauge("assay_process_open_fds"), "{{instance}}")]),
    lines(
        "Compiled signatures",
        "Flat once a replica is ready.",
        [(gauge("assay_compiled_signatures"), "{{instance}}")],
    ),
    lines(
        "Replicas by version and configuration",
        "If there are two lines for longer than a rollout, rewards depend on the replica.",
        [
            (
                f"count by (version, config_id, rules_version) ({gauge('assay_build_info')})",
                "{{version}} {{config_id}} rules {{rules_version}}",
            )
        ],
    ),
    lines(
        "Worker processes",
        "Of replicas with several: configured, ready and restarted worker processes.",
        [
            (gauge("assay_workers"), "{{instance}} configured"),
            (gauge("assay_workers_ready"), "{{instance}} ready"),
            (total("assay_worker_restarts_total", by="cause") + " * 60", "restarted per minute: {{cause}}"),
        ],
    ),
    lines(
        "Starts",
        "Restarts in half an hour, by replica.",
        [(f"changes({gauge('assay_process_start_time_seconds')}[30m])", "{{instance}}")],
    ),
]

ROWS = (
    ("Overview", 4, OVERVIEW),
    ("Traffic", 8, TRAFFIC),
    ("Latency", 8, LATENCY),
    ("Rewards", 9, REWARDS),
    ("Capacity", 8, CAPACITY),
    ("Processes", 7, PROCESS),
)
"""Title, height of a panel, and the panels, at most six side by side."""


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana's JSON model."""
    return {
        "uid": "assay",
        "title": "Assay",
        "tags": ["assay"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": variables()},
        "annotations": {"list": []},
        "panels": placed(),
    }


def variables() -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    job = variable("job", "Job", "label_values(assay_build_info, job)")
    instance = variable("instance", "Replica", 'label_values(assay_build_info{job="$job"}, instance)')
    everything = {"selected": True, "text": "All", "value": "$__all"}
    return [source, job, instance | {"multi": True, "includeAll": True, "allValue": ".*", "current": everything}]


def variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
    }


def placed() -> list[dict[str, Any]]:
    """Return all panels with their ids and positions: rows from top to bottom, panels side by side."""
    found: list[dict[str, Any]] = []
    top = 0
    for title, height, panels in ROWS:
        place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
        found.append({"id": len(found) + 1, "type": "row", "title": title, "collapsed": False, "gridPos": place})
        across = len(panels) if title == "Overview" else min(len(panels), 3)
        for k, drawn in enumerate(panels):
            line, column = divmod(k, across)
            width = WIDTH // across
            place = {"x": column * width, "y": top + 1 + line * height, "w": width, "h": height}
            found.append({"id": len(found) + 1, **drawn, "gridPos": place})
        top += 1 + height * -(-len(panels) // across)
    return found
