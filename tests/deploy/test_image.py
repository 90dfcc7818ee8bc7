"""The Dockerfile: what its linter says, and what the image has in common with what runs it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_its_linter_has_nothing_to_say():
    beside = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    hadolint = beside or shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("there is no hadolint here")
    shown = subprocess.run([hadolint, str(ROOT / "Dockerfile")], check=False, capture_output=True, text=True)
    assert (shown.returncode, shown.stdout) == (0, "")


def test_its_base_is_one_image_by_digest_on_a_line_that_dependabot_reads():
    """Dependabot updates the tag and digest of a FROM line, not those of an ARG."""
    base, *others = re.findall(r"^FROM (.+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+-slim@sha256:[0-9a-f]{64} AS base", base)
    assert others == ["base AS build", "base"]
    yaml = pytest.importorskip("yaml", reason="needs assay[deploy]")
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text(encoding="utf-8"))["updates"]
    (docker,) = (entry for entry in updates if entry["package-ecosystem"] == "docker")
    assert docker["directory"] == "/"
    (ignored,) = docker["ignore"]  # else the first proposal is another Python, and the digest stays
    assert ignored["dependency-name"] == "python"
    assert not any("patch" in kind for kind in ignored["update-types"])


def test_another_base_can_be_given():
    script = (ROOT / "deploy" / "image.sh").read_text(encoding="utf-8")
    assert 'buildah bud ${base:+--from "$base"} --tag' in script


def test_the_user_is_the_one_that_the_manifests_name():
    (user,) = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    deployment = (ROOT / "deploy" / "kubernetes" / "base" / "deployment.yaml").read_text(encoding="utf-8")
    assert (f"runAsUser: {user[0]}" in deployment, f"runAsGroup: {user[1]}" in deployment) == (True, True)
    assert re.search(rf"install -d -o {user[0]} -g {user[1]} /var/cache/assay", DOCKERFILE)


def test_of_deploy_it_is_built_with_the_versions_alone():
    build, _, image = DOCKERFILE.partition("\nFROM base\n")
    assert re.findall(r"deploy\S*", build) == ["deploy/constraints.txt"]
    assert re.findall(r"deploy\S*", (ROOT / ".dockerignore").read_text(encoding="utf-8")) == ["deploy/constraints.txt"]
    assert "pip install --no-cache-dir --constraint constraints.txt" in build
    assert "deploy" not in image


def test_its_versions_are_allowed_and_every_dependency_has_one():
    """`make constraints` writes them; they are for the extras that an image may have."""
    lines = (ROOT / "deploy" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for name in ("arrow", "zstd", "lexical", "otel") for one in extras[name])]
    for requirement in map(Requirement, wanted):
        assert pinned[requirement.name] in requirement.specifier, requirement
