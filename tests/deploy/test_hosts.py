"""The image, Docker Compose and the systemd unit: what they share with the settings, the wheel and each other."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement

from assay.service.config import load
from tests.deploy.conftest import DEPLOY, ROOT, bytes_needed, read
from tests.packaging.test_wheel import SOURCES

UNIT = DEPLOY / "systemd" / "assay.service"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


class TestImage:
    def test_it_gets_what_the_wheel_is_made_of(self):
        copied = " ".join(re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE))
        let_through = re.findall(r"^!(\S+?)/?$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
        assert set(let_through) == {*SOURCES, "deploy/constraints.txt"} <= set(re.findall(r"[\w./]+", copied))

    def test_it_is_portable(self):
        """Without an explicit, empty list of features Numba adds those of the machine that builds the image."""
        assert re.search(r'NUMBA_CPU_NAME=\$\{CPU\}.*NUMBA_CPU_FEATURES=""', DOCKERFILE, re.DOTALL)
        assert re.search(r"^ARG CPU=x86-64-v\d$", DOCKERFILE, re.MULTILINE)

    def test_its_versions_are_allowed_and_every_dependency_has_one(self):
        """`make constraints` writes them; they are for the extras that an image may have."""
        assert "pip install --no-cache-dir --constraint constraints.txt" in DOCKERFILE
        lines = (DEPLOY / "constraints.txt").read_text(encoding="utf-8").splitlines()
        pinned = dict(line.split("==") for line in lines)
        extras = PROJECT["optional-dependencies"]
        required = [*PROJECT["dependencies"], *extras["arrow"], *extras["zstd"], *extras["lexical"], *extras["otel"]]
        for requirement in map(Requirement, required):
            assert pinned[requirement.name] in requirement.specifier, requirement


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return read("compose/compose.yaml")["services"]


class TestCompose:
    def test_the_service_accepts_its_variables_and_has_memory_and_time(self, services):
        environment = services["assay"]["environment"]
        assert all(isinstance(value, str) for value in environment.values())
        settings = load(environ=environment).server
        assert bytes_needed(settings) <= int(services["assay"]["mem_limit"].removesuffix("g")) * 2**30
        pause = int(services["assay"]["stop_grace_period"].removesuffix("s"))
        assert pause > settings.drain_seconds + settings.shutdown_seconds
        assert services["assay"]["sysctls"]["net.core.somaxconn"] >= settings.backlog

    def test_the_service_may_do_little(self, services):
        assert services["assay"]["read_only"] is True
        assert services["assay"]["cap_drop"] == ["ALL"]
        assert services["assay"]["security_opt"] == ["no-new-privileges:true"]
        assert services["assay"]["tmpfs"][0].startswith("/tmp:")
        ports = [port for service in services.values() for port in service["ports"]]
        assert len(ports) == 3
        assert all(port.startswith("127.0.0.1:") for port in ports)

    def test_what_is_mounted_is_there(self, services):
        volumes = read("compose/compose.yaml")["volumes"].keys()
        sources = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
        assert sources
        for source in sources:
            assert source in volumes or (DEPLOY / "compose" / source).exists(), source

    def test_images_have_versions(self, services):
        assert (DEPLOY / "compose" / services["assay"]["build"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
        assert services["assay"]["image"] == f"assay:{PROJECT['version']}"
        (image,) = read("kubernetes/base/kustomization.yaml")["images"]
        assert image["newTag"] == PROJECT["version"]
        others = [service["image"] for name, service in services.items() if name != "assay"]
        assert all(re.search(r":v?\d+\.\d+\.\d+$", image) for image in others)


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


class TestSystemd:
    def test_it_starts_the_service_with_settings_that_it_has_and_time_to_drain(self, section):
        assert section["ExecStart"] == ["/opt/assay/bin/assay serve --config /etc/assay/assay.toml"]
        assert section["CacheDirectory"] == ["assay"]
        assert "ASSAY_CACHE_DIR=%C/assay" in section["Environment"]
        assert "MemoryDenyWriteExecute" not in section, "machine code is written at start"
        environment = dict(entry.split("=", 1) for entry in section["Environment"])
        assert environment.pop("ASSAY_API_KEYS_FILE") == "%d/keys"
        assert section["LoadCredential"] == ["keys:/etc/assay/keys"]
        settings = load(environ=environment).server
        assert int(section["TimeoutStopSec"][0]) > settings.drain_seconds + settings.shutdown_seconds

    def test_systemd_accepts_it(self, tmp_path):
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
