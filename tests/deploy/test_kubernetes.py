"""The manifests, as kustomize builds them: what clusters accept, and what the service needs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from assay.service.config import load
from tests.deploy.conftest import ROOT, built
from tests.packaging.snippets import snippets_of

FOLDERS = ("base", "overlays/development", "overlays/production")
OPERATOR = "monitoring.coreos.com/v1"
"""Kinds of the Prometheus operator, of which Kubernetes itself has no schema."""

AIR_SECONDS = 5


def kinds(manifests: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def only(manifests: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = kinds(manifests, kind)
    return found


def pod_of(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    return only(manifests, "Deployment")["spec"]["template"]


def container_of(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    (container,) = pod_of(manifests)["spec"]["containers"]
    return container


def environment_of(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    return {entry["name"]: entry for entry in container_of(manifests)["env"]}


def settings_of(manifests: list[dict[str, Any]], folder: Any) -> Any:
    """The settings that a replica would have, from its file and its plain variables."""
    path = folder / "assay.toml"
    configs = [found for found in kinds(manifests, "ConfigMap") if "assay.toml" in found["data"]]
    assert len(configs) == 1
    path.write_text(configs[0]["data"]["assay.toml"], encoding="utf-8")
    given = {name: entry["value"] for name, entry in environment_of(manifests).items() if "value" in entry}
    assert given.pop("ASSAY_CONFIG") == "/etc/assay/assay.toml"
    given.pop("ASSAY_API_KEYS_FILE", None)  # a file that only the cluster has
    return load(environ=given, path=path).server


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("version", ["1.30", None])
def test_kubernetes_accepts_every_manifest(manifests, folder, version):
    """By the schemas of the oldest version that knows all of it and of the newest there is, unknown fields included."""
    validate = pytest.importorskip("kubernetes_validate", reason="needs assay[deploy]")
    checked = [manifest for manifest in manifests[folder] if manifest["apiVersion"] != OPERATOR]
    assert len(checked) >= 5
    for manifest in checked:
        validate.validate(manifest, version or validate.latest_version(), strict=True)


def test_a_misspelt_field_would_be_found(manifests):
    validate = pytest.importorskip("kubernetes_validate", reason="needs assay[deploy]")
    spoilt = only(manifests["base"], "PodDisruptionBudget")
    spoilt = {**spoilt, "spec": {**spoilt["spec"], "maxUnavailible": 1}}
    with pytest.raises(validate.ValidationError):
        validate.validate(spoilt, validate.latest_version(), strict=True)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_selector_means_the_replicas_and_nothing_else(manifests, folder):
    """An empty selector would take in everything else that lives in the namespace."""
    labels = pod_of(manifests[folder])["metadata"]["labels"].items()
    deployment = only(manifests[folder], "Deployment")["spec"]
    found = [deployment["selector"]["matchLabels"], only(manifests[folder], "Service")["spec"]["selector"]]
    found += [each["spec"]["selector"]["matchLabels"] for each in kinds(manifests[folder], "PodDisruptionBudget")]
    found += [each["spec"]["podSelector"]["matchLabels"] for each in kinds(manifests[folder], "NetworkPolicy")]
    found += [
        each["labelSelector"]["matchLabels"] for each in deployment["template"]["spec"]["topologySpreadConstraints"]
    ]
    assert all(selector and selector.items() <= labels for selector in found)
    service = only(manifests[folder], "Service")["metadata"]["labels"].items()
    assert all(
        each["spec"]["selector"]["matchLabels"].items() <= service
        for each in kinds(manifests[folder], "ServiceMonitor")
    )


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_service_accepts_its_settings(manifests, folder, tmp_path):
    settings_of(manifests[folder], tmp_path)


@pytest.mark.parametrize("folder", FOLDERS)
def test_there_is_time_to_drain(manifests, folder, tmp_path):
    settings = settings_of(manifests[folder], tmp_path)
    pause = container_of(manifests[folder])["lifecycle"]["preStop"]["sleep"]["seconds"]
    needed = pause + settings.drain_seconds + settings.shutdown_seconds
    assert pod_of(manifests[folder])["spec"]["terminationGracePeriodSeconds"] >= needed + AIR_SECONDS
    probe = container_of(manifests[folder])["readinessProbe"]
    assert settings.drain_seconds > probe["periodSeconds"] * probe["failureThreshold"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_in_work_fits_into_memory(manifests, folder, tmp_path):
    """docs/operations.md: the process itself, and six bytes for each byte in work."""
    needed = 400 * 2**20 + 6 * settings_of(manifests[folder], tmp_path).max_work_bytes
    limit = container_of(manifests[folder])["resources"]["limits"]["memory"]
    size, unit = re.fullmatch(r"(\d+)(Mi|Gi)", limit).groups()
    assert needed <= int(size) * {"Mi": 2**20, "Gi": 2**30}[unit]


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_is_allowed_that_is_not_needed(manifests, folder):
    pod, container = pod_of(manifests[folder])["spec"], container_of(manifests[folder])
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    policy = only(manifests[folder], "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == []
    assert all(rule["from"] for rule in policy["ingress"])
    assert not kinds(manifests[folder], "Secret"), "keys do not belong into a manifest"


@pytest.mark.parametrize("folder", FOLDERS)
def test_kubernetes_cannot_set_our_variables(manifests, folder):
    """A Service called `assay` sets ASSAY_PORT=tcp://…, with which the service refuses to start."""
    assert only(manifests[folder], "Service")["metadata"]["name"] == "assay"
    assert pod_of(manifests[folder])["spec"]["enableServiceLinks"] is False


