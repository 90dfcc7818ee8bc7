"""The image, Docker Compose and the systemd unit: what they share with the settings, the wheel and each other."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from assay.service.config import load
from tests.deploy.conftest import DEPLOY, ROOT, bytes_needed, read
from tests.packaging.test_wheel import SOURCES

UNIT = DEPLOY / "systemd" / "assay.service"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_image_gets_what_the_wheel_is_made_of():
    copied = " ".join(re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE))
    let_through = re.findall(r"^!(\S+?)/?$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    assert (
        set(let_through)
        == {*SOURCES, "deploy/constraints.txt", "deploy/kernels.py"}
        <= set(re.findall(r"[\w./]+", copied))
    )


def test_the_versions_of_the_image_are_allowed_and_every_dependency_has_one():
    """`make constraints` writes them; they are for the extras that an image may have."""
    pinned = dict(line.split("==") for line in (DEPLOY / "constraints.txt").read_text(encoding="utf-8").splitlines())
    extras = PROJECT["optional-dependencies"]
    required = [*PROJECT["dependencies"], *extras["arrow"], *extras["zstd"], *extras["lexical"], *extras["otel"]]
    for requirement in map(Requirement, required):
        assert pinned[requirement.name] in requirement.specifier, requirement


def test_compose_gives_the_service_settings_that_it_accepts_and_memory_and_time():
    compose = read("compose/compose.yaml")
    service = compose["services"]["assay"]
    assert all(isinstance(value, str) for value in service["environment"].values())
    settings = load(environ=service["environment"]).server
    assert bytes_needed(settings) <= int(service["mem_limit"].removesuffix("g")) * 2**30
    assert int(service["stop_grace_period"].removesuffix("s")) > settings.drain_seconds + settings.shutdown_seconds
    assert service["sysctls"]["net.core.somaxconn"] >= settings.backlog
    volumes = [volume for each in compose["services"].values() for volume in each.get("volumes", [])]
    sources = [volume.split(":")[0] for volume in volumes]
    assert [
        name for name in sources if name not in compose["volumes"] and not (DEPLOY / "compose" / name).exists()
    ] == []
    (image,) = read("kubernetes/base/kustomization.yaml")["images"]
    assert service["image"] == f"assay:{image['newTag']}" == f"assay:{PROJECT['version']}"


class Entries(dict[str, list[str]]):
    """A section in which a name may occur more than once."""

    def __setitem__(self, name: str, value: list[str]) -> None:
        super().__setitem__(name, [*self.get(name, []), *value] if isinstance(value, list) else value)


@pytest.fixture(scope="module")
def section() -> dict[str, list[str]]:
    """Return the entries of the unit's service."""
    parser = configparser.RawConfigParser(dict_type=Entries, strict=False)
    parser.optionxform = str
    parser.read(UNIT, encoding="utf-8")
    return {name: value.split("\n") for name, value in parser["Service"].items()}


def test_systemd_starts_the_service_with_settings_that_it_has_and_time_to_drain(section):
    assert section["ExecStart"] == ["/opt/assay/bin/assay serve --config /etc/assay/assay.toml"]
    assert "MemoryDenyWriteExecute" not in section, "machine code is written at start"
    environment = dict(entry.split("=", 1) for entry in section["Environment"])
    assert environment.pop("ASSAY_API_KEYS_FILE") == "%d/keys"
    assert section["LoadCredential"] == ["keys:/etc/assay/keys"]
    settings = load(environ=environment).server
    assert int(section["TimeoutStopSec"][0]) > settings.drain_seconds + settings.shutdown_seconds


def test_systemd_accepts_the_unit(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd here")
    unit = tmp_path / "assay.service"
    text = UNIT.read_text(encoding="utf-8")
    unit.write_text(text.replace("/opt/assay/bin/assay", f'"{sys.executable}"'), encoding="utf-8")
    shown = subprocess.run([analyze, "verify", str(unit)], check=False, capture_output=True, text=True)
    warnings = [line for line in (shown.stdout + shown.stderr).splitlines() if "assay" in line]
    assert (shown.returncode, warnings) == (0, [])
    security = [analyze, "security", "--offline=true", "--threshold=20", str(unit)]
    shown = subprocess.run(security, check=False, capture_output=True, text=True)
    if "unrecognized option" in shown.stderr:
        pytest.skip("this systemd cannot check files")
    assert shown.returncode == 0, shown.stdout.splitlines()[-1:]
