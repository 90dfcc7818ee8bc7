"""The release workflow: the tags that it takes, what its jobs may do, and the addresses that package indexes show."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import addresses
import pytest
import yaml
from build.util import project_wheel_metadata

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY, TAG = "https://github.com/OWNER/assay", "v9.8.7"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
DISTRIBUTIONS = {"assay": ".", "assay-client": "clients", "assay-environments": "environments"}
TEXT = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
JOBS: dict[str, Any] = yaml.safe_load(TEXT)["jobs"]


def commands(job: str) -> list[str]:
    return [step["run"] for step in JOBS[job]["steps"] if "run" in step]


def test_its_distributions_are_those_of_the_repository():
    for name, folder in DISTRIBUTIONS.items():
        assert tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"] == name
        assert f"python -m build --outdir dist/{name} {folder}" in commands("distributions")
    assert JOBS["pypi"]["strategy"]["matrix"]["distribution"] == list(DISTRIBUTIONS)
    assert tuple(DISTRIBUTIONS.values()) == addresses.FOLDERS


TAGS = [
    ("v0.3.0", "0.3.0", "false"),
    ("v0.4.0rc1", "0.4.0rc1", "true"),
    ("v1.0.0b2", "1.0.0b2", "true"),
    ("v0.3.0.dev0", "0.3.0.dev0", None),
    ("v0.3.0", "0.3.0.dev0", None),
    ("v0.3.0+local", "0.3.0+local", None),
    ("vrc1", "rc1", None),
]


@pytest.mark.parametrize(("tag", "version", "prerelease"), TAGS)
def test_a_tag_is_the_version_of_all_and_none_under_development(tmp_path, tag: str, version: str, prerelease: str):
    for folder in DISTRIBUTIONS.values():
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n', encoding="utf-8")
    output = tmp_path / "output"
    names = {"GITHUB_REF_NAME": tag, "GITHUB_REPOSITORY": "OWNER/Assay", "GITHUB_OUTPUT": str(output)}
    script = "\n".join(commands("version"))
    ended = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, env=os.environ | names, stdout=subprocess.DEVNULL
    )
    assert (ended.returncode == 0) == (prerelease is not None)
    if prerelease:
        assert output.read_text(encoding="utf-8") == f"image=ghcr.io/owner/assay\nprerelease={prerelease}\n"


def test_one_distribution_with_another_version_stops_it(tmp_path):
    for name, folder in DISTRIBUTIONS.items():
        (tmp_path / folder).mkdir(exist_ok=True)
        version = "0.2.0" if name == "assay-environments" else "0.3.0"
        (tmp_path / folder / "pyproject.toml").write_text(f'version = "{version}"\n', encoding="utf-8")
    environment = os.environ | {"GITHUB_REF_NAME": "v0.3.0"}
    assert subprocess.run(["bash", "-e", "-c", commands("version")[0]], cwd=tmp_path, env=environment).returncode


def test_nothing_is_published_before_everything_is_tested_and_built():
    def before(job: str) -> set[str]:
        needs = JOBS[job].get("needs", [])
        needs = [needs] if isinstance(needs, str) else needs
        return {*needs, *(earlier for need in needs for earlier in before(need))}

    built = {"version", "ci", "distributions", "image", "index"}
    assert before("image") >= {"version", "ci"}
    assert before("pypi") == built
    assert before("release") == built | {"pypi"}
    assert JOBS["release"]["if"] == "${{ !cancelled() && !failure() }}"  # also where PyPI is not set up


def test_each_job_may_only_do_its_own():
    attested = {"attestations": "write", "id-token": "write"}
    assert {name: job.get("permissions") for name, job in JOBS.items()} == {
        "version": None,
        "ci": {"contents": "read"},
        "distributions": {**attested, "contents": "read"},
        "image": {**attested, "contents": "read", "packages": "write"},
        "index": {**attested, "packages": "write"},
        "pypi": {"id-token": "write"},
        "release": {"contents": "write"},
    }
    assert JOBS["pypi"]["environment"]["name"] == "pypi-${{ matrix.distribution }}"
    assert (JOBS["image"]["environment"], JOBS["index"]["environment"]) == ("image", "image")


def test_pypi_trusts_the_workflow_and_there_is_no_token_to_keep():
    (publish,) = (step for step in JOBS["pypi"]["steps"] if "pypi-publish" in step["uses"])
    assert publish["with"] == {"packages-dir": "dist/${{ matrix.distribution }}"}  # attestations are its default
    assert "secrets." not in TEXT
    assert [step for step in JOBS["pypi"]["steps"] if "run" in step] == []


def test_what_is_published_has_an_attestation():
    for job in ("distributions", "image", "index"):
        assert any(step.get("uses", "").startswith("actions/attest-build-provenance@") for step in JOBS[job]["steps"])


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the repository after the step that writes addresses."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "node_modules", "out", "site", "*.egg-info")
    copy = shutil.copytree(ROOT, tmp_path_factory.mktemp("checkout") / "assay", ignore=left_out, symlinks=True)
    command = next(command for command in commands("distributions") if "addresses.py" in command)
    server, _, name = REPOSITORY.partition("github.com/")
    names = {"GITHUB_SERVER_URL": f"{server}github.com", "GITHUB_REPOSITORY": name, "GITHUB_REF_NAME": TAG}
    subprocess.run(["bash", "-e", "-c", command], cwd=copy, env=os.environ | names, check=True)
    return copy


def texts(checkout: Path) -> dict[str, str]:
    return {
        f"{folder}/{name}": (checkout / folder / name).read_text(encoding="utf-8")
        for folder in DISTRIBUTIONS.values()
        for name in ("README.md", "pyproject.toml")
    }


def test_addresses_are_written_before_the_first_build():
    modules = re.findall(r"^python (?:-m )?(\S+)", "\n".join(commands("distributions")), re.MULTILINE)
    assert modules == ["deploy/addresses.py", "pip", "build", "build", "build"]


def check_links(text: str) -> None:
    """Check that every link and image of Markdown is absolute, and leads to the tag or outside the repository."""
    prose = re.sub(FENCE, "", text)
    targets = re.findall(r"\]\(([^()\s]*)", prose) + re.findall(r"(?:href|src)=[\"']([^\"']*)", prose)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []
    assert re.findall(r"^\[[^\]]+\]: (?!https://)", prose, re.MULTILINE) == []
    files = re.findall(rf"{REPOSITORY}/(blob|raw|tree)/([^/\s]+)/([^\s#]+)", "\n".join(targets))
    assert files
    for view, tag, path in files:
        assert tag == TAG
        assert (ROOT / path).is_dir() if view == "tree" else (ROOT / path).is_file(), path


@pytest.mark.parametrize("folder", DISTRIBUTIONS.values())
def test_links_of_each_readme_work_on_a_package_index(checkout: Path, folder: str):
    text = (checkout / folder / "README.md").read_text(encoding="utf-8")
    check_links(text)
    source = (ROOT / folder / "README.md").read_text(encoding="utf-8")
    assert re.findall(FENCE, text) == re.findall(FENCE, source)


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


@pytest.mark.parametrize(("written", "published"), LINKS, ids=[published.split("](")[-1] for _, published in LINKS])
def test_links_become_what_github_makes_of_them(tmp_path: Path, written: str, published: str):
    for name in ("docs", "clients"):
        (tmp_path / name).mkdir()
    for name in ("docs/rules.md", "docs/a.png"):
        (tmp_path / name).touch()
    page = tmp_path / "clients" / "README.md"
    page.write_text(f"{written}\n", encoding="utf-8")
    assert addresses.absolute(page, tmp_path, REPOSITORY, TAG) == f"{published}\n"


@pytest.mark.parametrize("folder", DISTRIBUTIONS.values())
def test_every_project_names_its_addresses(checkout: Path, folder: str):
    before, after = (
        tomllib.loads((root / folder / "pyproject.toml").read_text(encoding="utf-8")) for root in (ROOT, checkout)
    )
    added = {
        "Source": REPOSITORY,
        "Documentation": f"{REPOSITORY}/blob/{TAG}/docs/index.md",
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/{TAG}/CHANGELOG.md",
    }
    urls = after["project"].pop("urls")
    assert urls == added | before["project"].pop("urls")
    # An index reads "label, address" up to the first comma, and refuses longer labels.
    assert [label for label in urls if "," in label or len(label) > 32] == []
    assert after == before
    assert (ROOT / "docs" / "index.md").is_file()


def test_addresses_can_be_written_again_and_for_another_tag(checkout: Path):
    before = texts(checkout)
    addresses.main([REPOSITORY, TAG, str(checkout)])
    assert texts(checkout) == before
    project = before["./pyproject.toml"]
    again = addresses.with_urls(addresses.with_urls(project, REPOSITORY, "v9.9.0"), REPOSITORY, TAG)
    assert again == project


def test_a_broken_link_and_a_wrong_address_stop_the_release(tmp_path: Path):
    page = tmp_path / "README.md"
    page.write_text("See [this](missing.md).\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"missing\.md does not exist"):
        addresses.absolute(page, tmp_path, REPOSITORY, TAG)
    with pytest.raises(SystemExit, match="expected the https address of a repository"):
        addresses.main(["http://github.com/OWNER/assay", TAG])
    with pytest.raises(SystemExit, match=r"no \[project\.urls\]"):
        addresses.with_urls("[project]\n", REPOSITORY, TAG)


@pytest.mark.slow
@pytest.mark.parametrize("folder", DISTRIBUTIONS.values())
def test_the_metadata_has_the_addresses_and_no_relative_link(checkout: Path, folder: str):
    metadata = project_wheel_metadata(checkout / folder)
    check_links(str(metadata.json["description"]))
    urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL"))
    assert {"Source", "Documentation", "Issues", "Changelog"} <= urls.keys()
    assert all(url.startswith("https://") for url in urls.values())