@pytest.mark.parametrize("folder", FOLDERS)
def test_numba_can_write_its_cache(manifests, folder):
    pod, container = pod_of(manifests[folder])["spec"], container_of(manifests[folder])
    (name,) = [mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == "/tmp"]
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == name]
    assert volume["emptyDir"]["medium"] == "Memory"
    assert "ASSAY_CACHE_DIR" not in environment_of(manifests[folder]), "the image's own kernels would not be found"


@pytest.mark.parametrize("folder", FOLDERS)
def test_probes_ask_for_routes_that_there_are(manifests, folder):
    container = container_of(manifests[folder])
    paths = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert paths == {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/livez"}
    assert {container[name]["httpGet"]["port"] for name in paths} == {"http"}
    assert [(port["name"], port["containerPort"]) for port in container["ports"]] == [("http", 8000)]


def test_a_rollout_never_takes_capacity_away(manifests):
    assert only(manifests["base"], "Deployment")["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert "replicas" not in only(manifests["overlays/production"], "Deployment")["spec"], "that is the autoscaler's"


def test_the_autoscaler_scales_what_there_is(manifests):
    for folder in ("base", "overlays/production"):
        target = only(manifests[folder], "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
        deployment = only(manifests[folder], "Deployment")
        assert target == {
            "apiVersion": deployment["apiVersion"],
            "kind": "Deployment",
            "name": deployment["metadata"]["name"],
        }
    assert not kinds(manifests["overlays/development"], "HorizontalPodAutoscaler")
    assert not kinds(manifests["overlays/development"], "PodDisruptionBudget")


def test_production_has_keys_alerts_and_the_dashboard(manifests):
    production = manifests["overlays/production"]
    assert environment_of(production)["ASSAY_API_KEYS_FILE"]["value"] == "/run/secrets/assay/keys"
    (volume,) = [volume for volume in pod_of(production)["spec"]["volumes"] if volume["name"] == "keys"]
    assert volume["secret"]["secretName"] == "assay-keys"
    (mount,) = [mount for mount in container_of(production)["volumeMounts"] if mount["name"] == "keys"]
    assert mount["mountPath"] == "/run/secrets/assay"
    assert len(kinds(production, "ServiceMonitor")) == len(kinds(production, "PrometheusRule")) == 1
    assert any("assay.json" in found["data"] for found in kinds(production, "ConfigMap"))
    assert {manifest["metadata"].get("namespace") for manifest in production} == {"assay", None}


def strings(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    for inner in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from strings(inner)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_image_has_a_version(manifests, folder):
    image = container_of(manifests[folder])["image"]
    assert re.fullmatch(r"assay:\d+\.\d+\.\d+(\.dev\d+)?", image)
    assert not any(text.endswith(":latest") for text in strings(manifests[folder]))


def test_the_folder_that_replaces_a_charts_values_builds(kubectl, tmp_path):
    """As deploy/README.md shows it, with this repository in place of its address."""
    (text,) = (shown.text for shown in snippets_of("deploy/README.md") if "kind: Kustomization" in shown.text)
    (address,) = re.findall(r"https://HOST/OWNER/assay//(\S+)\?ref=v[0-9.]+", text)
    base = os.path.relpath(ROOT / address, tmp_path.resolve())
    text = re.sub(r"https://HOST/\S+", base, text)
    (tmp_path / "kustomization.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "assay.toml").write_text("[server]\nmax_runs = 64\n", encoding="utf-8")
    patched = built(kubectl, str(tmp_path))
    assert container_of(patched)["image"].startswith("REGISTRY/assay@sha256:")
    assert container_of(patched)["resources"]["requests"] == {
        "cpu": "8",
        "memory": "4Gi",
        "ephemeral-storage": "256Mi",
    }
    assert pod_of(patched)["spec"]["nodeSelector"] == {"pool": "cpu"}
    spec = only(patched, "HorizontalPodAutoscaler")["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 8)
    assert settings_of(patched, tmp_path).max_runs == 64
    config = next(config for config in kinds(patched, "ConfigMap") if "assay.toml" in config["data"])
    volumes = pod_of(patched)["spec"]["volumes"]
    assert {"name": config["metadata"]["name"]} in [volume.get("configMap") for volume in volumes]
    assert {manifest["metadata"].get("namespace", "assay") for manifest in patched} == {"assay"}
