"""The manifests, as kustomize builds them: what clusters accept, and what the service needs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from assay.service.config import ServerSettings, load
from tests.deploy.conftest import DEPLOY, built, bytes_needed, read

KUBERNETES = DEPLOY / "kubernetes"
TRACED = "with traces"
"""The overlay `production` with the component `traces`, as in a folder of a user's own."""

WITH_KEDA = "with KEDA"
COMPONENTS = {TRACED: "traces", WITH_KEDA: "keda"}
FOLDERS = ("base", "overlays/development", "overlays/production", *COMPONENTS)
OPERATORS = ("monitoring.coreos.com/v1", "keda.sh/v1alpha1")
"""Kinds of which Kubernetes itself has no schema: of the Prometheus operator and of KEDA."""

AIR_SECONDS = 5


class Manifests:
    """What can be applied from one folder."""

    def __init__(self, documents: list[dict[str, Any]]) -> None:
        self.documents = documents
        self.deployment = self.only("Deployment")["spec"]
        self.pod = self.deployment["template"]["spec"]
        (self.container,) = self.pod["containers"]
        self.environment = {entry["name"]: entry for entry in self.container["env"]}

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [document for document in self.documents if document["kind"] == kind]

    def only(self, kind: str) -> dict[str, Any]:
        (document,) = self.of(kind)
        return document

    def settings(self, folder: Path) -> ServerSettings:
        """Return the settings that a replica would have, from its file and its plain variables."""
        path = folder / "assay.toml"
        (config,) = [config for config in self.of("ConfigMap") if "assay.toml" in config["data"]]
        path.write_text(config["data"]["assay.toml"], encoding="utf-8")
        variables = {name: entry["value"] for name, entry in self.environment.items() if "value" in entry}
        assert variables.pop("ASSAY_CONFIG") == "/etc/assay/assay.toml"
        variables.pop("ASSAY_API_KEYS_FILE", None)  # a file that only the cluster has
        return load(environ=variables, path=path).server


@pytest.fixture(scope="module")
def everything(kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Manifests]:
    folders = {folder: KUBERNETES / folder for folder in FOLDERS}
    for name, component in COMPONENTS.items():
        folders[name] = own = tmp_path_factory.mktemp(component)
        overlay, path = (
            os.path.relpath(KUBERNETES / path, own.resolve())
            for path in ("overlays/production", f"components/{component}")
        )
        (own / "kustomization.yaml").write_text(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: assay\n"
            f"resources: [{overlay}]\ncomponents: [{path}]\n",
            encoding="utf-8",
        )
    return {name: Manifests(built(kubectl, folder)) for name, folder in folders.items()}


@pytest.fixture(params=FOLDERS)
def manifests(request: pytest.FixtureRequest, everything: dict[str, Manifests]) -> Manifests:
    return everything[request.param]


@pytest.mark.parametrize("version", ["1.30", None])
def test_kubernetes_accepts_every_manifest(manifests, version):
    """By the schemas of the oldest version that knows all of it and of the newest there is, unknown fields included."""
    validate = pytest.importorskip("kubernetes_validate", reason="needs assay[deploy]")
    checked = [document for document in manifests.documents if document["apiVersion"] not in OPERATORS]
    assert len(checked) >= 5
    for document in checked:
        validate.validate(document, version or validate.latest_version(), strict=True)


def test_every_selector_means_the_replicas_and_nothing_else(manifests):
    """An empty selector would take in everything else that lives in the namespace."""
    specs = {kind: [each["spec"] for each in manifests.of(kind)] for kind in ("PodDisruptionBudget", "NetworkPolicy")}
    selectors = [
        manifests.deployment["selector"]["matchLabels"],
        manifests.only("Service")["spec"]["selector"],
        *(spec["selector"]["matchLabels"] for spec in specs["PodDisruptionBudget"]),
        *(spec["podSelector"]["matchLabels"] for spec in specs["NetworkPolicy"]),
        *(each["labelSelector"]["matchLabels"] for each in manifests.pod["topologySpreadConstraints"]),
    ]
    labels = manifests.deployment["template"]["metadata"]["labels"].items()
    assert all(selector and selector.items() <= labels for selector in selectors)
    service = manifests.only("Service")["metadata"]["labels"].items()
    monitored = [each["spec"]["selector"]["matchLabels"] for each in manifests.of("ServiceMonitor")]
    assert all(selector.items() <= service for selector in monitored)


