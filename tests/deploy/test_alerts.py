"""Alerts: each is explained, and Prometheus' own tool agrees where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from textwrap import indent

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"

OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^### (Assay\w+)$", OPERATIONS, re.MULTILINE)


def test_every_alert_is_explained_and_nothing_else(alert_rules):
    assert [rule["alert"] for rule in alert_rules] == SECTIONS


def test_every_alert_leads_to_its_section(alert_rules):
    for rule in alert_rules:
        assert rule["annotations"]["runbook"] == f"docs/operations.md#{rule['alert'].lower()}"
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_every_section_says_what_to_do():
    for text in re.split(r"^### ", OPERATIONS, flags=re.MULTILINE)[1:]:
        if text.startswith("Assay"):
            assert "**Means**" in text and "**Do**" in text, text.splitlines()[0]  # noqa: PT018


def test_the_rules_of_the_operator_are_those_of_prometheus():
    plain, operator = ((DEPLOY / "prometheus" / name).read_text() for name in ("alerts.yml", "prometheusrule.yaml"))
    copied = operator.partition("\nspec:\n")[2]
    assert copied == indent(plain[plain.index("groups:") :], "  "), "see the first lines of prometheusrule.yaml"


@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", "alerts.yml"), ("check", "config", "prometheus.yml"), ("test", "rules", "alerts_test.yml")],
)
def test_promtool_agrees(arguments):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool here")
    shown = subprocess.run(
        [promtool, *arguments], cwd=DEPLOY / "prometheus", check=False, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr


def test_every_alert_has_a_case_in_which_it_fires(alert_rules):
    yaml = pytest.importorskip("yaml")
    cases = yaml.safe_load((DEPLOY / "prometheus" / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    fires = {case["alertname"] for test in cases for case in test["alert_rule_test"] if case.get("exp_alerts")}
    quiet = {case["alertname"] for test in cases for case in test["alert_rule_test"] if not case.get("exp_alerts")}
    assert fires == quiet == {rule["alert"] for rule in alert_rules}
