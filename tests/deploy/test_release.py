"""The release: its tags, what package indexes show, and the audit of dependencies."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import addresses
import audit
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY, TAG = "https://github.com/OWNER/assay", "v9.8.7"
DISTRIBUTIONS = {"assay": ".", "assay-client": "clients", "assay-environments": "environments"}
RELEASE = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]


@pytest.mark.parametrize(
    ("tag", "versions", "prerelease"),
    [
        ("v0.3.0", ["0.3.0"] * 3, "false"),
        ("v0.4.0rc1", ["0.4.0rc1"] * 3, "true"),
        ("v0.3.0.dev0", ["0.3.0.dev0"] * 3, None),
        ("v0.3.0+local", ["0.3.0+local"] * 3, None),
        ("vrc1", ["rc1"] * 3, None),
        ("v0.3.0", ["0.3.0", "0.3.0", "0.2.0"], None),
    ],
)
def test_a_tag_is_the_version_of_all_and_none_under_development(tmp_path, tag, versions, prerelease):
    for folder, version in zip(DISTRIBUTIONS.values(), versions, strict=True):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n', encoding="utf-8")
    output = tmp_path / "output"
    names = {"GITHUB_REF_NAME": tag, "GITHUB_REPOSITORY": "OWNER/Assay", "GITHUB_OUTPUT": str(output)}
    commands = [step["run"] for step in RELEASE["version"]["steps"] if "run" in step]
    command = ["bash", "-e", "-c", "\n".join(commands)]
    ended = subprocess.run(command, cwd=tmp_path, env=os.environ | names, stdout=subprocess.DEVNULL, check=False)
    assert (ended.returncode == 0) == (prerelease is not None)
    if prerelease:
        assert output.read_text(encoding="utf-8") == f"image=ghcr.io/owner/assay\nprerelease={prerelease}\n"


@pytest.mark.parametrize("folder", DISTRIBUTIONS.values())
def test_each_project_names_its_addresses(folder: str):
    text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    before, after = tomllib.loads(text), tomllib.loads(addresses.with_urls(text, REPOSITORY, TAG))
    added = {
        "Source": REPOSITORY,
        "Documentation": f"{REPOSITORY}/blob/{TAG}/docs/index.md",
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/{TAG}/CHANGELOG.md",
    }
    assert after["project"].pop("urls") == added | before["project"].pop("urls")
    assert after == before
    readme = addresses.absolute(ROOT / folder / "README.md", ROOT, REPOSITORY, TAG)
    targets = re.findall(r"\]\(([^()\s]*)", re.sub(r"(?ms)^```.*?^```$", "", readme))
    assert targets
    assert all(target.startswith("https://") for target in targets)


LINKS = [
    ("[a page](../docs/rules.md)", f"[a page]({REPOSITORY}/blob/{TAG}/docs/rules.md)"),
    ("[`a` of\n  a page](../docs/rules.md#part)", f"[`a` of\n  a page]({REPOSITORY}/blob/{TAG}/docs/rules.md#part)"),
    ("[here](#part)", f"[here]({REPOSITORY}/blob/{TAG}/clients/README.md#part)"),
    ("[a folder](../docs)", f"[a folder]({REPOSITORY}/tree/{TAG}/docs)"),
    ("![a picture](../docs/a.png)", f"![a picture]({REPOSITORY}/raw/{TAG}/docs/a.png)"),
    (
        "[![CI](../../../actions/ci.yml/badge.svg)](../../../actions/ci.yml)",
        f"[![CI]({REPOSITORY}/actions/ci.yml/badge.svg)]({REPOSITORY}/actions/ci.yml)",
    ),
    ("[a paper](https://arxiv.org/abs/2510.15600)", "[a paper](https://arxiv.org/abs/2510.15600)"),
    ("```text\n[code](../docs/rules.md)\n```", "```text\n[code](../docs/rules.md)\n```"),
]


def test_links_become_what_github_makes_of_them(tmp_path: Path):
    for name in ("docs", "clients"):
        (tmp_path / name).mkdir()
    for name in ("docs/rules.md", "docs/a.png"):
        (tmp_path / name).touch()
    page = tmp_path / "clients" / "README.md"
    for written, published in LINKS:
        page.write_text(f"{written}\n", encoding="utf-8")
        assert addresses.absolute(page, tmp_path, REPOSITORY, TAG) == f"{published}\n"
    page.write_text("See [this](missing.md).\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"missing\.md"):
        addresses.absolute(page, tmp_path, REPOSITORY, TAG)


GOOD = {"name": "numpy", "version": "2.4.6", "vulns": []}
BAD = {"name": "left", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}
SKIPPED = {"name": "right", "skip_reason": "Dependency not found on PyPI and could not be audited: right (1.0)"}
OWN = {"name": "assay", "skip_reason": "distribution marked as editable"}


@pytest.mark.parametrize(
    ("packages", "code", "shown"),
    [
        ([GOOD, OWN], 0, "1 packages audited, 0 known"),
        ([GOOD, BAD, SKIPPED], 1, "left 1.0: PYSEC-1, fixed in 1.1"),
        ([GOOD, SKIPPED], 3, "1 packages audited"),
        ([OWN], 3, "0 packages audited"),
    ],
)
def test_no_answer_of_the_audit_is_no_all_clear(packages, code, shown):
    verdict = audit.verdict(*audit.findings({"dependencies": packages}))
    assert verdict[0] == code
    assert shown in verdict[1]


def test_an_audit_that_fails_is_no_all_clear(capfd):
    assert audit.main(["somewhere", sys.executable, "-c", "import sys; sys.exit('no network')"]) == 3
    assert "no network" in capfd.readouterr().err