def test_the_service_accepts_its_settings_and_has_memory_and_time_to_drain(manifests, tmp_path):
    settings = manifests.settings(tmp_path)
    container = manifests.container
    probes = [container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert [probe["path"] for probe in probes] == ["/readyz", "/readyz", "/livez"]
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    needed = pause + settings.drain_seconds + settings.shutdown_seconds
    assert manifests.pod["terminationGracePeriodSeconds"] >= needed + AIR_SECONDS
    probe = container["readinessProbe"]
    assert settings.drain_seconds > probe["periodSeconds"] * probe["failureThreshold"]
    size, unit = re.fullmatch(r"(\d+)(Mi|Gi)", container["resources"]["limits"]["memory"]).groups()
    assert bytes_needed(settings) <= int(size) * {"Mi": 2**20, "Gi": 2**30}[unit]


def test_variables_of_kubernetes_do_not_stop_the_service(manifests):
    """A Service called `assay` sets ASSAY_PORT=tcp://…, with which it refuses to start."""
    assert manifests.only("Service")["metadata"]["name"] == "assay"
    assert manifests.pod["enableServiceLinks"] is False


def test_connections_to_the_outside_are_allowed_only_to_the_collector_of_traces(manifests, tmp_path):
    """Policies add up; with traces on and no such rule, every span would be dropped."""
    policies = manifests.of("NetworkPolicy")
    assert all("Egress" in policy["spec"]["policyTypes"] for policy in policies)
    rules = [rule for policy in policies for rule in policy["spec"].get("egress") or []]
    traces = manifests.settings(tmp_path).traces
    if not traces:
        assert rules == []
        return
    assert {policy["metadata"]["namespace"] for policy in policies} == {"assay"}
    collector = urlsplit(manifests.environment["OTEL_EXPORTER_OTLP_ENDPOINT"]["value"])
    assert collector.hostname is not None
    pod, namespace = collector.hostname.split(".")
    targets = {
        (
            target["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"],
            label,
            port["protocol"],
            port["port"],
        )
        for rule in rules
        for target in rule["to"]
        for label in target["podSelector"]["matchLabels"].values()
        for port in rule["ports"]
    }
    names = {("kube-system", "kube-dns", protocol, 53) for protocol in ("UDP", "TCP")}
    assert targets == {(namespace, pod, "TCP", collector.port), *names}


def test_traces_are_on_in_the_folder_with_traces_alone(everything, tmp_path):
    assert [name for name in FOLDERS if everything[name].settings(tmp_path).traces] == [TRACED]


def test_the_number_of_replicas_follows_the_queue_and_the_cores(everything):
    """By the same numbers with KEDA as without; development stays at its own."""
    scaler = everything["overlays/production"].only("HorizontalPodAutoscaler")["spec"]
    metrics = {metric["type"]: metric for metric in scaler["metrics"]}
    queue = metrics["Pods"]["pods"]
    (rule,) = read("prometheus/adapter.yaml")["rules"]
    assert queue["metric"]["name"] == rule["name"]["as"]
    keda = everything[WITH_KEDA]
    assert keda.of("HorizontalPodAutoscaler") == []
    scaled = keda.only("ScaledObject")
    spec, triggers = scaled["spec"], {trigger["type"]: trigger for trigger in scaled["spec"]["triggers"]}
    assert (
        spec["scaleTargetRef"]["name"]
        == scaler["scaleTargetRef"]["name"]
        == keda.only("Deployment")["metadata"]["name"]
    )
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (scaler["minReplicas"], scaler["maxReplicas"])
    assert spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == scaler["behavior"]
    assert queue["target"] == {"type": triggers["prometheus"]["metricType"], "averageValue": "64Mi"}
    assert int(triggers["prometheus"]["metadata"]["threshold"]) == 64 * 2**20
    share = metrics["Resource"]["resource"]["target"]
    assert (share["type"], str(share["averageUtilization"])) == ("Utilization", triggers["cpu"]["metadata"]["value"])
    namespace = scaled["metadata"]["namespace"]
    assert f'namespace="{namespace}"' in triggers["prometheus"]["metadata"]["query"]
