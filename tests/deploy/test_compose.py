"""Docker Compose and what it mounts: names and paths that one file takes from another."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from assay.service.config import load

yaml = pytest.importorskip("yaml", reason="needs assay[deploy]")

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def read(path: str) -> Any:
    return yaml.safe_load((DEPLOY / path).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return read("compose/compose.yaml")["services"]


def test_the_service_accepts_its_variables(services):
    environment = services["assay"]["environment"]
    assert all(isinstance(value, str) for value in environment.values())
    settings = load(environ=environment).server
    memory = int(services["assay"]["mem_limit"].removesuffix("g")) * 2**30
    assert 400 * 2**20 + 6 * settings.max_work_bytes <= memory
    pause = int(services["assay"]["stop_grace_period"].removesuffix("s"))
    assert pause > settings.drain_seconds + settings.shutdown_seconds
    assert services["assay"]["sysctls"]["net.core.somaxconn"] >= settings.backlog


def test_the_service_may_do_little(services):
    assert services["assay"]["read_only"] is True
    assert services["assay"]["cap_drop"] == ["ALL"]
    assert services["assay"]["security_opt"] == ["no-new-privileges:true"]
    assert services["assay"]["tmpfs"][0].startswith("/tmp:")


def test_ports_are_on_loopback_alone(services):
    ports = [port for service in services.values() for port in service["ports"]]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_what_is_mounted_is_there(services):
    named = read("compose/compose.yaml")["volumes"].keys()
    sources = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    assert sources
    for source in sources:
        assert source in named or (DEPLOY / "compose" / source).exists(), source


def test_the_image_is_built_from_this_repository_under_its_version(services):
    assert (DEPLOY / "compose" / services["assay"]["build"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert services["assay"]["image"] == f"assay:{version}"
    (image,) = read("kubernetes/base/kustomization.yaml")["images"]
    assert image["newTag"] == version
    others = [service["image"] for name, service in services.items() if name != "assay"]
    assert all(re.search(r":v?\d+\.\d+\.\d+$", image) for image in others)


def test_prometheus_scrapes_the_service_and_reads_the_rules(services):
    config = read("prometheus/prometheus.yml")
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    (target,) = jobs["assay"]["static_configs"][0]["targets"]
    host, _, port = target.partition(":")
    assert host in services
    assert port == services["assay"]["ports"][0].split(":")[-1]
    mounted = [volume.split(":")[1] for volume in services["prometheus"]["volumes"]]
    assert {f"/etc/prometheus/{name}" for name in config["rule_files"]} <= set(mounted)


def test_grafana_finds_data_and_dashboard(services):
    (source,) = read("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in services
    (provider,) = read("grafana/provisioning/dashboards/assay.yaml")["providers"]
    mounted = [volume.split(":")[1] for volume in services["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/assay.json" in mounted
    assert "/etc/grafana/provisioning" in mounted
    assert services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] in mounted
