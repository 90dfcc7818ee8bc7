"""The manifests, as kustomize builds them: what clusters accept, and what the service needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from assay.service.config import ServerSettings, load
from tests.deploy.conftest import built, bytes_needed

FOLDERS = ("base", "overlays/development", "overlays/production")
OPERATOR = "monitoring.coreos.com/v1"
"""Kinds of the Prometheus operator, of which Kubernetes itself has no schema."""

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
def everything(kubectl: str) -> dict[str, Manifests]:
    return {folder: Manifests(built(kubectl, folder)) for folder in FOLDERS}


@pytest.fixture(params=FOLDERS)
def manifests(request: pytest.FixtureRequest, everything: dict[str, Manifests]) -> Manifests:
    return everything[request.param]


@pytest.mark.parametrize("version", ["1.30", None])
def test_kubernetes_accepts_every_manifest(manifests, version):
    """By the schemas of the oldest version that knows all of it and of the newest there is, unknown fields included."""
    validate = pytest.importorskip("kubernetes_validate", reason="needs assay[deploy]")
    checked = [document for document in manifests.documents if document["apiVersion"] != OPERATOR]
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
