"""What alerts and panels ask for exists in /metrics of a real service, and every alert is explained."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from textwrap import indent
from typing import Any, NamedTuple

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.conftest import DEPLOY, ROOT, read
from tests.http.samples import REQUEST
from tests.servers import launched

promql = pytest.importorskip("promql_parser", reason="needs assay[deploy]")

ADDED_BY_PROMETHEUS = {"job", "instance", "namespace", "pod"}
"""Labels of what is scraped; the last two only in Kubernetes."""

OF_PROMETHEUS_ITSELF = {"up"}
OPEN_LABELS = {"code"}
"""Labels with values that a healthy service does not show in a test, such as 500."""

BATCH = {"references": REQUEST["references"], "responses": ["x" * 200_000] * 4}
"""Long enough not to be scored at once."""

DRAWN_BY_GRAFANA = {"$__rate_interval": "5m", "$job": "assay", "$instance": ".*", "$run": ".*", "$task": ".*"}
OBSERVE = (ROOT / "docs" / "observe.md").read_text(encoding="utf-8")
ALERTS = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
DASHBOARD = json.loads((DEPLOY / "grafana" / "assay.json").read_text(encoding="utf-8"))
ALL_RULES = [rule for group in read("prometheus/alerts.yml")["groups"] for rule in group["rules"]]
RULES = [rule for rule in ALL_RULES if "alert" in rule]
RECORDED = {rule["record"]: rule["expr"] for rule in ALL_RULES if "record" in rule}
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


class Use(NamedTuple):
    """One metric in an expression: what it selects by, and by what it is grouped."""

    where: str
    metric: str
    matchers: tuple[tuple[str, str, str], ...]
    grouped_by: frozenset[str]


Exposed = Mapping[str, Mapping[str, set[str]]]
"""Metric to label to values."""


@pytest.fixture(scope="module")
def exposed() -> Exposed:
    """Return what a service with two processes exposes after requests of every kind."""
    with launched("--drain-seconds", "0", "--max-work-bytes", "1", "--workers", "2") as server:
        server.wait_until_ready()
        with server.client() as client, ThreadPoolExecutor(4) as senders:
            visit(client)
            for _ in range(20):  # one after the other, so that some must wait; how many, is up to the machine
                for reply in senders.map(lambda body: client.post("/v1/score", json=body), [BATCH] * 4):
                    assert reply.status_code == 200
                if "assay_queue_wait_seconds_count" in client.get("/metrics").text:
                    break
            names: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
            for family in text_string_to_metric_families(client.get("/metrics").text):
                for sample in family.samples:
                    labels = names[sample.name]
                    for label, value in sample.labels.items():
                        labels[label].add(value)
    return names


def visit(client: httpx.Client) -> None:
    assert client.post("/v1/score", json=REQUEST).status_code == 200
    assert client.post("/v1/score", content=b"{").status_code == 400
    assert client.post("/v1/score", json={"references": ["x"], "responses": ["y"]}).status_code == 422
    probes = ("/livez", "/readyz", "/v2/health/live", "/v2/health/ready", "/health", "/healthz", "/ping")
    for path in (*probes, "/metrics", "/v1/config"):
        assert client.get(path).status_code == 200


def expressions() -> Iterator[tuple[str, str]]:
    """Yield where PromQL stands, and the expression with Grafana's variables filled in."""
    for rule in RULES:
        yield f"alert {rule['alert']}", rule["expr"]
    yield from RECORDED.items()
    for panel in PANELS:
        for target in panel["targets"]:
            expression = target["expr"]
            for variable, value in DRAWN_BY_GRAFANA.items():
                expression = expression.replace(variable, value)
            assert "$" not in expression, panel["title"]
            yield f"panel {panel['title']!r}", expression
    for rule in read("prometheus/adapter.yaml")["rules"]:
        yield "adapter", rule["seriesQuery"]
        series, _, labels = rule["seriesQuery"].partition("{")
        query = rule["metricsQuery"]
        for name, value in (("Series", series), ("LabelMatchers", labels.rstrip("}")), ("GroupBy", "pod")):
            query = query.replace(f"<<.{name}>>", value)
        yield "adapter", query
    for trigger in read("kubernetes/components/keda/scaledobject.yaml")["spec"]["triggers"]:
        if trigger["type"] == "prometheus":
            yield "KEDA", trigger["metadata"]["query"]
    for expression in re.findall(r"<!-- run by [\w/]+\.py -->\n```text\n(.*?)```", OBSERVE, re.DOTALL):
        yield "docs/observe.md", expression


