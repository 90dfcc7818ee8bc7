"""Write the addresses of a repository into what package indexes show: [project.urls] and the links of the READMEs.

The repository names no address of its own, so a fork needs no change. The release workflow runs this before it builds:

    python deploy/addresses.py https://github.com/OWNER/assay v0.3.0
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urljoin

FOLDERS = (".", "clients", "environments")
"""Folders of the three distributions."""

CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
IMAGE = re.compile(r"(?<=!\[)([^\]]*\]\()([^()\s]+)")
LINK = re.compile(r"(\]\()([^()\s]+)")
URLS = re.compile(r"^\[project\.urls\]\n((?:.+\n)*)", re.MULTILINE)


def main(arguments: Sequence[str]) -> None:
    """Rewrite the files of the checkout."""
    repository, tag, *folder = arguments
    if not re.fullmatch(r"https://[^/\s]+(/[\w.-]+)+", repository):
        sys.exit(f"{repository}: expected the https address of a repository, such as https://github.com/OWNER/assay")
    root = Path(*folder) if folder else Path(__file__).resolve().parents[1]
    for name in FOLDERS:
        readme, project = root / name / "README.md", root / name / "pyproject.toml"
        readme.write_text(absolute(readme, root, repository, tag), encoding="utf-8")
        project.write_text(with_urls(project.read_text(encoding="utf-8"), repository, tag), encoding="utf-8")


def absolute(page: Path, root: Path, repository: str, tag: str) -> str:
    """Return the text of a page with absolute links: pages and files at the tag, images as they are."""

    def address(target: str, view: str) -> str:
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            return target
        path = (page if target.startswith("#") else page.parent / target.partition("#")[0]).resolve()
        if path.is_relative_to(root.resolve()):
            if not path.exists():
                sys.exit(f"{page}: {target} does not exist")
            view = "tree" if path.is_dir() else view
        # As a browser does on GitHub, where ../../actions leaves /blob/main/.
        return urljoin(f"{repository}/{view}/{tag}/{page.relative_to(root).as_posix()}", target)

    def rewritten(text: str) -> str:
        text = IMAGE.sub(lambda match: match[1] + address(match[2], "raw"), text)
        return LINK.sub(lambda match: match[1] + address(match[2], "blob"), text)

    parts = CODE.split(page.read_text(encoding="utf-8"))
    return "".join(part if part.startswith("```") else rewritten(part) for part in parts)


def with_urls(project: str, repository: str, tag: str) -> str:
    """Return pyproject.toml with the addresses at the head of its [project.urls]."""
    urls = {
        "Source": repository,
        "Documentation": f"{repository}/blob/{tag}/docs/index.md",
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
    }
    section = URLS.search(project)
    if section is None:
        sys.exit("pyproject.toml has no [project.urls]")
    unchanged = [line for line in section[1].splitlines() if line.partition(" = ")[0] not in urls]
    lines = ["[project.urls]", *(f'{name} = "{url}"' for name, url in urls.items()), *unchanged, ""]
    return project[: section.start()] + "\n".join(lines) + project[section.end() :]


if __name__ == "__main__":
    main(sys.argv[1:])