def uses(where: str, node: Any, grouped_by: frozenset[str] = frozenset()) -> Iterator[Use]:
    """Yield every metric in an expression."""
    if isinstance(node, promql.VectorSelector):
        matchers = node.matchers.matchers
        yield Use(where, node.name, tuple((m.name, str(m.op), m.value) for m in matchers), grouped_by)
    elif isinstance(node, promql.AggregateExpr) and node.modifier:
        assert node.modifier.type == promql.AggModifierType.By, where
        grouped_by |= frozenset(node.modifier.labels)
    parts = [getattr(node, name, None) for name in ("vector_selector", "expr", "lhs", "rhs")]
    for part in (*filter(None, parts), *getattr(node, "args", ())):
        yield from uses(where, part, grouped_by)


def misfits(use: Use, exposed: Exposed) -> Iterator[str]:
    """Yield each metric, label or value of a use that does not exist."""
    if use.metric in RECORDED:
        return
    if use.metric not in exposed and use.metric not in OF_PROMETHEUS_ITSELF:
        yield f"{use.where}: there is no metric {use.metric}"
        return
    labels = exposed.get(use.metric, {})
    for label in sorted(use.grouped_by | {name for name, _, _ in use.matchers}):
        if label not in labels and label not in ADDED_BY_PROMETHEUS:
            yield f"{use.where}: {use.metric} has no label {label}"
    for name, operator, value in use.matchers:
        if name in labels and name not in OPEN_LABELS and value != ".*":
            values = value.split("|") if operator in ("MatchOp.Re", "MatchOp.NotRe") else [value]
            for each in sorted(set(values) - labels[name]):
                yield f"{use.where}: {use.metric} has no {name}={each!r}"


@pytest.fixture(scope="module")
def used() -> list[Use]:
    return [use for where, text in expressions() for use in uses(where, promql.parse(text))]


def test_all_that_is_asked_for_exists(used, exposed):
    assert len(used) > 50
    assert {"docs/observe.md", "adapter", "KEDA"} < {use.where for use in used}
    assert [problem for use in used for problem in misfits(use, exposed)] == []


def test_every_alert_has_a_section_and_cases():
    alerts = [rule["alert"] for rule in RULES]
    assert re.findall(r"^## (Assay\w+)$", ALERTS, re.MULTILINE) == alerts
    assert [rule["annotations"]["runbook"] for rule in RULES] == [f"docs/alerts.md#{name.lower()}" for name in alerts]
    cases = [case for test in read("prometheus/alerts_test.yml")["tests"] for case in test["alert_rule_test"]]
    for fires in (True, False):
        assert {case["alertname"] for case in cases if bool(case.get("exp_alerts")) == fires} == set(alerts)


def test_the_rules_of_the_operator_are_those_of_prometheus():
    plain, operator = ((DEPLOY / "prometheus" / name).read_text() for name in ("alerts.yml", "prometheusrule.yaml"))
    copied = operator.partition("\nspec:\n")[2]
    assert copied == indent(plain[plain.index("groups:") :], "  "), "see the first lines of prometheusrule.yaml"


@pytest.mark.parametrize(
    "arguments", ["check rules alerts.yml", "check config prometheus.yml", "test rules alerts_test.yml"]
)
def test_promtool_agrees(arguments):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool here")
    command = [promtool, *arguments.split()]
    shown = subprocess.run(command, cwd=DEPLOY / "prometheus", check=False, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stdout + shown.stderr
